import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { browserMs, callText, callTool, resultText } from '../support/browser-bed.ts';
import {
  browserBelow,
  browsersBelow,
  childrenOf,
  expectNoSession,
  foldersOf,
  generationOf,
  learnToolList,
  startBrowserServer,
  stateOf,
  stopBrowserServer,
  waitForTabs,
} from '../support/browser-server.ts';
import type { JsonObject } from '../support/client.ts';
import type { HttpClient, HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { isRunning } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

const sessions = 8;
/** Of a client that opens a session for each call. */
const rounds = 8;
/** Eight browsers start at once on a small machine. */
const allMs = 300_000;

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

function hitsOf(path: string): number {
  return pages.hits.filter((hit) => hit === path).length;
}

function visit(client: HttpClient, path: string): Promise<JsonObject> {
  return callTool(client, 'browser_navigate', { url: `${pages.url}${path}` });
}

describe('kill -9 under eight busy sessions', () => {
  let server: HttpServer;
  let clients: HttpClient[];
  let victim: HttpClient;
  let others: HttpClient[];

  beforeAll(async () => {
    server = await startBrowserServer(testbed, { settings: { 'start-timeout-ms': 180_000 } });
    clients = await Promise.all(Array.from({ length: sessions }, () => server.open()));
    victim = clients[3] as HttpClient;
    others = clients.filter((client) => client !== victim);
    await Promise.all(clients.map((client) => visit(client, '/storage')));
  }, allMs);

  /** What a session is when nothing has happened to it. */
  function unharmed(client: HttpClient): Promise<unknown> {
    return Promise.all([generationOf(client), stateOf(client).then((state) => state['lastLoss'])]);
  }

  /** Calls of these that are on their way, in a page that does not answer until it is told to. */
  async function beginCalls(busy: readonly HttpClient[], path: string): Promise<Promise<JsonObject>[]> {
    const before = hitsOf(path);
    const calls = busy.map((client) => visit(client, path === '/slow' ? '/slow?ms=4000' : path));
    await waitUntil('all requests', () => hitsOf(path) === before + busy.length || undefined, browserMs);
    return calls;
  }

  async function expectOthersUnharmed(
    calls: readonly Promise<JsonObject>[],
    before: readonly unknown[],
  ): Promise<void> {
    for (const result of await Promise.all(calls)) expect(resultText(result)).toContain('Page Title: Slow');
    expect(await Promise.all(others.map((client) => unharmed(client)))).toEqual(before);
  }

  test('of a child: its call gets the reason, its next call a new child; the others notice nothing', async () => {
    const before = await Promise.all(others.map((client) => unharmed(client)));
    const [running] = (await beginCalls([victim], '/hang')) as [Promise<JsonObject>];
    const calls = await beginCalls(others, '/slow');
    const { pid } = await generationOf(victim);
    const browser = await browserBelow(pid);
    process.kill(pid, 'SIGKILL');
    const result = await running;
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toContain('SIGKILL');
    expect(resultText(await visit(victim, '/storage'))).toContain('Page Title: Storage');
    // A new browser: nothing of the lost one's profile is in it.
    expect(await callText(victim, 'browser_snapshot')).toContain('visits 1 cookie');
    expect(await generationOf(victim)).toMatchObject({ number: 2, state: 'ready' });
    expect(isRunning(browser.pid)).toBe(false);
    await expectOthersUnharmed(calls, before);
  });

  test('of a browser: its call is an error, its next call works in the same child; the others notice nothing', async () => {
    const before = await Promise.all(others.map((client) => unharmed(client)));
    const [running] = (await beginCalls([victim], '/hang')) as [Promise<JsonObject>];
    const calls = await beginCalls(others, '/slow');
    const generation = await generationOf(victim);
    process.kill((await browserBelow(generation.pid)).pid, 'SIGKILL');
    const result = await running;
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toMatch(/closed|crashed|disconnected/i);
    await waitForTabs(victim);
    expect(resultText(await visit(victim, '/storage'))).toContain('Page Title: Storage');
    expect(await generationOf(victim)).toEqual(generation);
    await expectOthersUnharmed(calls, before);
  });

  test(
    'of all browsers at once: each call is an error, each next call works in the same child',
    { timeout: allMs },
    async () => {
      const before = await Promise.all(clients.map((client) => generationOf(client)));
      const calls = await beginCalls(clients, '/hang');
      const browsers = browsersBelow(server.program.pid);
      expect(browsers).toHaveLength(sessions);
      for (const { pid } of browsers) process.kill(pid, 'SIGKILL');
      for (const result of await Promise.all(calls)) expect(result['isError']).toBe(true);
      await Promise.all(clients.map((client) => waitForTabs(client)));
      const next = await Promise.all(clients.map((client) => visit(client, '/storage')));
      for (const result of next) expect(resultText(result)).toContain('Page Title: Storage');
      expect(await Promise.all(clients.map((client) => generationOf(client)))).toEqual(before);
    },
  );

  test(
    'of all children at once: each call gets the reason, each next call a new child',
    { timeout: allMs },
    async () => {
      const before = await Promise.all(clients.map((client) => generationOf(client)));
      const calls = await beginCalls(clients, '/hang');
      for (const { pid } of before) process.kill(pid, 'SIGKILL');
      for (const result of await Promise.all(calls)) {
        expect(result['isError']).toBe(true);
        expect(resultText(result)).toContain('SIGKILL');
      }
      const next = await Promise.all(clients.map((client) => visit(client, '/storage')));
      for (const result of next) expect(resultText(result)).toContain('Page Title: Storage');
      const after = await Promise.all(clients.map((client) => generationOf(client)));
      expect(after.map(({ number }) => number)).toEqual(before.map(({ number }) => number + 1));
      expect(before.filter(({ pid }) => isRunning(pid))).toEqual([]);
      expect(browsersBelow(server.program.pid)).toHaveLength(sessions);
      expect(childrenOf(server)).toHaveLength(sessions);
    },
  );

  test('and after all ends nothing is left', async () => {
    expect(await Promise.all(clients.map((client) => client.end()))).toEqual(clients.map(() => 200));
    await expectNoSession(testbed, server);
    expect(await server.metric('generations_lost_total')).toBe(1 + sessions);
    expect(await server.metric('sessions_ended_total', 'reason="deleted"')).toBe(sessions);
    await stopBrowserServer(testbed, server);
  });
});

test(
  'a client that opens and ends a session around each call sees nothing of the one before, and leaves nothing',
  { timeout: allMs },
  async () => {
    const server = await startBrowserServer(testbed, { settings: { 'http-spare-children': 1 } });
    const pids = new Set<number>();
    for (let round = 1; round <= rounds; round += 1) {
      const client = await server.open();
      expect(await callText(client, 'browser_tabs', { action: 'list' })).toContain('(about:blank)');
      await visit(client, '/storage');
      expect(await callText(client, 'browser_snapshot')).toContain('visits 1 cookie visits=1');
      const { pid, number } = await generationOf(client);
      expect(number).toBe(1);
      pids.add(pid);
      expect(await client.end()).toBe(200);
      expect(isRunning(pid)).toBe(false);
    }
    expect(pids.size).toBe(rounds);
    expect((await server.status()).sessions).toEqual([]);
    expect(browsersBelow(server.program.pid)).toEqual([]);
    // What is left is the spare's, and one folder of the server's own.
    await waitUntil('the spare', async () => (await server.status()).spares.children === 1 || undefined, browserMs);
    expect(childrenOf(server)).toHaveLength(1);
    expect(foldersOf(testbed, server)).toHaveLength(2);
    const ended = server.logged('session ended');
    expect(ended).toHaveLength(rounds);
    for (const entry of ended) expect(entry).toMatchObject({ reason: 'deleted', count: 3 });
    await stopBrowserServer(testbed, server);
  },
);
