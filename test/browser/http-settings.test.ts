import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { argumentsOf, browserMs, callText } from '../support/browser-bed.ts';
import {
  browserBelow,
  childrenOf,
  evaluate,
  generationOf,
  killChild,
  learnToolList,
  startBrowserServer,
  stateOf,
  stopBrowserServer,
  type BrowserServerOptions,
} from '../support/browser-server.ts';
import { findTestBrowser } from '../support/browser.ts';
import type { JsonObject } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { initializeBody, postHeaders, send } from '../support/http-exchange.ts';
import { HttpClient, type HttpServer } from '../support/http-server.ts';
import { descendantsOf } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';

const ownKey = 'io.github.cloakbrowser-mcp/session';
const aliasKey = 'io.github.swimmwatch/cloakbrowser-mcp';

let testbed: Testbed;
/** Answers with the headers of the request. */
let echo: Server;
let echoUrl: string;
/** A browser that writes down how it was started, and runs without a screen even if it was told to use one. */
let browser: string;

beforeAll(async () => {
  testbed = await Testbed.make();
  browser = join(testbed.folders.root, 'browser');
  writeFileSync(
    browser,
    `#!/bin/sh
case "$*" in *remote-debugging*) printf '%s\\n' "$*" >> "${browser}.log" ;; esac
exec "${findTestBrowser().path}" --headless "$@"\n`,
  );
  chmodSync(browser, 0o755);
  echo = createServer((request, response) => {
    response.writeHead(request.url === '/' ? 200 : 204, { 'content-type': 'text/html' });
    response.end(`<title>Echo</title>${JSON.stringify(request.headers)}`);
  });
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
  echoUrl = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`;
  await learnToolList(testbed);
});

afterAll(async () => {
  echo.close();
  await testbed.close();
});

function start({ env, ...options }: BrowserServerOptions = {}): Promise<HttpServer> {
  return startBrowserServer(testbed, { ...options, env: { CLOAKBROWSER_BINARY_PATH: browser, ...env } });
}

function openWith(server: HttpServer, settings: JsonObject, key = ownKey): Promise<HttpClient> {
  return HttpClient.open(server.url, { params: { _meta: { [key]: settings } } });
}

/** What a page sees of the settings. */
interface Sight extends JsonObject {
  readonly size: string;
  readonly headers: Readonly<Record<string, string>>;
}

async function look(client: HttpClient): Promise<Sight> {
  await callText(client, 'browser_navigate', { url: echoUrl });
  const seen = await evaluate(
    client,
    `() => ({
      size: innerWidth + 'x' + innerHeight,
      language: navigator.language,
      zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      agent: navigator.userAgent,
      cookie: document.cookie,
      stored: JSON.stringify(Object.entries(localStorage)),
      headers: JSON.parse(document.body.innerText),
    })`,
  );
  return seen as Sight;
}

/** How the newest browser was told to start. */
function lastStart(): string {
  return readFileSync(`${browser}.log`, 'utf8').trim().split('\n').at(-1) ?? '';
}

const agent = 'Tester/1.0 (session)';

function storageState(value = 'begun'): JsonObject {
  const cookie = { name: 'from', value, domain: '127.0.0.1', path: '/', expires: -1 };
  const full = { ...cookie, httpOnly: false, secure: false, sameSite: 'Lax' };
  return { cookies: [full], origins: [{ origin: echoUrl, localStorage: [{ name: 'from', value }] }] };
}

/** Each setting with what a page sees of it. */
const table = (): readonly (readonly [name: string, value: unknown, seen: JsonObject])[] => [
  ['viewport', { width: 444, height: 333 }, { size: '444x333' }],
  ['locale', 'de-CH', { language: 'de-CH', headers: { 'accept-language': 'de-CH' } }],
  ['timezoneId', 'Asia/Kathmandu', { zone: expect.stringMatching(/^Asia\/Kat[h]?mandu$/) }],
  ['userAgent', agent, { agent, headers: { 'user-agent': agent } }],
  ['extraHTTPHeaders', { 'X-Team': 'red' }, { headers: { 'x-team': 'red' } }],
  ['storageState', storageState(), { cookie: 'from=begun', stored: '[["from","begun"]]' }],
];
const names = ['viewport', 'locale', 'timezoneId', 'userAgent', 'extraHTTPHeaders', 'storageState'] as const;

function rowOf(name: string): readonly [string, unknown, JsonObject] {
  const row = table().find(([one]) => one === name);
  if (row === undefined) throw new Error(`No row ${name}`);
  return row;
}

describe('a setting of a session', () => {
  let server: HttpServer;
  let plain: Sight;

  beforeAll(async () => {
    server = await start();
    const client = await server.open();
    plain = await look(client);
    await client.end();
  });

  test.each(names)('%s alone is seen in the page, and changes nothing else', async (name) => {
    const [, value, seen] = rowOf(name);
    const client = await openWith(server, { [name]: value });
    const sight = await look(client);
    expect(sight).toMatchObject(seen);
    const { headers: _seen, ...changed } = seen;
    const { headers: _plain, ...others } = plain;
    expect(sight).toMatchObject({ ...others, ...changed });
    await client.end();
  });

  test('headless: false starts a browser with windows, true one without; neither is seen by others', async () => {
    for (const [settings, isHeadless] of [
      [{ headless: false }, false],
      [{ headless: true }, true],
      [{}, true],
    ] as const) {
      const client = await openWith(server, settings);
      await look(client);
      expect(lastStart().includes('--headless')).toBe(isHeadless);
      expect(argumentsOf((await generationOf(client)).pid).includes('--headless')).toBe(isHeadless);
      await client.end();
    }
  });

  test('all seven together are all seen, and stay after browser_close and after the loss of the child', async () => {
    const settings = Object.fromEntries(table().map(([name, value]) => [name, value]));
    const client = await openWith(server, { ...settings, headless: false });
    const all = table().reduce<JsonObject>((sum, [, , seen]) => {
      const headers = { ...(sum['headers'] as JsonObject), ...(seen['headers'] as JsonObject) };
      return { ...sum, ...seen, headers };
    }, {});
    expect(await look(client)).toMatchObject(all);
    expect(lastStart()).not.toContain('--headless');
    await callText(client, 'browser_close');
    expect(await look(client)).toMatchObject(all);
    await killChild(client);
    expect(await look(client)).toMatchObject(all);
    expect((await generationOf(client)).number).toBe(2);
    await client.end();
  });

  test('timezone is another spelling of timezoneId', async () => {
    const client = await openWith(server, { timezone: 'Asia/Tokyo' });
    expect(await look(client)).toMatchObject({ zone: 'Asia/Tokyo' });
    await client.end();
  });

  test("the other project's key works with its own names, and is not read beside ours", async () => {
    const contextOptions = Object.fromEntries(
      table()
        .filter(([name]) => name !== 'storageState')
        .map(([name, value]) => [name, value]),
    );
    const client = await openWith(server, { headless: false, contextOptions }, aliasKey);
    expect(await look(client)).toMatchObject({
      size: '444x333',
      language: 'de-CH',
      agent,
      headers: { 'x-team': 'red' },
    });
    expect(lastStart()).not.toContain('--headless');
    await client.end();
    const both = { [ownKey]: { locale: 'fr-FR' }, [aliasKey]: { contextOptions: { locale: 'it-IT' } } };
    const second = await HttpClient.open(server.url, { params: { _meta: both } });
    expect(await look(second)).toMatchObject({ language: 'fr-FR', agent: plain['agent'] });
    await second.end();
  });

  test('is fixed: a second initialize is refused and changes nothing', async () => {
    const client = await openWith(server, { locale: 'de-CH' });
    const again = initializeBody('2025-11-25', { _meta: { [ownKey]: { locale: 'fr-FR' } } });
    const answer = await client.send({ body: again });
    expect(answer.status).toBe(400);
    expect((await answer.messages())[0]).toMatchObject({ id: 'init', error: { data: { reason: 'invalid_request' } } });
    expect(await look(client)).toMatchObject({ language: 'de-CH' });
    await client.end();
  });

  test('viewport null: the page is as large as the window', async () => {
    const client = await openWith(server, { viewport: null });
    const { size } = await look(client);
    expect(size).not.toBe(plain.size);
    expect(await evaluate(client, '() => innerWidth + "x" + outerWidth')).toMatch(/^(\d+)x\1$/);
    await client.end();
  });
});

describe('a setting that is refused', () => {
  let server: HttpServer;

  beforeAll(async () => {
    server = await start({ settings: { 'session-settings': 'viewport,locale,extraHTTPHeaders' } });
  });

  test.each([
    ['an unknown one', ownKey, { language: 'de' }, '.language: unknown session setting'],
    [
      'one that the operator does not allow',
      ownKey,
      { headless: false },
      '.headless: this server does not let clients',
    ],
    ['a storage state that is a path', ownKey, { storageState: '/etc/passwd' }, '.storageState: this server does not'],
    ['a proxy', ownKey, { proxy: { server: 'http://127.0.0.1:9' } }, '.proxy: unknown session setting'],
    ['a path of a browser', ownKey, { executablePath: '/bin/sh' }, '.executablePath: unknown session setting'],
    ['a wrong value', ownKey, { viewport: { width: 0, height: 1 } }, '.viewport: must be an object of width and'],
    ['a wrong value beside a right one', ownKey, { locale: 'de', viewport: 7 }, '.viewport: must be an object of'],
    ['no object', ownKey, 'headless', ': must be an object, got "headless"'],
    ['one of the other key', aliasKey, { contextOptions: { locale: 7 } }, '.contextOptions.locale: must be a language'],
    ['an unknown one of the other key', aliasKey, { stealth: true }, '.stealth: unknown session setting'],
  ])(
    '%s: an error with the id of the request that names it, and nothing is opened',
    async (_what, key, value, complaint) => {
      const setting = `${key}${complaint.split(':')[0] ?? ''}`;
      const body = { ...initializeBody('2025-11-25', { _meta: { [key]: value } }), id: 'mine' };
      const answer = await send(server.url, { headers: postHeaders, body });
      expect([answer.status, answer.contentType]).toEqual([400, 'application/json']);
      expect(answer.headers).not.toHaveProperty('mcp-session-id');
      const [message] = await answer.messages();
      expect(message).toMatchObject({
        id: 'mine',
        error: { code: -32602, data: { reason: 'session_setting', setting } },
      });
      expect(message?.error?.message).toContain(`${key}${complaint}`);
      expect((await server.status()).sessions).toEqual([]);
      expect(await server.metric('sessions_opened_total')).toBe(0);
      expect(childrenOf(server)).toEqual([]);
    },
  );

  test('of a secret one the value is not shown, in the answer or in the log', async () => {
    const value = { 'X-Key': 'secret-of-a-header\nX-Other: 1' };
    const body = initializeBody('2025-11-25', { _meta: { [ownKey]: { extraHTTPHeaders: value } } });
    const answer = await send(server.url, { headers: postHeaders, body });
    expect(answer.status).toBe(400);
    expect(await answer.text()).not.toContain('secret-of-a-header');
    expect(server.program.stderr).not.toContain('secret-of-a-header');
  });

  test('no setting can be given when the list is empty, and a session without any opens', async () => {
    const closed = await start({ settings: { 'session-settings': '[]' } });
    const body = initializeBody('2025-11-25', { _meta: { [ownKey]: { locale: 'de' } } });
    expect((await send(closed.url, { headers: postHeaders, body })).status).toBe(400);
    const client = await closed.open();
    expect(await client.end()).toBe(200);
  });
});

describe('secrets in settings', () => {
  const header = 'Bearer header-secret-4d1f';
  const value = 'cookie-secret-90ab';
  const secrets = [header, 'header-secret-4d1f', value];
  const leaks = (text: string): string[] => secrets.filter((secret) => text.includes(secret));

  /** The files below the test's folder that hold a secret. */
  async function leakingFiles(): Promise<string[]> {
    const entries = (await listEntries(testbed.folders.root)).map((entry) => join(testbed.folders.root, entry));
    const files = entries.filter((entry) => statSync(entry, { throwIfNoEntry: false })?.isFile() === true);
    return files.filter((file) => leaks(readFileSync(file, 'latin1')).length > 0);
  }

  test('are used, and in no log, no command line, no file for others, and in no file at all after the end', async () => {
    const server = await start({ settings: { 'log-level': 'trace' } });
    const client = await openWith(server, {
      extraHTTPHeaders: { authorization: header },
      storageState: storageState(value),
    });
    expect(await look(client)).toMatchObject({ headers: { authorization: header }, cookie: `from=${value}` });
    expect(leaks(JSON.stringify(await stateOf(client)))).toEqual([]);
    expect(
      leaks(
        descendantsOf(server.program.pid)
          .map(({ command }) => command)
          .join('\n'),
      ),
    ).toEqual([]);

    const { pid } = await generationOf(client);
    const args = argumentsOf(pid);
    const workspace = dirname(dirname(args[args.indexOf('--config') + 1] ?? ''));
    expect(statSync(workspace).mode & 0o777).toBe(0o700);
    const files = await leakingFiles();
    expect(files.length).toBeGreaterThanOrEqual(2);
    expect(files.filter((file) => !file.startsWith(`${workspace}/`))).toEqual([]);
    const own = files.filter((file) => /\/(config|state)\.json$/.test(file));
    expect(own.map((file) => statSync(file).mode & 0o777)).toEqual([0o600, 0o600]);

    await killChild(client);
    expect(await look(client)).toMatchObject({ cookie: `from=${value}` });
    await client.end();
    expect(await leakingFiles()).toEqual([]);
    await stopBrowserServer(testbed, server);
    expect(leaks(server.program.stderr)).toEqual([]);
  });

  test('are not told when a child that knows them writes them down and ends', async () => {
    const cli = join(testbed.folders.root, 'cli.mjs');
    writeFileSync(
      cli,
      `import { readFileSync } from 'node:fs';
      const valueOf = (flag) => process.argv[process.argv.indexOf(flag) + 1];
      if (process.argv.includes('--storage-state'))
        for (const flag of ['--config', '--storage-state']) console.error('told', readFileSync(valueOf(flag), 'utf8'));
      process.exitCode = 3;`,
    );
    const server = await start({ settings: { 'log-level': 'trace' }, env: { PLAYWRIGHT_MCP_CLI_PATH: cli } });
    const client = await openWith(server, {
      extraHTTPHeaders: { authorization: header },
      storageState: storageState(value),
    });
    const answer = await client.call('browser_navigate', { url: echoUrl }, { ms: browserMs });
    expect(answer.result?.['isError']).toBe(true);
    expect(leaks(JSON.stringify([answer, await stateOf(client)]))).toEqual([]);
    await client.end();
    await stopBrowserServer(testbed, server);
    expect(server.program.stderr).toContain('told');
    expect(server.program.stderr).toContain('extraHTTPHeaders');
    expect(leaks(server.program.stderr)).toEqual([]);
  });
});

describe('the fingerprint', () => {
  test('of each session is its own, and stays with it when the child is replaced', async () => {
    const server = await start();
    const clients = await Promise.all([server.open(), server.open(), server.open()]);
    const seedOf = async (client: HttpClient): Promise<string | undefined> => {
      await look(client);
      const { pid } = await browserBelow((await generationOf(client)).pid);
      return argumentsOf(pid).find((arg) => arg.startsWith('--fingerprint='));
    };
    const seeds = await Promise.all(clients.map((client) => seedOf(client)));
    expect(new Set(seeds).size).toBe(3);
    for (const seed of seeds) expect(seed).toMatch(/^--fingerprint=\d{5}$/);
    const first = clients[0];
    await killChild(first);
    expect(await seedOf(first)).toBe(seeds[0]);
    expect((await generationOf(first)).number).toBe(2);
    await callText(first, 'browser_close');
    expect(await seedOf(first)).toBe(seeds[0]);
    await Promise.all(clients.map((client) => client.end()));
  });
});
