import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { argumentsOf, browserMs, callText, environmentOf } from '../support/browser-bed.ts';
import {
  browserBelow,
  browsersBelow,
  childrenOf,
  evaluate,
  expectNoSession,
  foldersOf,
  generationOf,
  killChild,
  learnToolList,
  startBrowserServer,
  stopBrowserServer,
  waitForTabs,
  workingFolderOf,
} from '../support/browser-server.ts';
import type { JsonObject } from '../support/client.ts';
import { HttpClient, type HttpServer, type ServerSettings } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { descendantsOf, isRunning } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';
import { steady, writtenFiles, type Side } from './volatile.ts';

const cold: ServerSettings = { 'http-spare-children': 1, 'http-spare-browsers': 0 };
const warm: ServerSettings = { 'http-spare-children': 0, 'http-spare-browsers': 1 };

let testbed: Testbed;
let pages: PageServer;

beforeAll(async () => {
  pages = await startPageServer();
});

afterAll(async () => {
  await pages.close();
});

beforeEach(async () => {
  testbed = await Testbed.make();
  await learnToolList(testbed);
});

afterEach(async () => {
  await testbed.close();
});

/** Waits until this many children, and children with a browser, wait for sessions. */
async function waitForSpares(server: HttpServer, children: number, browsers: number): Promise<void> {
  const wanted = JSON.stringify({ children, browsers });
  await waitUntil(
    `spares ${wanted}`,
    async () => JSON.stringify((await server.status()).spares) === wanted || undefined,
    browserMs,
  );
}

function visit(client: HttpClient, page = 'home'): Promise<string> {
  return callText(client, 'browser_navigate', { url: `${pages.url}/${page}` });
}

describe('a spare child', () => {
  test('is taken by the session that first needs one, and another one is made', async () => {
    const server = await startBrowserServer(testbed, { settings: cold });
    await waitForSpares(server, 1, 0);
    const [spare] = childrenOf(server);
    const client = await server.open();
    expect((await generationOf(client)).pid).toBe(0);
    await waitForSpares(server, 1, 0);
    expect(await visit(client)).toContain('Page Title: Home');
    expect((await generationOf(client)).pid).toBe(spare);
    await waitForSpares(server, 1, 0);
    const others = childrenOf(server).filter((pid) => pid !== spare);
    expect(others).toHaveLength(1);
    await client.end();
    expect(childrenOf(server)).toEqual(others);
    expect(foldersOf(testbed, server)).toHaveLength(2);
    await stopBrowserServer(testbed, server);
  });

  test('that is killed while it waits is replaced', async () => {
    const server = await startBrowserServer(testbed, { settings: cold });
    await waitForSpares(server, 1, 0);
    const [spare = 0] = childrenOf(server);
    process.kill(spare, 'SIGKILL');
    await server.waitForLog('spare ended', { pid: spare });
    await waitForSpares(server, 1, 0);
    const [next] = childrenOf(server);
    expect(next).not.toBe(spare);
    const client = await server.open();
    expect(await visit(client)).toContain('Page Title: Home');
    expect((await generationOf(client)).pid).toBe(next);
    await client.end();
    await stopBrowserServer(testbed, server);
  });

  test('is not for a session with settings of its own, which starts its own child', async () => {
    const server = await startBrowserServer(testbed, { settings: { ...cold, ...warm, 'http-spare-children': 1 } });
    await waitForSpares(server, 1, 1);
    const spares = new Set(childrenOf(server));
    const params = { _meta: { 'io.github.cloakbrowser-mcp/session': { locale: 'de-CH' } } };
    const client = await HttpClient.open(server.url, { params });
    await visit(client);
    expect(await evaluate(client, '() => navigator.language')).toBe('de-CH');
    const { pid } = await generationOf(client);
    expect(spares.has(pid)).toBe(false);
    expect(new Set(childrenOf(server))).toEqual(spares.add(pid));
    await client.end();
    await stopBrowserServer(testbed, server);
  });

  test('of which none is wanted: nothing runs before the first call', async () => {
    const server = await startBrowserServer(testbed);
    const client = await server.open();
    expect(childrenOf(server)).toEqual([]);
    await visit(client);
    expect(childrenOf(server)).toEqual([(await generationOf(client)).pid]);
    await client.end();
    await expectNoSession(testbed, server);
    await stopBrowserServer(testbed, server);
  });
});

