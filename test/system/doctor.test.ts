import { createServer } from 'node:http';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { findTestBrowser } from '../support/browser.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { listEntries } from '../support/folders.ts';
import { processesOf, waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** A launch on a busy machine; the doctor itself gives up after 60 s. */
const launchMs = 90_000;

const checkSchema = z.strictObject({
  name: z.string(),
  status: z.enum(['ok', 'warning', 'error']),
  message: z.string(),
  mend: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
});
const reportSchema = z.strictObject({
  status: z.enum(['ok', 'warning', 'error']),
  name: z.literal('cloakbrowser-mcp'),
  version: z.string(),
  checks: z.array(checkSchema),
  settings: z.array(z.strictObject({ name: z.string(), value: z.unknown(), source: z.string() })),
});
type Report = z.infer<typeof reportSchema>;

let testbed: Testbed;
/** Where nothing listens, so that no test can download anything. */
const nowhere = { CLOAKBROWSER_DOWNLOAD_URL: 'http://127.0.0.1:1' };

beforeEach(async () => {
  testbed = await Testbed.make();
});
afterEach(async () => {
  await testbed.close();
});

function doctor(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandResult> {
  return runCommand(['doctor', '--cache-dir', testbed.folders.cache, ...args], {
    env: { ...testbed.env, ...nowhere, ...env },
    cwd: testbed.folders.cwd,
  });
}

async function report(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number | null; report: Report }> {
  const { code, stdout, stderr } = await doctor(['--json', ...args], env);
  expect(stderr).toBe('');
  return { code, report: reportSchema.parse(JSON.parse(stdout)) };
}

function find(from: Report, name: string): z.infer<typeof checkSchema> {
  const check = from.checks.find((candidate) => candidate.name === name);
  if (check === undefined) throw new Error(`no check ${name}`);
  return check;
}

function withBrowser(): Record<string, string> {
  return { CLOAKBROWSER_BINARY_PATH: findTestBrowser().path };
}

describe('doctor with a browser', () => {
  it(
    'proves the whole chain, in a line for each check, and leaves nothing behind',
    async () => {
      const { code, stdout, stderr } = await doctor([], withBrowser());
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      for (const name of ['node', 'settings', 'upstream', 'browser', 'licence', 'display', 'temp-folder', 'proxy']) {
        expect(stdout).toMatch(new RegExp(`^  ok +${name} `, 'm'));
      }
      expect(stdout).toMatch(/^ {2}ok +launch +\d+ tools listed, browser started and a page loaded in [\d.]+ s$/m);
      expect(stdout).toContain('(CLOAKBROWSER_BINARY_PATH)');
      expect(stdout).toMatch(/\n\d+ checks: \d+ ok, \d+ warning, 0 error\n$/);
      await waitForNoProcess(testbed.folders.root);
      expect(await listEntries(testbed.folders.tmp)).toEqual([]);
      expect(await listEntries(testbed.folders.cwd)).toEqual([]);
    },
    launchMs,
  );

  it(
    'shows no secret of a proxy, a licence or the environment, and says that the proxy is not reached',
    async () => {
      const secrets = ['proxy-secret-7741', 'cb_licence-secret-7742', 'token-secret-7743'];
      const env = {
        ...withBrowser(),
        PLAYWRIGHT_MCP_PROXY_SERVER: `http://somebody:${secrets[0]}@127.0.0.1:1`,
        CLOAKBROWSER_LICENSE_KEY: secrets[1] ?? '',
        SOME_TOKEN: secrets[2] ?? '',
      };
      const results = await Promise.all([doctor([], env), doctor(['--json', '--binary-path', '/nonexistent'], env)]);
      const all = results.map(({ stdout, stderr }) => stdout + stderr).join('\n');
      expect(secrets.filter((secret) => all.includes(secret))).toEqual([]);
      expect(results.map(({ code }) => code)).toEqual([1, 1]);
      expect(all).toContain('http://127.0.0.1:1 cannot be reached');
      expect(all).toContain('a key is set by CLOAKBROWSER_LICENSE_KEY');
      expect(all).toMatch(/ok +launch/);
    },
    launchMs,
  );

  it(
    'gives everything back when it is interrupted',
    async () => {
      const { folders } = testbed;
      let pid = 0;
      const ended = runCommand(['doctor'], {
        env: { ...testbed.env, ...withBrowser() },
        cwd: folders.cwd,
        onStart: (started) => {
          pid = started;
        },
      });
      await waitUntil(
        'the browser',
        () => processesOf(folders.root).find(({ command }) => command.includes('--remote-debugging-pipe')),
        launchMs,
      );
      process.kill(pid, 'SIGTERM');
      expect((await ended).code).toBe(143);
      await waitForNoProcess(folders.root);
      expect(await listEntries(folders.tmp)).toEqual([]);
    },
    launchMs,
  );
});

describe('doctor without a browser', () => {
  it('warns that it is to be downloaded, and asks no server for it', async () => {
    let requests = 0;
    const server = createServer((_request, response) => {
      requests += 1;
      response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    try {
      const { code, report: found } = await report([], { CLOAKBROWSER_DOWNLOAD_URL: `http://127.0.0.1:${port}` });
      expect({ code, status: found.status, requests }).toEqual({ code: 0, status: 'warning', requests: 0 });
      expect(find(found, 'browser').message).toContain('it will be downloaded at the first start');
      expect(find(found, 'launch')).toMatchObject({ status: 'warning' });
      expect(find(found, 'browser-folder').status).toBe('ok');
      expect(await listEntries(testbed.folders.home)).toEqual([]);
    } finally {
      server.close();
    }
  });

  it('fails on a path where there is none and says how to mend it', async () => {
    const { code, stdout } = await doctor(['--binary-path', '/nonexistent/chrome']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/error +browser +The browser \/nonexistent\/chrome cannot be used: there is no such file/);
    expect(stdout).toMatch(/mend: Correct --binary-path/);
    expect(stdout).toMatch(/warning +launch +not tried because of browser/);
  });

  it(
    'fails on a program that is no browser',
    async () => {
      const { code, report: found } = await report(['--binary-path', process.execPath]);
      expect(code).toBe(1);
      expect(find(found, 'browser').status).toBe('ok');
      expect(find(found, 'launch')).toMatchObject({ status: 'error' });
      expect(find(found, 'launch').mend).not.toBe('');
      expect(await listEntries(testbed.folders.tmp)).toEqual([]);
    },
    launchMs,
  );
});

describe('doctor on settings', () => {
  it('tells as JSON what it checked and all settings with their sources', async () => {
    const { report: found } = await report(['--headless', 'true', '--binary-path', '/nonexistent']);
    const names = 'node settings upstream browser licence display sandbox temp-folder cache-folder working-folder';
    expect(found.checks.map(({ name }) => name)).toEqual([...names.split(' '), 'profile-folder', 'proxy', 'launch']);
    expect(find(found, 'upstream').details).toMatchObject({ package: '@playwright/mcp' });
    expect(found.settings).toContainEqual({ name: 'headless', value: true, source: '--headless' });
    expect(found.settings).toContainEqual({ name: 'restartMax', value: 5, source: 'default' });
  });

  it('lists every problem of environment and file and starts nothing', async () => {
    const file = join(testbed.folders.cwd, 'settings.json');
    await writeFile(file, '{ "restartMax": "many" }');
    const env = { CLOAK_PLAYWRIGHT_MCP_HEADLESS: 'maybe', CLOAK_PLAYWRIGHT_MCP_HEADLES: 'true' };
    const { code, report: found } = await report(['--config-file', file], { ...withBrowser(), ...env });
    expect(code).toBe(1);
    const settings = found.checks.filter(({ name }) => name === 'settings');
    expect(settings.map(({ status }) => status).toSorted()).toEqual(['error', 'error', 'warning']);
    expect(settings.every(({ mend }) => mend !== undefined)).toBe(true);
    const messages = settings.map(({ message }) => message).join('\n');
    expect(messages).toContain('CLOAK_PLAYWRIGHT_MCP_HEADLESS: must be true or false');
    expect(messages).toContain(`config file ${file}: restartMax: must be a whole number`);
    expect(messages).toContain('CLOAK_PLAYWRIGHT_MCP_HEADLES: ignored');
    expect(find(found, 'launch').message).toBe('not tried because of settings');
  });

  it('names folders that cannot be written, and what to set instead', async () => {
    const file = join(testbed.folders.cwd, 'file');
    await writeFile(file, '');
    const { code, report: found } = await report([
      ...['--binary-path', '/nonexistent', '--output-dir', join(file, 'out')],
      ...['--user-data-dir', join(file, 'profile'), '--cache-dir', join(file, 'cache')],
    ]);
    expect(code).toBe(1);
    const expected = { 'output-folder': 'error', 'profile-folder': 'error', 'cache-folder': 'warning' };
    for (const [name, status] of Object.entries(expected)) {
      expect(find(found, name)).toMatchObject({ status, message: expect.stringContaining('cannot be written') });
      expect(find(found, name).mend).toMatch(/--[a-z-]+-dir/);
    }
  });

  it('names a display that a browser with a window lacks', async () => {
    const { code, report: found } = await report(['--headless=false', '--binary-path', '/nonexistent']);
    expect(code).toBe(1);
    expect(find(found, 'display')).toMatchObject({ status: 'error', mend: expect.stringContaining('xvfb-run') });
  });

  it('names an upstream program that is not there', async () => {
    const { code, report: found } = await report(['--upstream-cli', '/nonexistent/cli.js'], withBrowser());
    expect(code).toBe(1);
    expect(find(found, 'upstream')).toMatchObject({ status: 'error', mend: expect.stringContaining('cli.js') });
  });

  it('ends with 2 on a flag that it does not know', async () => {
    const { code, stdout, stderr } = await doctor(['--headles']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('did you mean --headless');
  });
});
