import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ServerStatus } from '../../src/core/server-status.ts';
import { browserMs } from '../support/browser-bed.ts';
import { findTestBrowser } from '../support/browser.ts';
import { listEntries } from '../support/folders.ts';
import { blocksOf, readDocument, sectionOf } from '../support/markdown.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { bridgeProgram, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

const variable = 'CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN';
const readme = commandsOf('README.md', 'Many clients over HTTP');
const service = 'docs/service.md';

let testbed: Testbed;
let pages: PageServer;
let env: Record<string, string>;
let port: number;

/** The blocks of shell commands of a section. */
function commandsOf(file: string, title: string): string[] {
  const blocks = blocksOf(sectionOf(title, readDocument(file)));
  return blocks.filter(({ language }) => language === 'sh').map(({ text }) => text.trim());
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: free } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return free;
}

/** Runs commands as they are written, but at the port and on the page of this test. */
function shell(commands: string): { readonly pid: number; output: string; readonly exited: Promise<number | null> } {
  const text = commands.replaceAll(':3000', `:${port}`).replaceAll('https://example.org/', `${pages.url}/home`);
  const child = spawn('bash', ['-euc', text], { cwd: testbed.folders.cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const running = {
    pid: child.pid ?? 0,
    output: '',
    exited: once(child, 'close').then(([code]) => code as number | null),
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      running.output += part;
    });
  }
  return running;
}

/** What commands print that succeed. */
async function run(commands: string): Promise<string> {
  const running = shell(commands);
  expect([await running.exited, running.output]).toEqual([0, running.output]);
  return running.output;
}

beforeAll(async () => {
  testbed = await Testbed.make();
  pages = await startPageServer();
  port = await freePort();
  const bin = join(testbed.folders.root, 'bin');
  mkdirSync(bin);
  // In place of the published package its build, which npx would install first.
  const stub = `#!/bin/sh\n[ "$1 $2" = "-y cloakbrowser-mcp" ] && shift 2 && exec "${process.execPath}" "${bridgeProgram}" "$@"\n`;
  writeFileSync(join(bin, 'npx'), stub);
  chmodSync(join(bin, 'npx'), 0o755);
  env = {
    ...testbed.env,
    PATH: `${bin}:${testbed.env['PATH'] ?? ''}`,
    CLOAKBROWSER_BINARY_PATH: findTestBrowser().path,
    CLOAK_PLAYWRIGHT_MCP_HTTP_PORT: String(port),
    CLOAK_PLAYWRIGHT_MCP_HTTP_FILES: 'true',
    CLOAK_PLAYWRIGHT_MCP_HTTP_MIN_FREE_MEMORY: '0',
  };
});

afterAll(async () => {
  await testbed.close();
  await pages.close();
});

test(
  'the commands of the README and of the page about the service do what they say, from the start to the end',
  async () => {
    const [start = '', , ask = ''] = readme;
    const [byHand = ''] = commandsOf(service, 'Clients');
    const [fetchFile = ''] = commandsOf(service, 'Files');
    const [status = ''] = commandsOf(service, 'Operation');
    expect(commandsOf(service, 'Start')).toEqual([start]);

    const [makeToken = '', serve = ''] = start.split('\n');
    const token = await run(`${makeToken}\nprintf %s "$${variable}"`);
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    env = { ...env, [variable]: token };
    const server = shell(`exec ${serve}`);
    await waitUntil(
      'Listening on',
      () => server.output.includes(`Listening on http://127.0.0.1:${port}/mcp\n`) || undefined,
      browserMs,
    );
    // The search for the browser takes a moment.
    await waitUntil('a ready server', async () => ((await readyStatus()) === 200 ? true : undefined), browserMs);

    const answers = await run(ask);
    expect(answers).toContain('"status":"ready"');
    expect(answers).toMatch(/sessions +0 of 32/);

    const [session = '', end = ''] = byHand.split(/\n(?=.*-X DELETE)/);
    const results = await run(session);
    expect(results).toContain('"name":"cloakbrowser-mcp"');
    expect(results).toContain(`Page URL: ${pages.url}/home`);
    const [, name = ''] = /\(\.playwright-mcp\/(page-[^)]+)\)/.exec(results) ?? [];
    expect(await run(fetchFile.replace('NAME', name))).toContain('heading "Welcome"');

    const told = JSON.parse(await run(status)) as ServerStatus;
    expect(told.sessions).toMatchObject([{ client: { name: 'curl' }, calls: 1, inFlight: 0 }]);
    await run(end);
    expect((JSON.parse(await run(status)) as ServerStatus).sessions).toEqual([]);

    process.kill(server.pid, 'SIGTERM');
    expect(await server.exited).toBe(0);
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  },
  3 * browserMs,
);

async function readyStatus(): Promise<number> {
  return (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
}
