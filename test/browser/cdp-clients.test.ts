import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { browserMs, callText, callTool, startBrowserBridge, type ToolCaller } from '../support/browser-bed.ts';
import { learnToolList, startBrowserServer, stopBrowserServer } from '../support/browser-server.ts';
import { cdpOf, lossOf, startCdp, visitors } from '../support/cdp-bed.ts';
import type { HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { descendantsOf, listeningPorts } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let pages: PageServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  pages = await startPageServer();
  await learnToolList(testbed);
}, 120_000);

afterAll(async () => {
  await testbed.close();
  await pages.close();
}, 60_000);

/** Every library in turn sees what MCP has and shows it what it opens. */
async function expectShared(client: ToolCaller): Promise<void> {
  await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  await callText(client, 'browser_evaluate', { function: '() => { document.cookie = "mcp=1"; }' });
  const info = await cdpOf(client);
  for (const [name, visit] of Object.entries(visitors)) {
    const cookie = { name: name.replaceAll(/\W/g, '-'), value: String(info.generation) };
    const visitor = await visit(info);
    expect([name, await visitor.urls()]).toEqual([name, expect.arrayContaining([`${pages.url}/home`])]);
    expect([name, await visitor.cookies(pages.url)]).toEqual([name, expect.arrayContaining(['mcp=1'])]);
    const url = `${pages.url}/form?${cookie.name}`;
    await visitor.open(url, cookie);
    await waitUntil(`the page of ${name} in MCP`, async () => {
      return (await callText(client, 'browser_tabs', { action: 'list' })).includes(url) || undefined;
    });
    const text = await callText(client, 'browser_evaluate', { function: '() => document.cookie' });
    expect(text).toContain(`${cookie.name}=${cookie.value}`);
    await visitor.disconnect();
    await waitUntil(`the end of ${name}`, async () => (await cdpOf(client)).activeConnections === 0 || undefined);
    // Disconnecting changes nothing.
    expect((await callText(client, 'browser_tabs', { action: 'list' })).includes(`${pages.url}/home`)).toBe(true);
    expect((await cdpOf(client)).generation).toBe(info.generation);
  }
}

async function expectSharedTwice(client: ToolCaller): Promise<void> {
  await startCdp(client);
  await expectShared(client);
  const { webSocketDebuggerUrl } = await cdpOf(client);
  await callTool(client, 'browser_close');
  expect((await lossOf(client)).reason).toBe('browser_close_tool');
  await expectShared(client);
  const { webSocketDebuggerUrl: next, generation } = await cdpOf(client);
  expect([generation, next === webSocketDebuggerUrl]).toEqual([2, false]);
}

describe('every client sees the tabs and the cookies of MCP and shows its own, before and after a replacement', () => {
  it('over stdio, with a profile that lasts', async () => {
    const client = startBrowserBridge(testbed, {
      isPersistent: true,
      args: ['--cdp', '--user-data-dir', `${testbed.folders.home}/profile`],
    });
    await client.initialize();
    await expectSharedTwice(client);
    expect(await client.close(30_000)).toEqual({ code: 0, signal: null });
  });

  it('over HTTP, on a port of the session', async () => {
    await expectOverHttp(['--cdp', '--cdp-port-range', '20000-20100'], (url, server) => {
      expect(new URL(url).port).not.toBe(new URL(server.url).port);
    });
  });

  it('over HTTP, on the port of the server', async () => {
    await expectOverHttp(['--cdp'], (url, server) => {
      expect(new URL(url).port).toBe(new URL(server.url).port);
    });
  });
});

async function expectOverHttp(args: string[], look: (url: string, server: HttpServer) => void): Promise<void> {
  const server = await startBrowserServer(testbed, { args });
  const client = await server.open();
  await expectSharedTwice(client);
  look((await cdpOf(client)).discoveryUrl, server);
  await stopBrowserServer(testbed, server);
}

describe('what the bridge tells', () => {
  it('is told before there is a browser, starts none, and works at once, twenty times', async () => {
    const client = startBrowserBridge(testbed, { args: ['--cdp', '--cdp-max-connections', '20'] });
    await client.initialize();
    expect(await cdpOf(client)).toMatchObject({
      enabled: true,
      state: 'idle',
      generation: 0,
      webSocketDebuggerUrl: null,
    });
    expect(listeningPorts(client.pid)).toEqual([]);
    const info = await startCdp(client);
    expect(listeningPorts(client.pid)).toEqual([info.port]);
    expect(Object.keys(visitors)).toHaveLength(5);
    const all = await Promise.all(
      Array.from({ length: 4 }, () => Object.values(visitors).map((visit) => visit(info))).flat(),
    );
    expect(all).toHaveLength(20);
    for (const visitor of all) expect(await visitor.urls()).not.toEqual([]);
    for (const visitor of all) await visitor.disconnect();
    await client.close(30_000);
  });

  it('comes as a log message, without the address, unless the client wants more important ones only', async () => {
    for (const [level, count] of [
      [undefined, 2],
      ['error', 0],
    ] as const) {
      const client = startBrowserBridge(testbed, { args: ['--cdp'] });
      const { result } = await client.initialize();
      expect(result?.['capabilities']).toMatchObject({ logging: {} });
      const answer = level === undefined ? undefined : await client.request('logging/setLevel', { level });
      expect(answer?.error).toBeUndefined();
      const info = await startCdp(client);
      await callTool(client, 'browser_close');
      await lossOf(client);
      const told = client.messagesOf('notifications/message');
      expect(told).toHaveLength(count);
      expect(JSON.stringify(told)).not.toContain(info.discoveryUrl.slice(-43));
      await client.close(30_000);
    }
  });

  it('is that there is none without --cdp, and then nothing is listened on', async () => {
    const client = startBrowserBridge(testbed);
    const { result } = await client.initialize();
    expect(result?.['capabilities']).not.toHaveProperty('logging');
    await callText(client, 'browser_tabs', { action: 'list' });
    expect(await cdpOf(client)).toEqual({ enabled: false });
    expect([client.pid, ...descendantsOf(client.pid).map(({ pid }) => pid)].flatMap(listeningPorts)).toEqual([]);
    await client.close(browserMs);
  });
});
