import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findTestBrowser } from '../support/browser.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { listEntries } from '../support/folders.ts';
import { startPageServer } from '../support/page-server.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { Testbed, bridgeProgram } from '../support/testbed.ts';
import { sendAll, startDownloadServer } from './binary-downloads.ts';

/** A demo on a busy machine, unpacking of a browser included. */
const demoMs = 120_000;

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});
afterEach(async () => {
  await testbed.close();
});

/** A folder for PATH with the browser of the tests in it, as an installed Chromium. */
function installBrowser(): string {
  const folder = join(testbed.folders.root, 'bin');
  mkdirSync(folder);
  symlinkSync(findTestBrowser().path, join(folder, 'chromium'));
  return folder;
}

function demo(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  program = bridgeProgram,
): Promise<CommandResult> {
  return runCommand(['demo', '--cache-dir', testbed.folders.cache, ...args], {
    // Nothing listens there, so that CloakBrowser cannot be downloaded unless a test gives a server.
    env: { ...testbed.env, CLOAKBROWSER_DOWNLOAD_URL: 'http://127.0.0.1:1', ...env },
    cwd: testbed.folders.cwd,
    program,
  });
}

async function expectNothingLeft(): Promise<void> {
  await waitForNoProcess(testbed.folders.root);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
}

/** The file that the demo tells of. */
function screenshotIn(stdout: string): { path: string; isPng: boolean } {
  const path = /^Screenshot: (.*) \([\d.]+ kB\)$/m.exec(stdout)?.[1] ?? '';
  return { path, isPng: readFileSync(path).subarray(1, 4).toString() === 'PNG' };
}

describe('demo', () => {
  it(
    'opens its own page with an installed browser and shows timeline, snapshot and screenshot',
    async () => {
      const folder = installBrowser();
      const { code, stdout, stderr } = await demo([], { PATH: `${folder}:${testbed.env['PATH']}` });
      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout).toContain(`Browser: ${join(folder, 'chromium')}, found on this machine.`);
      expect(stdout).toContain('CloakBrowser is not installed; http://127.0.0.1:1 cannot be reached.');
      const steps = ['initialize answered', '\\d+ tools listed', 'browser ready', 'page loaded', 'screenshot taken'];
      expect(stdout).toMatch(new RegExp(steps.map((step) => `^ *[\\d.]+ s {2}${step}.*$`).join('[\\s\\S]*'), 'm'));
      expect(stdout).toContain('heading "It works" [level=1]');
      const { path, isPng } = screenshotIn(stdout);
      expect(isPng).toBe(true);
      expect(dirname(path)).toBe(join(testbed.folders.cwd, '.playwright-mcp'));
      await expectNothingLeft();
    },
    demoMs,
  );

  it(
    'opens the page that is given, with the settings that are given',
    async () => {
      const pages = await startPageServer();
      try {
        const output = join(testbed.folders.root, 'out');
        const { code, stdout } = await demo([`${pages.url}/form`, '--output-dir', output], {
          CLOAKBROWSER_BINARY_PATH: findTestBrowser().path,
        });
        expect(code).toBe(0);
        expect(stdout).toContain('(CLOAKBROWSER_BINARY_PATH)');
        expect(pages.hits).toContain('/form');
        expect(dirname(screenshotIn(stdout).path)).toBe(output);
      } finally {
        await pages.close();
      }
    },
    demoMs,
  );

  it(
    'fails on a page that cannot be loaded, and says why',
    async () => {
      const pages = await startPageServer();
      await pages.close();
      const { code, stderr } = await demo([pages.url], { CLOAKBROWSER_BINARY_PATH: findTestBrowser().path });
      expect(code).toBe(1);
      expect(stderr).toMatch(/The demo failed\. .*net::ERR_CONNECTION_REFUSED/);
      expect(stderr).toContain('Check the address and the network.');
      await expectNothingLeft();
    },
    demoMs,
  );

  it(
    'downloads CloakBrowser where it can, telling progress',
    async () => {
      const program = `#!/bin/sh\nexec "${findTestBrowser().path}" "$@"\n`;
      const server = await startDownloadServer(sendAll, { program });
      try {
        const { code, stdout, stderr } = await demo([], { CLOAKBROWSER_DOWNLOAD_URL: server.url });
        expect({ code, archives: server.archives.length }).toEqual({ code: 0, archives: 1 });
        expect(stderr).toContain('downloading CloakBrowser');
        expect(stdout).toMatch(/^Browser: CloakBrowser [\d.]+, downloaded to /m);
        expect(screenshotIn(stdout).isPng).toBe(true);
        await expectNothingLeft();
      } finally {
        await server.close();
      }
    },
    demoMs,
  );

  it(
    'goes on to an installed browser when the download fails',
    async () => {
      const server = await startDownloadServer((response) => {
        response.writeHead(404).end();
      });
      try {
        const env = { PATH: `${installBrowser()}:${testbed.env['PATH']}`, CLOAKBROWSER_DOWNLOAD_URL: server.url };
        const { code, stdout } = await demo([], env);
        expect(code).toBe(0);
        expect(stdout).toMatch(/found on this machine\. CloakBrowser is not installed; .*HTTP 404/);
        await expectNothingLeft();
      } finally {
        await server.close();
      }
    },
    demoMs,
  );

  it(
    'unpacks the Chromium of the development dependencies when there is no other',
    async () => {
      const empty = join(testbed.folders.root, 'empty');
      mkdirSync(empty);
      const { code, stdout, stderr } = await demo([], { PATH: empty });
      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout).toContain('Browser: Chromium of the development dependencies.');
      expect(screenshotIn(stdout).isPng).toBe(true);
      await expectNothingLeft();
    },
    demoMs,
  );

  it('says how to get a browser where the package is installed without one', async () => {
    const modules = join(testbed.folders.root, 'node_modules');
    const installed = join(modules, 'cloakbrowser-mcp');
    mkdirSync(installed, { recursive: true });
    const root = dirname(dirname(bridgeProgram));
    cpSync(dirname(bridgeProgram), join(installed, 'dist'), { recursive: true });
    cpSync(join(root, 'package.json'), join(installed, 'package.json'));
    for (const name of ['@playwright', 'cloakbrowser'])
      symlinkSync(join(root, 'node_modules', name), join(modules, name));
    const empty = join(testbed.folders.root, 'empty');
    mkdirSync(empty);
    const { code, stderr } = await demo([], { PATH: empty }, join(installed, 'dist/main.js'));
    expect(code).toBe(1);
    expect(stderr).toContain('No Chromium or Chrome was found on this machine.');
    expect(stderr).toMatch(/Install Chromium or Chrome, name a browser with --binary-path PATH/);
    expect(readdirSync(testbed.folders.cwd)).toEqual([]);
    await expectNothingLeft();
  });
});
