import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { argumentsOf, callText, environmentOf, resultText, callTool } from '../support/browser-bed.ts';
import {
  browserBelow,
  evaluate,
  generationOf,
  learnToolList,
  startBrowserServer,
  stateOf,
  stopBrowserServer,
  workingFolderOf,
  type BrowserServerOptions,
} from '../support/browser-server.ts';
import { findTestBrowser } from '../support/browser.ts';
import type { JsonObject } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { HttpClient, type HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;
let pages: PageServer;

beforeAll(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
  await learnToolList(testbed);
});

afterAll(async () => {
  await testbed.close();
  await pages.close();
});

/** A session whose browser shows a page. */
async function browse(server: HttpServer, settings?: JsonObject): Promise<HttpClient> {
  const meta = settings === undefined ? {} : { _meta: { 'io.github.cloakbrowser-mcp/session': settings } };
  const client = await HttpClient.open(server.url, { params: meta });
  expect(resultText(await callTool(client, 'browser_navigate', { url: `${pages.url}/storage` }))).toContain(
    'Title: Storage',
  );
  return client;
}

/** A session has the browser that the bridge chose, with a profile that is its own and ends with it. */
async function expectIsolated(client: HttpClient): Promise<string> {
  const { pid } = await generationOf(client);
  const child = argumentsOf(pid);
  expect(child).toContain('--isolated');
  expect(child[child.indexOf('--executable-path') + 1]).toBe(findTestBrowser().path);
  const browser = argumentsOf((await browserBelow(pid)).pid);
  expect(browser).toContain('--remote-debugging-pipe');
  expect(browser.filter((arg) => /^-[^-]|^--remote-debugging-(port|address)/.test(arg))).toEqual([]);
  const profile = browser.find((arg) => arg.startsWith('--user-data-dir=')) ?? '';
  expect(profile).toContain(`=${environmentOf(pid)['TMPDIR'] ?? '?'}/`);
  expect(await callText(client, 'browser_snapshot')).toContain('visits 1 cookie visits=1;');
  return profile;
}

describe('a variable of upstream that would take away what each session has of its own has no effect', () => {
  const profile = (): string => join(testbed.folders.root, 'shared-profile');
  const config = (): string => {
    const path = join(testbed.folders.root, 'upstream.json');
    const browser = { isolated: false, userDataDir: profile(), cdpEndpoint: 'http://127.0.0.1:9' };
    writeFileSync(path, JSON.stringify({ browser, server: { port: 0, host: '0.0.0.0' }, sharedBrowserContext: true }));
    return path;
  };

  test.each([
    ['PLAYWRIGHT_MCP_ISOLATED', () => 'false'],
    ['PLAYWRIGHT_MCP_USER_DATA_DIR', profile],
    ['PLAYWRIGHT_MCP_CONFIG', config],
    ['PLAYWRIGHT_MCP_SHARED_BROWSER_CONTEXT', () => 'true'],
    ['PLAYWRIGHT_MCP_EXECUTABLE_PATH', () => '/bin/false'],
    ['PLAYWRIGHT_MCP_BROWSER', () => 'firefox'],
    ['PLAYWRIGHT_MCP_PORT', () => '1'],
    ['PLAYWRIGHT_MCP_HOST', () => '127.0.0.1'],
    ['PLAYWRIGHT_MCP_ALLOWED_HOSTS', () => 'mcp.example.org'],
    ['PLAYWRIGHT_MCP_CDP_ENDPOINT', () => 'http://127.0.0.1:9'],
    ['PLAYWRIGHT_MCP_EXTENSION', () => 'true'],
  ])('%s', async (name, value) => {
    const server = await startBrowserServer(testbed, { env: { [name]: value() } });
    const client = await browse(server);
    await expectIsolated(client);
    expect(environmentOf((await generationOf(client)).pid)).not.toHaveProperty(name);
    expect(await stateOf(client)).toMatchObject({
      session: { profile: 'temporary, of this session alone' },
      problems: [],
    });
    await client.end();
    expect(await listEntries(profile())).toEqual([]);
    expect((await listEntries(testbed.folders.home)).filter((entry) => entry.includes('ms-playwright'))).toEqual([]);
    await stopBrowserServer(testbed, server);
  });

  test('all of them at once, and the flags beside them', async () => {
    const env = {
      PLAYWRIGHT_MCP_ISOLATED: 'false',
      PLAYWRIGHT_MCP_USER_DATA_DIR: profile(),
      PLAYWRIGHT_MCP_SHARED_BROWSER_CONTEXT: 'true',
      PLAYWRIGHT_MCP_EXECUTABLE_PATH: '/bin/false',
      PLAYWRIGHT_MCP_BROWSER: 'firefox',
      PLAYWRIGHT_MCP_EXTENSION: 'true',
      PLAYWRIGHT_MCP_CDP_HEADERS: 'a: b',
      PLAYWRIGHT_MCP_PROFILE_DIR_NAME: 'Default',
    };
    const args = ['--user-data-dir', profile(), '--shared-browser-context', '--config', config()];
    const server = await startBrowserServer(testbed, { env, args });
    const [client, second] = await Promise.all([browse(server), browse(server)]);
    expect(await expectIsolated(client)).not.toBe(await expectIsolated(second));
    for (const name of ['user-data-dir', 'SHARED_BROWSER_CONTEXT', 'EXECUTABLE_PATH', 'MCP_BROWSER', 'EXTENSION'])
      expect(server.program.stderr).toMatch(new RegExp(`^.*${name}.*ignored`, 'm'));
    await Promise.all([client.end(), second.end()]);
    expect(await listEntries(profile())).toEqual([]);
    await stopBrowserServer(testbed, server);
  });

  test('PLAYWRIGHT_MCP_OUTPUT_DIR is the folder in which each session has one of its own', async () => {
    const out = join(testbed.folders.root, 'out');
    mkdirSync(out);
    const server = await startBrowserServer(testbed, { env: { PLAYWRIGHT_MCP_OUTPUT_DIR: out } });
    const [first, second] = await Promise.all([browse(server), browse(server)]);
    const entries = await listEntries(out);
    const folders = entries.filter((entry) => !entry.includes('/'));
    expect(folders).toHaveLength(2);
    for (const folder of folders)
      expect(entries.filter((entry) => entry.startsWith(`${folder}/page-`))).toHaveLength(1);
    expect(await workingFolderOf(first)).not.toBe(await workingFolderOf(second));
    await Promise.all([first.end(), second.end()]);
    await stopBrowserServer(testbed, server);
  });
});

