import { chromium } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { callTool } from '../support/browser-bed.ts';
import { startBrowserServer, stopBrowserServer } from '../support/browser-server.ts';
import { cdpOf, connectRaw, startCdp, type CdpInfo } from '../support/cdp-bed.ts';
import type { JsonObject } from '../support/client.ts';
import type { HttpClient } from '../support/http-server.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

describe('a session setting', () => {
  const meta = (cdp: boolean): JsonObject => ({ _meta: { 'io.github.cloakbrowser-mcp/session': { cdp } } });

  it('switches it on where the operator allows it, for that session only', async () => {
    const server = await startBrowserServer(testbed, { settings: { 'session-settings': 'headless,cdp' } });
    const [with_, without] = [await server.open({ params: meta(true) }), await server.open()];
    await callTool(with_, 'browser_tabs', { action: 'list' });
    expect((await cdpOf(with_)).state).toBe('ready');
    expect(await cdpOf(without)).toEqual({ enabled: false });
    const guest = await chromium.connectOverCDP((await cdpOf(with_)).discoveryUrl);
    await guest.close();
    await stopBrowserServer(testbed, server);
  });

  it('switches it off where the operator allows that, and is refused where he does not', async () => {
    const off = await startBrowserServer(testbed, { args: ['--cdp'], settings: { 'session-settings': 'cdp' } });
    expect(await cdpOf(await off.open({ params: meta(false) }))).toEqual({ enabled: false });
    expect((await cdpOf(await off.open())).enabled).toBe(true);
    await stopBrowserServer(testbed, off);
    const strict = await startBrowserServer(testbed, { args: ['--cdp'] });
    await expect(strict.open({ params: meta(true) })).rejects.toThrow('session_setting');
    await stopBrowserServer(testbed, strict);
  });
});

/** A session of the sixteen, with a page of its own. */
interface Resident {
  readonly client: HttpClient;
  readonly info: CdpInfo;
  readonly capability: string;
  readonly pageId: string;
}

async function moveIn(client: HttpClient): Promise<Resident> {
  const info = await startCdp(client);
  const list = (await (await fetch(`${info.discoveryUrl}/json/list`)).json()) as { type: string; id: string }[];
  const pageId = list.find(({ type }) => type === 'page')?.id ?? '';
  return { client, info, capability: info.discoveryUrl.slice(-43), pageId };
}

/** What one gets with one's own capability at the port of another one, by the ids of that one's browser and page. */
async function expectIsolated(own: Resident, other: Resident, isShared: boolean): Promise<void> {
  const [id = ''] = other.info.webSocketDebuggerUrl.split('/').slice(-1);
  const at = `http://127.0.0.1:${other.info.port}/cdp/${own.capability}`;
  for (const path of [`devtools/browser/${id}`, `devtools/page/${other.pageId}`])
    await expect(connectRaw(`${at.replace('http', 'ws')}/${path}`)).rejects.toThrow('404');
  const statusOf = async (path: string, method = 'GET'): Promise<number> =>
    (await fetch(`${at}/${path}`, { method })).status;
  expect(await statusOf(`json/activate/${other.pageId}`)).toBe(404);
  expect(await statusOf(`json/close/${other.pageId}`)).toBe(404);
  if (isShared) {
    // On the listener of all, one's own capability leads to one's own browser and no other.
    const text = await (await fetch(`${at}/json/list`)).text();
    expect([text.includes(own.pageId), text.includes(other.pageId)]).toEqual([true, false]);
    return;
  }
  for (const path of ['json/version', 'json/list', 'json/protocol', '']) expect(await statusOf(path)).toBe(404);
  expect(await statusOf('json/new?about:blank', 'PUT')).toBe(404);
  await expect(connectRaw(at.replace('http', 'ws'))).rejects.toThrow('404');
}

async function expectAllIsolated(residents: readonly Resident[], isShared: boolean): Promise<void> {
  expect(new Set(residents.map(({ pageId }) => pageId)).size).toBe(16);
  for (const own of residents)
    await Promise.all(residents.filter((other) => other !== own).map((other) => expectIsolated(own, other, isShared)));
  // Nobody has lost a browser or a page by all that.
  for (const { client, info, pageId } of residents) {
    expect(await (await fetch(`${info.discoveryUrl}/json/list`)).text()).toContain(pageId);
    expect(await cdpOf(client)).toMatchObject({ state: 'ready', generation: 1 });
  }
}

async function openAll(args: string[]): Promise<{ readonly stop: () => Promise<void>; residents: Resident[] }> {
  const server = await startBrowserServer(testbed, { args: ['--cdp', ...args] });
  const clients: HttpClient[] = [];
  for (let count = 0; count < 16; count += 1) clients.push(await server.open());
  const residents: Resident[] = [];
  // Four at a time: as many as this takes, and no call waits for longer than it may.
  for (let at = 0; at < clients.length; at += 4)
    residents.push(...(await Promise.all(clients.slice(at, at + 4).map((client) => moveIn(client)))));
  return { residents, stop: () => stopBrowserServer(testbed, server) };
}

describe('sixteen sessions', () => {
  it('each on a port of its own cannot be reached by the address of another one', async () => {
    const { residents, stop } = await openAll(['--cdp-port-range', '22000-22100']);
    expect(new Set(residents.map(({ info }) => info.port)).size).toBe(16);
    await expectAllIsolated(residents, false);
    await stop();
  }, 240_000);

  it('on one port cannot reach the browser of another one', async () => {
    const { residents, stop } = await openAll([]);
    expect(new Set(residents.map(({ info }) => info.port)).size).toBe(1);
    expect(new Set(residents.map(({ info }) => info.webSocketDebuggerUrl)).size).toBe(16);
    await expectAllIsolated(residents, true);
    await stop();
  }, 240_000);
});
