import { createServer, type Server } from 'node:net';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { makeMark } from '../../src/cdp/proof.ts';
import { browserMs, browserOf, callText, callTool, mustFind, resultText, toolNames } from '../support/browser-bed.ts';
import { browsersBelow, generationOf, killChild, learnToolList } from '../support/browser-server.ts';
import {
  bindOnce,
  cdpOf,
  knock,
  MoodyBrowser,
  type Published,
  publishedOf,
  startBrowser,
  startCdpBridge,
  SwitchedUpstream,
  waitForLoss,
} from '../support/cdp-loss-bed.ts';
import type { LineClient } from '../support/client.ts';
import { DebuggedUpstream } from '../support/debugged-upstream.ts';
import { FakeBrowser } from '../support/fake-browser.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { descendantsOf } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

const calls = 10;

let testbed: Testbed;
let pages: PageServer;
let moody: MoodyBrowser;
let rounds = 0;

beforeEach(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
  moody = new MoodyBrowser(testbed);
});

beforeAll(async () => {
  const first = await Testbed.make();
  await learnToolList(first);
  await first.close();
});

afterEach(async () => {
  await testbed.close();
  await pages.close();
});

/** A bridge with that browser program, which tells in its log what it starts; its first child waits for the first call. */
async function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<LineClient> {
  const all = ['--log-level', 'debug', ...args];
  const client = await startCdpBridge(testbed, { args: all, env: { CLOAKBROWSER_BINARY_PATH: moody.path, ...env } });
  await toolNames(client);
  await waitUntil('the first child', () => client.stderr.includes('"msg":"child started"') || undefined);
  return client;
}

/** How many children a bridge has started so far. */
function startsOf(client: LineClient): number {
  return client.stderr.split('"msg":"child started"').length - 1;
}

function hitsOf(path: string): number {
  return pages.hits.filter((hit) => hit === path).length;
}

/** Ten calls at once that each open a page of their own; what they are answered. */
async function callAtOnce(client: LineClient): Promise<{ text: string; isError: boolean }[]> {
  rounds += 1;
  const ids = Array.from({ length: calls }, (_none, index) => `${rounds}-${index}`);
  const results = await Promise.all(
    ids.map(async (id) => {
      const args = { action: 'new', url: `${pages.url}/count` };
      return (await client.call('browser_tabs', args, { id, ms: browserMs })).result ?? {};
    }),
  );
  for (const id of ids) expect(client.countAnswers(id)).toBe(1);
  return results.map((result) => ({ text: resultText(result), isError: result['isError'] === true }));
}

/** Expects ten equal errors of one failed start, of which nothing is left and nothing was forwarded or published. */
async function expectFailure(client: LineClient, words: string, children = 1): Promise<void> {
  const [starts, hits] = [startsOf(client), hitsOf('/count')];
  const { generation } = await cdpOf(client);
  const forwarded = client.messagesOf('notifications/message').length;
  const answers = await callAtOnce(client);
  const [first] = answers;
  expect(first?.text).toContain(words);
  expect(first?.isError).toBe(true);
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expect(startsOf(client)).toBe(starts + children);
  expect(hitsOf('/count')).toBe(hits);
  expect(descendantsOf(client.pid)).toEqual([]);
  const info = await cdpOf(client);
  expect(info).toMatchObject({ discoveryUrl: null, webSocketDebuggerUrl: null, port: null });
  expect(['failed', 'lost']).toContain(info.state);
  expect(info.generation).toBeLessThanOrEqual(generation + 1);
  const told = client.messagesOf('notifications/message').slice(forwarded);
  expect(JSON.stringify(told)).not.toContain('cdp.ready');
}

/** Expects that the next call finds a sound browser again, with the next number and another address on the same port. */
async function expectRecovery(client: LineClient, last: Published): Promise<Published> {
  const hits = hitsOf('/count');
  const next = await startBrowser(client, `${pages.url}/count`);
  expect(hitsOf('/count')).toBe(hits + 1);
  expect(next).toMatchObject({ generation: last.generation + 1, port: last.port });
  expect(await knock(last.discoveryUrl)).toEqual({ status: 410, code: 'generation_replaced' });
  expect(await knock(next.discoveryUrl)).toEqual({ status: 200, code: undefined });
  return next;
}

/** Returns with the loss, while the old child may still be on its way out. */
async function killBrowser(client: LineClient, { generation }: Published): Promise<void> {
  process.kill((await mustFind('the browser', () => browserOf(client))).pid, 'SIGKILL');
  await waitForLoss(client, generation);
}

test('ten calls at once after a loss share one replacement, and each is forwarded once', async () => {
  const client = await start([]);
  const first = await startBrowser(client, `${pages.url}/home`);
  await killBrowser(client, first);
  const starts = startsOf(client);
  const answers = await callAtOnce(client);
  expect(answers.filter(({ isError }) => isError)).toEqual([]);
  expect(hitsOf('/count')).toBe(calls);
  expect(startsOf(client)).toBe(starts + 1);
  expect(browsersBelow(client.pid)).toHaveLength(1);
  expect(await publishedOf(client)).toMatchObject({ generation: 2, port: first.port });
  const events = client.messagesOf('notifications/message').map(({ params }) => params?.['data']);
  expect(events.map((data) => JSON.stringify(data))).toEqual([
    expect.stringContaining('"cdp.ready","generation":1'),
    expect.stringContaining('"cdp.lost","generation":1'),
    expect.stringContaining('"cdp.ready","generation":2'),
  ]);
  await client.close();
});

