import { chromium } from 'playwright-core';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { callText, callTool, startBrowserBridge } from '../support/browser-bed.ts';
import { cdpOf, connectRaw, startCdp } from '../support/cdp-bed.ts';
import type { LineClient } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

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

async function start(isPersistent: boolean, ...args: string[]): Promise<LineClient> {
  const profile = isPersistent ? ['--user-data-dir', `${testbed.folders.home}/profile`] : [];
  const client = startBrowserBridge(testbed, { isPersistent, args: ['--cdp', ...profile, ...args] });
  await client.initialize();
  return client;
}

it('navigation over MCP and clients that come and go, 200 times: no lost call, no hang', async () => {
  const client = await start(true);
  const info = await startCdp(client);
  let isOver = false;
  let visits = 0;
  const comeAndGo = async (): Promise<void> => {
    while (!isOver) {
      const raw = await connectRaw(info.webSocketDebuggerUrl);
      await raw.ask('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
      await raw.ask('Target.getTargets');
      visits += 1;
      // Every third one goes as a program that is killed.
      if (visits % 3 === 0) raw.webSocket.terminate();
      else raw.webSocket.close();
    }
  };
  const guests = comeAndGo();
  for (let count = 1; count <= 200; count += 1) {
    const text = await callText(client, 'browser_navigate', {
      url: `${pages.url}/${count % 2 === 0 ? 'home' : 'form'}?${count}`,
    });
    expect(text).toContain(`?${count}`);
    // At least one of them between two navigations.
    const seen = visits;
    await waitUntil('a visit', () => (visits > seen ? true : undefined));
  }
  isOver = true;
  await guests;
  expect(visits).toBeGreaterThanOrEqual(200);
  expect(await cdpOf(client)).toMatchObject({ state: 'ready', generation: 1 });
}, 240_000);

it('an outside client that intercepts and has new pages wait, and is then killed, breaks no page loads (R75)', async () => {
  const client = await start(true);
  await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  const info = await cdpOf(client);
  const raw = await connectRaw(info.webSocketDebuggerUrl);
  await raw.ask('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
  const { result } = await raw.ask('Target.getTargets');
  const { targetInfos } = result as { targetInfos: { type: string; targetId: string }[] };
  const targetId = targetInfos.find(({ type }) => type === 'page')?.targetId;
  const attached = await raw.ask('Target.attachToTarget', { targetId, flatten: true });
  const { sessionId } = attached['result'] as { sessionId: string };
  await raw.ask('Fetch.enable', { patterns: [{ urlPattern: '*' }] }, sessionId);
  const hanging = callTool(client, 'browser_navigate', { url: `${pages.url}/form` });
  await new Promise((resolve) => setTimeout(resolve, 500));
  raw.webSocket.terminate();
  expect((await hanging)['isError']).not.toBe(true);
  const guest = await chromium.connectOverCDP(info.discoveryUrl);
  for (const path of ['home', 'form', 'keys'])
    expect(await callText(client, 'browser_navigate', { url: `${pages.url}/${path}` })).toContain(`/${path}`);
  const page = await guest.contexts()[0]?.newPage();
  await page?.goto(`${pages.url}/home`);
  await guest.close();
  expect(await callText(client, 'browser_tabs', { action: 'new', url: `${pages.url}/select` })).toContain('/select');
  expect(await cdpOf(client)).toMatchObject({ state: 'ready', generation: 1 });
});

it('with --isolated a client sees the pages of MCP, whose context is told, and MCP those that it opens there', async () => {
  const client = await start(false);
  await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  const { webSocketDebuggerUrl, browserContextId } = await cdpOf(client);
  const raw = await connectRaw(webSocketDebuggerUrl);
  const { result } = await raw.ask('Target.getTargets');
  const { targetInfos } = result as { targetInfos: { url: string; browserContextId: string }[] };
  expect(targetInfos.find(({ url }) => url === `${pages.url}/home`)?.browserContextId).toBe(browserContextId);
  await raw.ask('Target.createTarget', { url: `${pages.url}/form` });
  await raw.ask('Target.createTarget', { url: `${pages.url}/keys`, browserContextId });
  const tabs = await waitUntil('the page of the same context', async () => {
    const text = await callText(client, 'browser_tabs', { action: 'list' });
    return text.includes(`${pages.url}/keys`) ? text : undefined;
  });
  expect(tabs).not.toContain(`${pages.url}/form`);
  raw.webSocket.close();
});
