import { readFileSync, realpathSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { browserMs, browserOf, callTool, mustFind, sessionFolders } from '../support/browser-bed.ts';
import {
  expectNoSession,
  foldersOf,
  generationOf,
  learnToolList,
  startBrowserServer,
  stopBrowserServer,
} from '../support/browser-server.ts';
import {
  attach,
  bindOnce,
  CdpClient,
  cdpOf,
  knock,
  knockSocket,
  type Published,
  publishedOf,
  startBrowser,
  startCdpBridge,
  waitForLoss,
} from '../support/cdp-loss-bed.ts';
import type { Exit, LineClient } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { descendantsOf, waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

const page = 'data:text/html,<title>Here</title>';
const sessionEnded = { code: 1001, reason: 'the session ended' };

let testbed: Testbed;
let port: number;

beforeAll(async () => {
  const first = await Testbed.make();
  await learnToolList(first);
  await first.close();
});

beforeEach(async () => {
  testbed = await Testbed.make();
  port = await bindOnce(0);
});

afterEach(async () => {
  await testbed.close();
});

interface Attached {
  readonly client: LineClient;
  readonly published: Published;
  readonly sockets: readonly CdpClient[];
}

/** A bridge that leases the port, with a browser and two CDP clients of it. */
async function startAttached(args: readonly string[] = []): Promise<Attached> {
  const client = await startCdpBridge(testbed, { args: ['--cdp-port-range', String(port), ...args] });
  const published = await startBrowser(client, page);
  expect(published.port).toBe(port);
  return { client, published, sockets: await attach(published) };
}

function endOf(client: LineClient): Promise<Exit> {
  return withDeadline('the end of the bridge', client.exited, browserMs);
}

function stop(client: LineClient, way: NodeJS.Signals | 'stdin end'): void {
  if (way === 'stdin end') client.endStdin();
  else client.kill(way);
}

/** Expects that nothing is left of a bridge that has just ended, and that its port is free already. */
async function expectNothingLeft(): Promise<void> {
  expect(await bindOnce(port)).toBe(port);
  await waitForNoProcess(testbed.folders.root);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
}

describe('with CDP clients attached', () => {
  test.each(['stdin end', 'SIGTERM', 'SIGINT', 'SIGHUP'] as const)('an end by %s leaves nothing', async (way) => {
    const { client, sockets, published } = await startAttached();
    stop(client, way);
    expect(await Promise.all(sockets.map((socket) => socket.end()))).toEqual([sessionEnded, sessionEnded]);
    expect((await endOf(client)).signal).toBeNull();
    await expectNothingLeft();
    expect(await knock(published.discoveryUrl)).toMatchObject({ status: 0 });
    expect(client.strayLines).toEqual([]);
  });

  test('a second signal ends at once what would take its time', async () => {
    const { client, sockets } = await startAttached(['--close-grace-ms', '20000']);
    process.kill((await mustFind('the browser', () => browserOf(client))).pid, 'SIGSTOP');
    client.kill('SIGTERM');
    await Promise.all(sockets.map((socket) => socket.end()));
    // A second one that comes sooner counts as the same.
    await new Promise((resolve) => setTimeout(resolve, 500));
    const askedAt = performance.now();
    client.kill('SIGTERM');
    await endOf(client);
    expect(performance.now() - askedAt).toBeLessThan(10_000);
    await expectNothingLeft();
  });

  test('SIGKILL of the bridge leaves no process and no port, and the next one takes both over', async () => {
    const { client, sockets } = await startAttached();
    client.kill('SIGKILL');
    await Promise.all(sockets.map((socket) => socket.end()));
    await endOf(client);
    expect(await bindOnce(port)).toBe(port);
    await waitForNoProcess(testbed.folders.root);
    const next = await startAttached();
    await waitUntil('the sweep', () => sessionFolders(testbed).length === 1 || undefined);
    await next.client.close();
    await expectNothingLeft();
  });
});

test.each([0, 700, 1400, 2100])(
  'an end %i ms after the first call, in the middle of its start, leaves nothing',
  async (ms) => {
    const client = await startCdpBridge(testbed, { args: ['--cdp-port-range', String(port)] });
    client.send({ id: 'first', method: 'tools/call', params: { name: 'browser_tabs', arguments: { action: 'list' } } });
    await new Promise((resolve) => setTimeout(resolve, ms));
    await client.close();
    await expectNothingLeft();
  },
);

describe('over HTTP', () => {
  test('DELETE frees the leased port, for the next session', async () => {
    const server = await startBrowserServer(testbed, { args: ['--cdp', '--cdp-port-range', String(port)] });
    const first = await server.open();
    const published = await startBrowser(first, page);
    const sockets = await attach(published);
    const second = await server.open();
    const busy = await callTool(second, 'browser_navigate', { url: page });
    expect(busy['isError']).toBe(true);
    expect((await cdpOf(second)).lastError).toMatchObject({ code: 'cdp_ports_busy' });
    const child = (await generationOf(first)).pid;

    expect(await first.end()).toBeLessThan(300);
    expect(await Promise.all(sockets.map((socket) => socket.end()))).toEqual([sessionEnded, sessionEnded]);
    await waitUntil('the end of the session', () => descendantsOf(server.program.pid).length === 0 || undefined);
    expect(descendantsOf(child)).toEqual([]);
    expect(await bindOnce(port)).toBe(port);
    const next = await startBrowser(second, page);
    expect(next).toMatchObject({ generation: 1, port });
    expect(await knock(published.discoveryUrl)).toEqual({ status: 404, code: 'not_found' });

    const last = await CdpClient.open(next.webSocketUrl);
    const [end] = await Promise.all([last.end(), stopBrowserServer(testbed, server)]);
    expect(end).toEqual(sessionEnded);
    expect(await bindOnce(port)).toBe(port);
    await waitForNoProcess(testbed.folders.root);
  });

  test('DELETE on the shared listener makes the address unknown, and leaves the other session alone', async () => {
    const server = await startBrowserServer(testbed, { args: ['--cdp'] });
    const [first, second] = [await server.open(), await server.open()];
    const published = await startBrowser(first, page);
    const theirs = await startBrowser(second, page);
    const sockets = await attach(published);
    const guest = await CdpClient.open(theirs.webSocketUrl);
    expect(await first.end()).toBeLessThan(300);
    expect(await Promise.all(sockets.map((socket) => socket.end()))).toEqual([sessionEnded, sessionEnded]);
    expect(await knock(published.discoveryUrl)).toEqual({ status: 404, code: 'not_found' });
    expect(await knockSocket(published.webSocketUrl)).toBe(404);
    expect(guest.isOpen).toBe(true);
    expect(await publishedOf(second)).toEqual(theirs);
    expect(await second.end()).toBeLessThan(300);
    expect(await guest.end()).toEqual(sessionEnded);
    await expectNoSession(testbed, server);

    // And with everything open again, by a kill.
    const third = await server.open();
    const last = await CdpClient.open((await startBrowser(third, page)).webSocketUrl);
    server.program.kill('SIGKILL');
    await last.end();
    await endOf(server.program);
    expect(await bindOnce(server.port)).toBe(server.port);
    await waitForNoProcess(testbed.folders.root);
    expect(foldersOf(testbed, server)).toHaveLength(2);
  });
});

/** The files below a folder in which one of these texts is. */
async function filesWith(folder: string, texts: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await listEntries(folder)) {
    const path = join(folder, entry);
    // Chromium's files come and go.
    const facts = await lstat(path).catch(() => undefined);
    if (facts?.isFile() !== true) continue;
    try {
      const content = readFileSync(path, 'latin1');
      if (texts.some((text) => content.includes(text))) found.push(path);
    } catch (failure) {
      if (!(failure instanceof Error && 'code' in failure && failure.code === 'ENOENT')) throw failure;
    }
  }
  return found;
}

test('the capability is in no log, on no command line, in no environment and in no file', async () => {
  const { client, published, sockets } = await startAttached(['--log-level', 'trace']);
  // Whatever may be told of a client: one that is served, one that is refused, one whose method fails.
  for (const path of ['json/version', 'json/list', 'json/none', 'json/new', 'devtools/page/none'])
    await fetch(`${published.discoveryUrl}/${path}`);
  await fetch(`${published.discoveryUrl}/json/version`, { headers: { origin: published.discoveryUrl } });
  await knockSocket(`${published.discoveryUrl}/devtools/page/none`);
  sockets[0]?.send('No.method', { published });
  process.kill((await mustFind('the browser', () => browserOf(client))).pid, 'SIGKILL');
  await waitForLoss(client, published.generation);
  await knock(published.discoveryUrl);
  const next = await startBrowser(client, page);
  const [browser] = await attach(next);
  expect(browser.isOpen).toBe(true);

  const secrets = [published.capability, next.capability];
  for (const secret of secrets) expect(secret).toMatch(/^[\w-]{43}$/);
  const isTold = (text: string): boolean => secrets.some((secret) => text.includes(secret));
  // It is told to who asks for it, and to nobody else.
  expect(client.lines.filter(isTold).every((line) => line.includes('"cloakbrowser-mcp"'))).toBe(true);
  const notices = client.messages.filter(({ method }) => method !== undefined);
  expect(isTold(JSON.stringify(notices))).toBe(false);
  const processes = [{ pid: client.pid, command: '' }, ...descendantsOf(client.pid)];
  expect(processes.length).toBeGreaterThan(3);
  for (const { pid } of processes)
    for (const file of ['cmdline', 'environ'])
      expect(isTold(readFileSync(`/proc/${pid}/${file}`, 'latin1'))).toBe(false);
  expect(await filesWith(realpathSync(testbed.folders.root), secrets)).toEqual([]);
  await client.close();
  expect(client.stderr).toContain('CDP published');
  expect(client.stderr).toContain('CDP client came');
  expect(isTold(client.stderr)).toBe(false);
  expect(await filesWith(realpathSync(testbed.folders.root), secrets)).toEqual([]);
});