describe('a replacement that fails', () => {
  test('for a missing program, for one that ends, and for a browser that keeps its port to itself', async () => {
    const client = await start(['--restart-max', '100']);
    const first = await startBrowser(client, `${pages.url}/home`);
    await killBrowser(client, first);
    moody.become({ kind: 'removed' });
    await expectFailure(client, moody.path, 0);
    moody.become({ kind: 'exits' });
    await expectFailure(client, 'no browser today');
    moody.become({ kind: 'silent' });
    await expectFailure(client, 'DevToolsActivePort');
    expect((await cdpOf(client)).lastError).toMatchObject({ code: 'cdp_start_failed' });
    moody.become({ kind: 'sound' });
    await expectRecovery(client, first);
    expect((await cdpOf(client)).lastError).toBeNull();
    await client.close();
  });

  test('for a browser and for a child that hang', async () => {
    const upstream = new SwitchedUpstream(testbed);
    // Long enough for the sound ones, which take half of it.
    const client = await start([...upstream.args, '--restart-timeout-ms', '10000'], upstream.env);
    const first = await startBrowser(client, `${pages.url}/home`);
    await killChild(client);
    moody.become({ kind: 'hangs' });
    await expectFailure(client, 'longer than');
    moody.become({ kind: 'sound' });
    upstream.turn('hang');
    await expectFailure(client, 'did not answer initialize within 10000 ms');
    upstream.turn('');
    await expectRecovery(client, first);
    await client.close();
  });

  test('again and again: the storm guard stops it', async () => {
    const client = await start(['--restart-max', '2']);
    moody.become({ kind: 'exits' });
    for (let round = 0; round < 2; round += 1) await expectFailure(client, 'no browser today', round);
    moody.become({ kind: 'sound' });
    await expectFailure(client, '2 starts failed within a minute', 0);
    expect(resultText(await callTool(client, 'browser_snapshot'))).toContain('2 starts failed within a minute');
    expect(await generationOf(client)).toMatchObject({ number: 0 });
    await client.close();
  });
});

describe('a browser that is not the one that MCP drives', () => {
  test('is never published, whoever stands behind the port that is told', async () => {
    const foreign = await DebuggedUpstream.start(testbed, 'folder');
    for (let count = 0; count < 3; count += 1) await foreign.mark();
    const foreignTabs = await foreign.tabs();
    const squatter = await FakeBrowser.start();
    for (let count = 0; count < 3; count += 1) squatter.openPage(makeMark());
    const asked: unknown[] = [];
    squatter.intercept = (_connection, { method }) => {
      asked.push(method);
      return false;
    };
    const client = await start(['--restart-max', '100']);

    moody.become({ kind: 'names', ...(await foreign.address()) });
    await expectFailure(client, 'not the one that upstream drives', 0);
    expect(await foreign.tabs()).toBe(foreignTabs);
    moody.become({ kind: 'names', port: squatter.port, browserId: squatter.browserId });
    await expectFailure(client, 'not the one that upstream drives');
    expect(asked).toEqual(['Target.getTargets']);
    // The real browser wanted this port, and listens on ::1 instead.
    moody.become({ kind: 'port', port: squatter.port });
    const upgrades = squatter.upgrades.length;
    await expectFailure(client, '404');
    expect(squatter.upgrades.length).toBeGreaterThan(upgrades);
    expect(asked).toHaveLength(1);

    moody.become({ kind: 'sound' });
    expect(await startBrowser(client, `${pages.url}/home`)).toMatchObject({ generation: 1 });
    await client.close();
    await foreign.close();
    await squatter.close();
  });

  test('is not found on ::1 either, and does not keep the real one from being published', async () => {
    const squatter = await FakeBrowser.start();
    const { port } = squatter;
    let connections = 0;
    const other: Server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => other.listen({ port, host: '::1' }, resolve));
    const client = await start(['--restart-max', '100']);
    moody.become({ kind: 'port', port });
    // Both are taken: then it listens nowhere.
    await expectFailure(client, 'DevToolsActivePort', 0);
    await squatter.close();
    const published = await startBrowser(client, `${pages.url}/home`);
    expect(published.generation).toBe(1);
    expect(await callText(client, 'browser_tabs', { action: 'list' })).toContain('/home');
    expect(await knock(published.discoveryUrl)).toEqual({ status: 200, code: undefined });
    expect(connections).toBe(0);
    await client.close();
    await new Promise((resolve) => other.close(resolve));
  });
});

test('two bridges with the same only port: the second works when the first has ended', async () => {
  const port = await bindOnce(0);
  const args = ['--cdp-port-range', String(port)];
  const [winner, loser] = await Promise.all([start(args), start(args)]);
  expect(await toolNames(loser)).toEqual(await toolNames(winner));
  expect(await startBrowser(winner, `${pages.url}/home`)).toMatchObject({ generation: 1, port });
  const busy = await callTool(loser, 'browser_navigate', { url: `${pages.url}/count` });
  expect(busy['isError']).toBe(true);
  expect(resultText(busy)).toContain(`No port of --cdp-port-range ${port} is free`);
  expect((await cdpOf(loser)).lastError).toMatchObject({ code: 'cdp_ports_busy' });
  expect(descendantsOf(loser.pid)).toEqual([]);
  expect(hitsOf('/count')).toBe(0);
  await winner.close();
  expect(await startBrowser(loser, `${pages.url}/count`)).toMatchObject({ generation: 1, port });
  expect(hitsOf('/count')).toBe(1);
  await loser.close();
});
