import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { browserMs, callTool, resultText, toolNames, type ToolCaller } from '../support/browser-bed.ts';
import { browsersBelow, generationOf, learnToolList, startBrowserServer, stateOf } from '../support/browser-server.ts';
import {
  attach,
  CdpClient,
  cdpOf,
  knock,
  knockSocket,
  type Published,
  publishedOf,
  startBrowser,
  startCdpBridge,
  SwitchedUpstream,
  waitForLoss,
} from '../support/cdp-loss-bed.ts';
import type { LineClient } from '../support/client.ts';
import type { HttpClient, HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { descendantsOf, isRunning } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** Short for a test, and still far above what an answer takes on a busy machine. */
const watchArgs = ['--cdp-heartbeat-ms', '200', '--cdp-loss-timeout-ms', '3000'];
/** Several heartbeats. */
const quietMs = 1000;

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

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A session with a browser that is about to be lost, and a CDP client of it. */
interface Stage {
  readonly client: ToolCaller;
  readonly browser: CdpClient;
  readonly published: Published;
}

interface Loss {
  readonly how: string;
  readonly reason: string;
  readonly provoke: (stage: Stage) => Promise<unknown>;
}

async function killBrowser({ browser }: Stage): Promise<void> {
  process.kill(await browser.browserPid(), 'SIGKILL');
}

async function killChild({ client }: Stage): Promise<void> {
  process.kill((await generationOf(client)).pid, 'SIGKILL');
}

/** Its own answer tells that it closed, exactly once, although its browser is gone by then. */
async function closeBrowser({ client }: Stage): Promise<void> {
  const result = await callTool(client, 'browser_close');
  expect(resultText(result)).toContain('No open tabs');
  expect(result['isError']).not.toBe(true);
}

/** A call that is with the browser when it hangs is not repeated: it is answered with the loss. */
async function stopBrowser({ client, browser }: Stage): Promise<void> {
  const pid = await browser.browserPid();
  process.kill(pid, 'SIGSTOP');
  const before = hitsOf('/count');
  const result = await callTool(client, 'browser_navigate', { url: `${pages.url}/count` });
  expect(result['isError']).toBe(true);
  expect(resultText(result)).toContain('does not answer any more. This call had been sent to it and may have run');
  expect(hitsOf('/count')).toBe(before);
}

const everywhere: readonly Loss[] = [
  { how: 'kill -9 of the browser', reason: 'sentinel_closed', provoke: killBrowser },
  { how: 'kill -9 of the child', reason: 'child_exit', provoke: killChild },
  { how: 'browser_close', reason: 'browser_close_tool', provoke: closeBrowser },
];

const losses: readonly Loss[] = [
  ...everywhere,
  { how: 'SIGSTOP of the browser', reason: 'heartbeat_timeout', provoke: stopBrowser },
  {
    how: 'Browser.close',
    reason: 'sentinel_closed',
    provoke: ({ browser }) => Promise.resolve(browser.send('Browser.close')),
  },
  {
    how: 'Browser.crash',
    reason: 'sentinel_closed',
    provoke: ({ browser }) => Promise.resolve(browser.send('Browser.crash')),
  },
  {
    how: "disposing of MCP's context",
    reason: 'mcp_context_gone',
    provoke: ({ browser, published }) =>
      browser.request('Target.disposeBrowserContext', { browserContextId: published.browserContextId }),
  },
];

/** Provokes a loss; expects that the old address is dead at once and that nothing is started in its place. */
async function lose(client: ToolCaller, programPid: number, { reason, provoke }: Loss): Promise<Published> {
  const published = await startBrowser(client, `${pages.url}/home`);
  const { generation, webSocketUrl, discoveryUrl } = published;
  const sockets = await attach(published);
  const browserPid = await sockets[0].browserPid();
  const child = (await generationOf(client)).pid;
  expect(await knock(discoveryUrl)).toEqual({ status: 200, code: undefined });

  await provoke({ client, browser: sockets[0], published });
  for (const socket of sockets)
    expect(await socket.end()).toEqual({ code: 4001, reason: `browser generation ${generation} ended: ${reason}` });
  expect(await waitForLoss(client, generation)).toMatchObject({
    ...{ state: 'lost', generation, discoveryUrl: null, webSocketDebuggerUrl: null },
    lastLoss: { reason, generation },
  });
  expect(await waitUntil('the loss', async () => (await stateOf(client))['lastLoss'])).toMatchObject({
    generation,
    code: reason,
  });
  // The old browser and its child are gone, the address with it, and neither reading it nor local answers start anything.
  await waitUntil('the end of all', () => (!isRunning(browserPid) && !isRunning(child)) || undefined, browserMs);
  await waitUntil('no connection', async () => (await cdpOf(client)).activeConnections === 0 || undefined);
  const running = descendantsOf(programPid).map(({ pid }) => pid);
  expect(await knock(discoveryUrl)).toEqual({ status: 410, code: 'generation_replaced' });
  expect(await knockSocket(webSocketUrl)).toBe(410);
  await pause(quietMs);
  expect(descendantsOf(programPid).map(({ pid }) => pid)).toEqual(running);
  expect(await cdpOf(client)).toMatchObject({ state: 'lost', generation });
  return published;
}

/** Expects that the next call is answered once by the next generation. */
async function expectNext(client: ToolCaller, old: Published): Promise<Published> {
  const before = hitsOf('/count');
  const next = await startBrowser(client, `${pages.url}/count`);
  expect(hitsOf('/count')).toBe(before + 1);
  expect(next).toMatchObject({ generation: old.generation + 1, port: old.port });
  expect(await generationOf(client)).toMatchObject({ number: old.generation + 1, state: 'ready' });
  expect(next.capability).not.toBe(old.capability);
  expect(await knock(next.discoveryUrl)).toEqual({ status: 200, code: undefined });
  expect(await knock(old.discoveryUrl)).toEqual({ status: 410, code: 'generation_replaced' });
  return next;
}

describe('over stdio', () => {
  let client: LineClient;

  beforeAll(async () => {
    client = await startCdpBridge(testbed, { args: [...watchArgs, '--close-grace-ms', '1000'] });
    await toolNames(client);
  });

  test.each(losses)('$how is a loss ($reason)', async (loss) => {
    const old = await lose(client, client.pid, loss);
    expect(descendantsOf(client.pid)).toEqual([]);
    await expectNext(client, old);
    expect(browsersBelow(client.pid)).toHaveLength(1);
    const events = client.messagesOf('notifications/message').map(({ params }) => params?.['data']);
    expect(events).toContainEqual({ event: 'cdp.lost', generation: old.generation, reason: loss.reason });
    expect(events).toContainEqual({ event: 'cdp.ready', generation: old.generation + 1 });
  });

  test('neither crashed pages nor closed tabs nor a client that goes nor a failed tool is a loss', async () => {
    const published = await startBrowser(client, `${pages.url}/home`);
    const [browser, page] = await attach(published);
    page.cut();
    await page.end();
    await callTool(client, 'browser_navigate', { url: 'chrome://crash' });
    const failed = await callTool(client, 'browser_click', {
      element: 'none',
      target: '#nowhere-at-all',
      timeout: 100,
    });
    expect(failed['isError']).toBe(true);
    const { targetInfos } = await browser.request('Target.getTargets');
    for (const { type, targetId } of targetInfos as { type: string; targetId: string }[])
      if (type === 'page') await browser.request('Target.closeTarget', { targetId });
    await pause(quietMs);
    const before = hitsOf('/count');
    expect(await startBrowser(client, `${pages.url}/count`)).toEqual(published);
    expect(hitsOf('/count')).toBe(before + 1);
    expect(browser.isOpen).toBe(true);
    expect((await cdpOf(client)).lastLoss).not.toMatchObject({ generation: published.generation });
  });

  test('ends in order', async () => {
    expect(await client.close()).toEqual({ code: 0, signal: null });
  });
});

describe('over HTTP on the shared listener', () => {
  let server: HttpServer;
  let client: HttpClient;
  let other: HttpClient;

  beforeAll(async () => {
    server = await startBrowserServer(testbed, { args: ['--cdp', ...watchArgs] });
    [client, other] = [await server.open(), await server.open()];
  });

  test.each(everywhere)('$how is a loss ($reason), and nothing to another session', async (loss) => {
    const theirs = await startBrowser(other, `${pages.url}/home`);
    const guest = await CdpClient.open(theirs.webSocketUrl);
    const old = await lose(client, server.program.pid, loss);
    expect(browsersBelow(server.program.pid)).toHaveLength(1);
    const next = await expectNext(client, old);
    expect(next.port).toBe(server.port);
    expect(browsersBelow(server.program.pid)).toHaveLength(2);
    expect(guest.isOpen).toBe(true);
    expect(await publishedOf(other)).toEqual(theirs);
    guest.cut();
  });

  test('ends in order', async () => {
    for (const one of [client, other]) expect(await one.end()).toBeLessThan(300);
    expect(descendantsOf(server.program.pid)).toEqual([]);
    server.program.kill('SIGTERM');
    expect(await server.program.exited).toEqual({ code: 0, signal: null });
  });
});

describe('a browser that nobody uses', () => {
  const idleMs = 2000;

  /** Sends a command every 300 ms for so long, unless the socket ends before. */
  async function keepBusy(browser: CdpClient, ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end && browser.isOpen; await pause(300))
      browser.send('Browser.getVersion');
  }

  async function expectBusy(client: LineClient): Promise<CdpClient> {
    const published = await startBrowser(client, `${pages.url}/home`);
    const browser = await CdpClient.open(published.webSocketUrl);
    await keepBusy(browser, 1.5 * idleMs);
    expect(browser.isOpen).toBe(true);
    expect(await publishedOf(client)).toEqual(published);
    return browser;
  }

  test("is not closed by upstream's own timer, which knows nothing of CDP clients", async () => {
    const client = await startCdpBridge(testbed, { env: { PLAYWRIGHT_MCP_IDLE_TIMEOUT: String(idleMs) } });
    (await expectBusy(client)).cut();
    await client.close();
  });

  test("is lost when upstream's timer closes it all the same", async () => {
    const upstream = new SwitchedUpstream(testbed);
    // Upstream counts from the beginning of the call that starts the browser.
    upstream.turn('6000');
    const client = await startCdpBridge(testbed, { env: upstream.env, args: [...upstream.args, ...watchArgs] });
    const old = await lose(client, client.pid, {
      how: 'idle',
      reason: 'sentinel_closed',
      provoke: ({ browser }) => keepBusy(browser, browserMs),
    });
    upstream.turn('');
    await expectNext(client, old);
    await client.close();
  });

  test('is closed by --cdp-idle-ttl-ms, and never while a CDP client or a call uses it', async () => {
    const client = await startCdpBridge(testbed, { args: ['--cdp-idle-ttl-ms', String(idleMs), ...watchArgs] });
    const guest = await expectBusy(client);
    const before = await publishedOf(client);
    await callTool(client, 'browser_wait_for', { time: (1.5 * idleMs) / 1000 });
    expect(await publishedOf(client)).toEqual(before);
    guest.cut();
    const idle: Loss = { how: 'idle', reason: 'idle_timeout', provoke: () => Promise.resolve() };
    const old = await lose(client, client.pid, idle);
    await expectNext(client, old);
    await client.close();
  });
});
