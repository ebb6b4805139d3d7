import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  argumentsOf,
  browserMs,
  browserOf,
  callText,
  childOf,
  environmentOf,
  mustFind,
  startBrowserBridge,
  toolNames,
  type BrowserBridgeOptions,
} from '../support/browser-bed.ts';
import { findTestBrowser } from '../support/browser.ts';
import type { LineClient } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { bridgeProgram, structuredOf, Testbed } from '../support/testbed.ts';

let testbed: Testbed;
let server: PageServer;

beforeAll(async () => {
  server = await startPageServer();
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

interface Started {
  readonly client: LineClient;
  readonly childArgs: readonly string[];
  readonly childEnv: Readonly<Record<string, string>>;
  readonly browserArgs: readonly string[];
  readonly tools: readonly string[];
}

/** A bridge whose browser shows a page, and how its child and its browser were started. */
async function startBrowsing(options: BrowserBridgeOptions): Promise<Started> {
  const client = startBrowserBridge(testbed, options);
  await client.initialize();
  const tools = await toolNames(client);
  const text = await callText(client, 'browser_navigate', { url: `${server.url}/home` });
  expect(text).toContain('Page Title: Home');
  const child = await mustFind('the child', () => childOf(client));
  const browser = await mustFind('the browser', () => browserOf(client));
  return {
    client,
    childArgs: argumentsOf(child.pid),
    childEnv: environmentOf(child.pid),
    browserArgs: argumentsOf(browser.pid),
    tools,
  };
}

function following(args: readonly string[], flag: string): string | undefined {
  const at = args.indexOf(flag);
  return at < 0 ? undefined : args[at + 1];
}

/** Where the browser keeps its profile. */
function profileOf({ browserArgs }: Started): string {
  return browserArgs.find((arg) => arg.startsWith('--user-data-dir='))?.slice('--user-data-dir='.length) ?? '';
}

/** The browser that was chosen runs, as Chromium, and speaks only with its child. */
function expectChosenBrowser(started: Started): void {
  const { path } = findTestBrowser();
  expect(following(started.childArgs, '--executable-path')).toBe(path);
  expect(started.browserArgs).toContain('--remote-debugging-pipe');
  // Firefox's arguments have one dash; a port would let others in.
  expect(started.browserArgs.filter((arg) => /^-[^-]|^--remote-debugging-(port|address)/.test(arg))).toEqual([]);
}

describe("a variable of upstream that would take the bridge's decision away is told and has no effect", () => {
  test.each([
    ['PLAYWRIGHT_MCP_EXECUTABLE_PATH', '/bin/false'],
    ['PLAYWRIGHT_MCP_BROWSER', 'firefox'],
    ['PLAYWRIGHT_MCP_PORT', '0'],
    ['PLAYWRIGHT_MCP_HOST', '0.0.0.0'],
    ['PLAYWRIGHT_MCP_CDP_ENDPOINT', 'http://127.0.0.1:9'],
    ['PLAYWRIGHT_MCP_EXTENSION', 'true'],
  ])('%s=%s', async (name, value) => {
    const started = await startBrowsing({ env: { [name]: value } });
    expectChosenBrowser(started);
    expect(started.childEnv).not.toHaveProperty(name);
    expect(started.client.stderr).toContain(name);
    const info = structuredOf(await started.client.call('cloakbrowser_bridge_info'));
    expect(info['warnings']).toEqual([expect.stringContaining(name)]);
    await started.client.close();
  });
});

describe('a variable of upstream that is a setting of the bridge too is used by the bridge', () => {
  test('PLAYWRIGHT_MCP_ISOLATED=true keeps the profile with the session', async () => {
    const started = await startBrowsing({ isPersistent: true, env: { PLAYWRIGHT_MCP_ISOLATED: 'true' } });
    expectChosenBrowser(started);
    expect(profileOf(started)).toContain(`${started.childEnv['TMPDIR'] ?? '?'}/`);
    expect(started.client.stderr).not.toContain('PLAYWRIGHT_MCP_ISOLATED');
    await started.client.close();
  });

  test('PLAYWRIGHT_MCP_ISOLATED=false does not win over --isolated', async () => {
    const started = await startBrowsing({ env: { PLAYWRIGHT_MCP_ISOLATED: 'false' } });
    expectChosenBrowser(started);
    expect(started.childEnv).not.toHaveProperty('PLAYWRIGHT_MCP_ISOLATED');
    expect(profileOf(started)).toContain(`${started.childEnv['TMPDIR'] ?? '?'}/`);
    await started.client.close();
  });

  test('PLAYWRIGHT_MCP_USER_DATA_DIR is the profile', async () => {
    const profile = join(testbed.folders.root, 'profile');
    const env = { PLAYWRIGHT_MCP_USER_DATA_DIR: profile };
    const started = await startBrowsing({ isPersistent: true, env });
    expectChosenBrowser(started);
    expect(profileOf(started)).toBe(profile);
    expect(started.childEnv).not.toHaveProperty('PLAYWRIGHT_MCP_USER_DATA_DIR');
    await started.client.close();
  });

  test('PLAYWRIGHT_MCP_USER_DATA_DIR with --isolated: tools are listed, and the first call names both', async () => {
    const env = { PLAYWRIGHT_MCP_USER_DATA_DIR: join(testbed.folders.root, 'profile') };
    const client = startBrowserBridge(testbed, { env });
    await client.initialize();
    expect(await toolNames(client)).toContain('browser_navigate');
    const answer = await client.call('browser_navigate', { url: `${server.url}/home` }, { ms: browserMs });
    expect(answer.result?.['isError']).toBe(true);
    expect(JSON.stringify(answer)).toContain('PLAYWRIGHT_MCP_USER_DATA_DIR');
    expect(JSON.stringify(answer)).toContain('--isolated');
    await client.close();
  });

  test("PLAYWRIGHT_MCP_CONFIG is read, except for what it says of the bridge's browser", async () => {
    const config = join(testbed.folders.root, 'user.json');
    const browser = {
      browserName: 'firefox',
      cdpEndpoint: 'http://127.0.0.1:9',
      launchOptions: { executablePath: '/bin/false', channel: 'msedge', args: ['--lang=fr'] },
      contextOptions: { viewport: { width: 801, height: 602 } },
    };
    writeFileSync(config, JSON.stringify({ browser, capabilities: ['pdf'], server: { port: 0 } }));
    const started = await startBrowsing({ env: { PLAYWRIGHT_MCP_CONFIG: config } });
    expectChosenBrowser(started);
    expect(started.browserArgs).toContain('--lang=fr');
    expect(started.tools).toContain('browser_pdf_save');
    const size = await callText(started.client, 'browser_evaluate', {
      function: '() => innerWidth + "x" + innerHeight',
    });
    expect(size).toContain('801x602');
    await started.client.close();
  });
});

test('every other variable of upstream passes: PLAYWRIGHT_MCP_CAPS changes the tools', async () => {
  const started = await startBrowsing({ env: { PLAYWRIGHT_MCP_CAPS: 'pdf,storage' } });
  expectChosenBrowser(started);
  expect(started.childEnv).toHaveProperty('PLAYWRIGHT_MCP_CAPS', 'pdf,storage');
  expect(started.tools).toContain('browser_pdf_save');
  expect(started.tools).toContain('browser_cookie_list');
  expect(started.client.stderr).not.toContain('PLAYWRIGHT_MCP_CAPS');
  expect(await callText(started.client, 'browser_pdf_save', { filename: 'page.pdf' })).toContain('page.pdf');
  await started.client.close();
});

describe('folders', () => {
  test("a long TMPDIR: the child's is short enough for Chromium, and nothing is left in either", async () => {
    const long = join(testbed.folders.root, 'l'.repeat(80));
    mkdirSync(long);
    const started = await startBrowsing({ env: { TMPDIR: long } });
    const own = started.childEnv['TMPDIR'] ?? '';
    expect(own.length).toBeGreaterThan(0);
    expect(Buffer.byteLength(own)).toBeLessThanOrEqual(62);
    expect(statSync(own).mode & 0o777).toBe(0o700);
    await started.client.close();
    await waitForNoProcess(testbed.folders.root);
    expect(existsSync(own)).toBe(false);
    expect(readdirSync(long)).toEqual([]);
  });

  test.each([
    ['the root of the file system', '/'],
    // Nobody can make files here, root included.
    ['a folder that cannot be written', '/proc/sys'],
  ])('started in %s: files go to the folder that was told', async (_what, cwd) => {
    const before = readdirSync(cwd);
    const started = await startBrowsing({ cwd });
    const told = join(testbed.folders.home, '.local', 'share', 'cloakbrowser-mcp', 'work');
    expect(started.client.stderr).toContain(`files go to ${told}`);
    await callText(started.client, 'browser_take_screenshot', { filename: 'shot.png', scale: 'css' });
    expect(statSync(join(told, 'shot.png')).size).toBeGreaterThan(0);
    expect(readdirSync(join(told, '.playwright-mcp')).length).toBeGreaterThan(0);
    expect(readdirSync(cwd)).toEqual(before);
    const info = structuredOf(await started.client.call('cloakbrowser_bridge_info'));
    expect(info).toMatchObject({ session: { workingFolder: told } });
    await started.client.close();
  });

  test('a home that cannot be written: all works, with a temporary profile that is told', async () => {
    const home = join(testbed.folders.root, 'no-home');
    writeFileSync(home, 'a file where the folder should be');
    const client = testbed.startProgram({
      program: bridgeProgram,
      env: { HOME: home, CLOAKBROWSER_BINARY_PATH: findTestBrowser().path },
    });
    await client.initialize();
    expect(await toolNames(client)).toContain('browser_navigate');
    expect(await callText(client, 'browser_navigate', { url: `${server.url}/home` })).toContain('Page Title: Home');
    expect(client.stderr).toMatch(/profile is temporary/);
    await client.close();
    await waitForNoProcess(testbed.folders.root);
    expect(readdirSync(testbed.folders.tmp)).toEqual([]);
  });
});