describe('a spare browser', () => {
  test('is the one that the first call of a session uses, and the session is as private as any other', async () => {
    const server = await startBrowserServer(testbed, { settings: warm });
    await waitForSpares(server, 0, 1);
    const [spare] = browsersBelow(server.program.pid);
    const client = await server.open();
    expect(await visit(client, 'storage')).toContain('Page Title: Storage');
    const { pid, number } = await generationOf(client);
    expect(number).toBe(1);
    expect((await browserBelow(pid)).pid).toBe(spare?.pid);
    expect(await callText(client, 'browser_snapshot')).toContain('visits 1 cookie visits=1');
    await waitForSpares(server, 0, 1);
    const second = await server.open();
    await visit(second, 'storage');
    expect(await callText(second, 'browser_snapshot')).toContain('visits 1 cookie visits=1');
    expect(await workingFolderOf(second)).not.toBe(await workingFolderOf(client));
    await Promise.all([client.end(), second.end()]);
    expect(isRunning(spare?.pid ?? 0)).toBe(false);
    await stopBrowserServer(testbed, server);
  });

  test('that is killed while it waits spoils nobody: the session that gets its child sees a page', async () => {
    const server = await startBrowserServer(testbed, { settings: warm });
    await waitForSpares(server, 0, 1);
    const [spare] = browsersBelow(server.program.pid);
    process.kill(spare?.pid ?? 0, 'SIGKILL');
    await waitUntil('the end of the browser', () => !isRunning(spare?.pid ?? 0) || undefined);
    await waitForSpares(server, 0, 1);
    const client = await server.open();
    await waitForTabs(client);
    expect(await visit(client)).toContain('Page Title: Home');
    await client.end();
    await stopBrowserServer(testbed, server);
  });

  test('and its child that are killed under a session are replaced by fresh ones', async () => {
    const server = await startBrowserServer(testbed, { settings: warm });
    await waitForSpares(server, 0, 1);
    const client = await server.open();
    await visit(client);
    const { pid } = await generationOf(client);
    await killChild(client);
    expect(await visit(client)).toContain('Page Title: Home');
    expect(await generationOf(client)).toMatchObject({ number: 2, state: 'ready' });
    expect(isRunning(pid)).toBe(false);
    await client.end();
    await stopBrowserServer(testbed, server);
  });

  test('is not kept where the roots of clients decide what a browser may open', async () => {
    const server = await startBrowserServer(testbed, {
      settings: { ...warm, ...cold, 'http-spare-browsers': 2, 'http-pass-roots': 'true' },
    });
    await waitForSpares(server, 1, 0);
    expect(browsersBelow(server.program.pid)).toEqual([]);
    await stopBrowserServer(testbed, server);
  });
});

describe('the end of the server', () => {
  test('takes the spares that wait along', async () => {
    const server = await startBrowserServer(testbed, { settings: { ...warm, 'http-spare-children': 1 } });
    await waitForSpares(server, 1, 1);
    expect(foldersOf(testbed, server)).toHaveLength(3);
    await stopBrowserServer(testbed, server);
  });

  test('takes a spare along that is being started', async () => {
    const server = await startBrowserServer(testbed, { settings: warm });
    await waitUntil('a browser', () => browsersBelow(server.program.pid)[0], browserMs);
    await stopBrowserServer(testbed, server);
  });

  test('by a kill: the next start removes what spares left', async () => {
    const server = await startBrowserServer(testbed, { settings: warm });
    await waitForSpares(server, 0, 1);
    const left = descendantsOf(server.program.pid).map(({ pid }) => pid);
    server.program.kill('SIGKILL');
    await server.program.exited;
    const next = await startBrowserServer(testbed);
    const client = await next.open();
    await visit(client);
    await waitUntil('the sweep', () => foldersOf(testbed, server).length === 0 || undefined, browserMs);
    expect(left.filter((pid) => isRunning(pid))).toEqual([]);
    await client.end();
    await stopBrowserServer(testbed, next);
  });
});

interface Runner {
  readonly client: HttpClient;
  readonly side: Side;
  /** Everything that came without being asked for. */
  readonly told: () => unknown[];
}

/** A session that has made one call, so that its child is known. */
async function run(server: HttpServer, name: string): Promise<Runner> {
  const client = await server.open();
  const stream = await client.listen();
  const first = await client.request('tools/list');
  expect(first.error).toBeUndefined();
  const told = () => stream.soFar.map(({ method, params }) => ({ method, params }));
  const started = await client.call('browser_navigate', { url: `${pages.url}/home` }, { ms: browserMs });
  const { pid } = await generationOf(client);
  const args = argumentsOf(pid);
  const side: Side = {
    name,
    root: await workingFolderOf(client),
    tmp: environmentOf(pid)['TMPDIR'] ?? '',
    config: args[args.indexOf('--config') + 1] ?? '',
  };
  results.set(side, [comparable(first, side), comparable(started, side)]);
  return { client, side, told };
}