describe("the operator's choice counts for a session that makes none, and gives way to one that does", () => {
  const state = (value: string): JsonObject => ({
    cookies: [{ name: 'from', value, domain: '127.0.0.1', path: '/', expires: -1 }],
    origins: [{ origin: pages.url, localStorage: [{ name: 'from', value }] }],
  });
  const stateFile = (): string => {
    const path = join(testbed.folders.root, 'operator-state.json');
    writeFileSync(path, JSON.stringify(state('operator')));
    return path;
  };
  const configFile = (): string => {
    const path = join(testbed.folders.root, 'operator.json');
    const contextOptions = {
      viewport: { width: 801, height: 602 },
      userAgent: 'Operator/1.0',
      locale: 'pt-BR',
      timezoneId: 'America/Bahia',
      extraHTTPHeaders: { 'X-Team': 'operator' },
      colorScheme: 'dark',
    };
    writeFileSync(path, JSON.stringify({ browser: { contextOptions } }));
    return path;
  };

  async function look(client: HttpClient): Promise<JsonObject> {
    const seen = await evaluate(
      client,
      `() => ({
        size: innerWidth + 'x' + innerHeight,
        agent: navigator.userAgent,
        language: navigator.language,
        zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        stored: localStorage.getItem('from'),
        scheme: matchMedia('(prefers-color-scheme: dark)').matches,
      })`,
    );
    return seen as JsonObject;
  }

  const own = (): JsonObject => ({
    viewport: { width: 444, height: 333 },
    userAgent: 'Own/1.0',
    locale: 'de-CH',
    timezoneId: 'Asia/Tokyo',
    storageState: state('own'),
  });

  test.each([
    [
      'flags',
      () => ({ args: ['--viewport-size', '801x602', '--user-agent', 'Operator/1.0', '--storage-state', stateFile()] }),
    ],
    [
      'variables',
      () => ({
        env: {
          PLAYWRIGHT_MCP_VIEWPORT_SIZE: '801x602',
          PLAYWRIGHT_MCP_USER_AGENT: 'Operator/1.0',
          PLAYWRIGHT_MCP_STORAGE_STATE: stateFile(),
        },
      }),
    ],
  ] as const)('said by %s', async (_how, options: () => BrowserServerOptions) => {
    const server = await startBrowserServer(testbed, options());
    const plain = await browse(server);
    expect(await look(plain)).toMatchObject({ size: '801x602', agent: 'Operator/1.0', stored: 'operator' });
    await plain.end();
    const client = await browse(server, own());
    expect(await look(client)).toMatchObject({ size: '444x333', agent: 'Own/1.0', language: 'de-CH', stored: 'own' });
    await client.end();
    const windowed = await browse(server, { viewport: null });
    const seen = await look(windowed);
    expect(seen).toMatchObject({ agent: 'Operator/1.0', stored: 'operator' });
    expect(seen['size']).not.toBe('801x602');
    expect(await evaluate(windowed, '() => innerWidth === outerWidth')).toBe(true);
    await windowed.end();
    await stopBrowserServer(testbed, server);
  });

  test("said by upstream's configuration file, of which the rest stays", async () => {
    const server = await startBrowserServer(testbed, { args: ['--config', configFile()] });
    const plain = await browse(server);
    const operator = { size: '801x602', agent: 'Operator/1.0', language: 'pt-BR', zone: 'America/Bahia', scheme: true };
    expect(await look(plain)).toMatchObject(operator);
    await plain.end();
    const client = await browse(server, own());
    expect(await look(client)).toEqual({
      size: '444x333',
      agent: 'Own/1.0',
      language: 'de-CH',
      zone: 'Asia/Tokyo',
      stored: 'own',
      scheme: true,
    });
    await client.end();
    const windowed = await browse(server, { viewport: null });
    const seen = await look(windowed);
    expect(seen).toMatchObject({ ...operator, size: expect.not.stringMatching('801x602') as string });
    await windowed.end();
    await stopBrowserServer(testbed, server);
  });

  test('said by --device: size and user agent give way', async () => {
    const server = await startBrowserServer(testbed, { args: ['--device', 'iPhone 15'] });
    // Without a tag for it, a page on a phone is laid out wider than its screen.
    const sizeOf = async (client: HttpClient): Promise<string> =>
      callText(client, 'browser_run_code_unsafe', { code: 'async (page) => page.viewportSize()' });
    const client = await browse(server, own());
    expect(await look(client)).toMatchObject({ agent: 'Own/1.0', language: 'de-CH' });
    expect(await sizeOf(client)).toContain('{"width":444,"height":333}');
    await client.end();
    await stopBrowserServer(testbed, server);
  });
});
