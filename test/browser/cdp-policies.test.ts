import puppeteer from 'puppeteer-core';
import { chromium } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { callText, callTool, startBrowserBridge } from '../support/browser-bed.ts';
import { cdpOf, connectRaw, lossOf, startCdp } from '../support/cdp-bed.ts';
import type { LineClient } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';
import { withDeadline } from '../support/waiting.ts';

let testbed: Testbed;
let pages: PageServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  pages = await startPageServer();
});

afterEach(async () => {
  await testbed.close();
  await pages.close();
});

async function start(...args: string[]): Promise<LineClient> {
  const profile = `${testbed.folders.home}/profile`;
  const client = startBrowserBridge(testbed, {
    isPersistent: true,
    args: ['--cdp', '--user-data-dir', profile, ...args],
  });
  await client.initialize();
  return client;
}

describe('browser.close()', () => {
  it('of Playwright only disconnects, of Puppeteer ends the browser; the next call gets another one', async () => {
    const client = await start();
    const info = await startCdp(client);
    const guest = await chromium.connectOverCDP(info.discoveryUrl);
    await guest.close();
    expect((await cdpOf(client)).state).toBe('ready');
    const ending = await puppeteer.connect({ browserWSEndpoint: info.webSocketDebuggerUrl, defaultViewport: null });
    await ending.close();
    expect(await lossOf(client)).toMatchObject({ reason: 'sentinel_closed', generation: 1 });
    expect((await fetch(`${info.discoveryUrl}/json/version`)).status).toBe(410);
    expect((await startCdp(client)).generation).toBe(2);
  });

  it('of Puppeteer under guarded only lets it go, and its pages stay', async () => {
    const client = await start('--cdp-policy', 'guarded');
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    const info = await cdpOf(client);
    const guest = await puppeteer.connect({ browserWSEndpoint: info.webSocketDebuggerUrl, defaultViewport: null });
    const page = await guest.newPage();
    await page.goto(`${pages.url}/form`);
    await withDeadline('the end of Puppeteer', guest.close());
    expect(guest.connected).toBe(false);
    expect(await cdpOf(client)).toMatchObject({ state: 'ready', generation: 1 });
    const tabs = await callText(client, 'browser_tabs', { action: 'list' });
    expect([tabs.includes(`${pages.url}/home`), tabs.includes(`${pages.url}/form`)]).toEqual([true, true]);
  });
});

describe('guarded', () => {
  it('lets Playwright and Puppeteer work, and keeps the browser from what ends it', async () => {
    const client = await start('--cdp-policy', 'guarded');
    const info = await startCdp(client);
    const guest = await chromium.connectOverCDP(info.webSocketDebuggerUrl);
    const page = await guest.contexts()[0]?.newPage();
    await page?.goto(`${pages.url}/home`);
    expect(await page?.textContent('h1')).toBe('Welcome');
    const raw = await connectRaw(info.webSocketDebuggerUrl);
    const { result } = await raw.ask('Target.getTargets');
    const target = (result as { targetInfos: { type: string; targetId: string }[] }).targetInfos.find(
      ({ type }) => type === 'page',
    );
    const attached = await raw.ask('Target.attachToTarget', { targetId: target?.targetId, flatten: false });
    const sessionId = (attached['result'] as { sessionId: string }).sessionId;
    const message = JSON.stringify({ id: 1, method: 'Browser.close' });
    for (const [method, params] of [
      ['Browser.crash', {}],
      ['Target.sendMessageToTarget', { sessionId, message }],
      ['Target.exposeDevToolsProtocol', { targetId: target?.targetId }],
      ['Target.setRemoteLocations', { locations: [] }],
    ] as const)
      expect(await raw.ask(method, params)).toMatchObject({ error: { code: -32_000 } });
    const ofPage = await connectRaw(info.webSocketDebuggerUrl.replace(/browser\/.*/, `page/${target?.targetId ?? ''}`));
    expect(await ofPage.ask('Browser.crash')).toMatchObject({ error: { code: -32_000 } });
    expect((await ofPage.ask('Browser.close'))['result']).toEqual({});
    expect(await ofPage.closed).toMatchObject({ code: 1000 });
    ofPage.webSocket.close();
    raw.webSocket.send('{"id":9,"method":"Browser.\\u0063rash"}');
    raw.webSocket.close();
    await guest.close();
    expect(await cdpOf(client)).toMatchObject({ state: 'ready', generation: 1 });
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  });
});

describe('observe', () => {
  it('shows pictures of the pages, and does nothing', async () => {
    const client = await start('--cdp-policy', 'observe');
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    const info = await cdpOf(client);
    const raw = await connectRaw(info.webSocketDebuggerUrl);
    const { result } = await raw.ask('Target.getTargets');
    const { targetInfos } = result as { targetInfos: { url: string; targetId: string }[] };
    const targetId = targetInfos.find(({ url }) => url === `${pages.url}/home`)?.targetId;
    const attached = await raw.ask('Target.attachToTarget', { targetId, flatten: true });
    const { sessionId } = attached['result'] as { sessionId: string };
    const shot = await raw.ask('Page.captureScreenshot', { format: 'png' }, sessionId);
    expect((shot['result'] as { data: string }).data.startsWith('iVBOR')).toBe(true);
    for (const method of [
      'Page.navigate',
      'Runtime.evaluate',
      'Target.createTarget',
      'Storage.getCookies',
      'Browser.close',
    ])
      expect(await raw.ask(method, {}, sessionId)).toMatchObject({ sessionId, error: { code: -32_000 } });
    expect((await fetch(`${info.discoveryUrl}/json/close/${targetId ?? ''}`)).status).toBe(403);
    await expect(chromium.connectOverCDP(info.discoveryUrl, { timeout: 10_000 })).rejects.toThrow('denied');
    expect((await callTool(client, 'browser_tabs', { action: 'list' }))['isError']).not.toBe(true);
    raw.webSocket.close();
  });
});