const results = new WeakMap<Side, string[]>();

function comparable({ id: _id, ...rest }: JsonObject, side: Side): string {
  return steady(JSON.stringify(rest, undefined, 1), side);
}

const steps: readonly (readonly [tool: string, args: JsonObject])[] = [
  ['browser_tabs', { action: 'list' }],
  ['browser_snapshot', {}],
  [
    'browser_evaluate',
    {
      function: `() => [history.length, innerWidth, innerHeight, outerWidth, outerHeight, screen.width, name, document.referrer,
        navigator.userAgent, navigator.languages, document.cookie, JSON.stringify(localStorage), document.hasFocus(), devicePixelRatio]`,
    },
  ],
  ['browser_click', { element: 'link', target: 'e4' }],
  ['browser_fill_form', { fields: [{ name: 'note', target: 'textarea', type: 'textbox', value: 'text' }] }],
  ['browser_navigate_back', {}],
  ['browser_navigate', { url: 'PAGES/console' }],
  ['browser_wait_for', { text: 'done' }],
  ['browser_console_messages', { level: 'debug' }],
  ['browser_network_requests', { static: true }],
  ['browser_navigate', { url: 'PAGES/popup' }],
  ['browser_click', { element: 'open', target: '#open' }],
  ['browser_tabs', { action: 'list' }],
  ['browser_tabs', { action: 'close', index: 1 }],
  ['browser_take_screenshot', { filename: 'shot.png', scale: 'css' }],
  ['browser_navigate', { url: 'PAGES/storage' }],
  ['browser_snapshot', {}],
  ['browser_navigate', { url: 'file:///etc/hostname' }],
  ['browser_no_such_tool', {}],
];
const stepsAfterDownload: typeof steps = [
  ['browser_snapshot', {}],
  ['browser_close', {}],
  ['browser_tabs', { action: 'list' }],
  ['browser_navigate', { url: 'PAGES/storage' }],
  ['browser_snapshot', {}],
];

async function expectSame(tour: typeof steps, onSpare: Runner, fresh: Runner): Promise<void> {
  for (const [tool, args] of tour) {
    const given = JSON.parse(JSON.stringify(args).replaceAll('PAGES', pages.url)) as JsonObject;
    const [actual, expected] = await Promise.all(
      [onSpare, fresh].map(async ({ client, side }) =>
        comparable(await client.call(tool, given, { ms: browserMs }), side),
      ),
    );
    expect(`${tool}: ${actual}`).toBe(`${tool}: ${expected}`);
  }
}

/** Downloads a file. When upstream tells of it is chance, so the next result, which may, is not looked at. */
async function download({ client, side }: Runner): Promise<void> {
  await callText(client, 'browser_navigate', { url: `${pages.url}/popup` });
  await callText(client, 'browser_click', { element: 'download', target: 'a[href="/download"]' });
  const file = join(side.root, '.playwright-mcp', 'note.txt');
  await waitUntil('the download', () => (existsSync(file) && statSync(file).size > 0) || undefined, browserMs);
  await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
}

test('a session on a spare browser gets what one on a fresh child gets, to the letter', async () => {
  const [withSpare, without] = await Promise.all([
    startBrowserServer(testbed, { settings: warm }),
    startBrowserServer(testbed),
  ]);
  await waitForSpares(withSpare, 0, 1);
  const [spare] = browsersBelow(withSpare.program.pid);
  const [onSpare, fresh] = await Promise.all([run(withSpare, 'spare'), run(without, 'fresh')]);
  expect((await browserBelow((await generationOf(onSpare.client)).pid)).pid).toBe(spare?.pid);
  expect(results.get(onSpare.side)).toEqual(results.get(fresh.side));
  expect(results.get(fresh.side)?.[0]).toContain('browser_navigate');
  await expectSame(steps, onSpare, fresh);
  await Promise.all([onSpare, fresh].map((runner) => download(runner)));
  await expectSame(stepsAfterDownload, onSpare, fresh);
  const [actual, expected] = await Promise.all([onSpare, fresh].map(({ side }) => writtenFiles(side)));
  expect(actual).toEqual(expected);
  expect(JSON.stringify(actual)).toContain('note.txt');
  expect(onSpare.told()).toEqual(fresh.told());
  await Promise.all([onSpare.client.end(), fresh.client.end()]);
  await Promise.all([withSpare, without].map((server) => stopBrowserServer(testbed, server)));
});
