import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { callText, callTool } from '../support/browser-bed.ts';
import {
  browsersBelow,
  childrenOf,
  evaluate,
  expectNoSession,
  foldersOf,
  generationOf,
  learnToolList,
  startBrowserServer,
  stopBrowserServer,
} from '../support/browser-server.ts';
import { cdpOf, connectRaw, lossOf, startCdp } from '../support/cdp-bed.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
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

function stateWith(value: string): { cookies: object[]; origins: object[] } {
  const cookie = { name: 'login', value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: false, secure: false };
  return {
    cookies: [{ ...cookie, sameSite: 'Lax' }],
    origins: [{ origin: pages.url, localStorage: [{ name: 'kept', value }] }],
  };
}

const stored = '() => document.cookie + " " + localStorage.getItem("kept")';

it('the state to begin with, of the session or of the operator, is there in each browser of a session', async () => {
  const path = join(testbed.folders.home, 'state.json');
  writeFileSync(path, JSON.stringify(stateWith('operator')));
  const server = await startBrowserServer(testbed, { args: ['--cdp', '--storage-state', path] });
  const key = 'io.github.cloakbrowser-mcp/session';
  const own = await server.open({ params: { _meta: { [key]: { storageState: stateWith('session') } } } });
  const plain = await server.open();
  for (const [client, value] of [
    [own, 'session'],
    [plain, 'operator'],
  ] as const) {
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    expect(await evaluate(client, stored)).toBe(`login=${value} ${value}`);
  }
  await callTool(own, 'browser_close');
  await lossOf(own);
  await callText(own, 'browser_navigate', { url: `${pages.url}/home` });
  expect(await evaluate(own, stored)).toBe('login=session session');
  expect((await cdpOf(own)).generation).toBe(2);
  expect(server.program.stderr).not.toContain('login=');
  await stopBrowserServer(testbed, server);
});

it('a spare process, and one whose browser runs already, serve a session with its own address', async () => {
  const settings = { 'http-spare-children': 1, 'http-spare-browsers': 1 };
  const server = await startBrowserServer(testbed, { args: ['--cdp'], settings });
  await waitUntil(
    'both spares',
    async () => {
      const { children, browsers } = (await server.status()).spares;
      return (children === 1 && browsers === 1) || undefined;
    },
    60_000,
  );
  const spares = childrenOf(server);
  expect([spares.length, spares.filter((child) => browsersBelow(child).length > 0).length]).toEqual([2, 1]);
  for (let count = 0; count < 2; count += 1) {
    const client = await server.open();
    const info = await startCdp(client);
    expect(spares).toContain((await generationOf(client)).pid);
    const raw = await connectRaw(info.webSocketDebuggerUrl);
    expect(await raw.ask('Target.getTargets')).toHaveProperty('result');
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    raw.webSocket.close();
  }
  await stopBrowserServer(testbed, server);
});

it('messages of CDP clients keep a session from its idle limit, and an open socket alone does not', async () => {
  const settings = { 'http-session-idle-ttl-ms': 3000, 'http-session-unused-ttl-ms': 3000 };
  const server = await startBrowserServer(testbed, { args: ['--cdp'], settings });
  const client = await server.open();
  const info = await startCdp(client);
  const raw = await connectRaw(info.webSocketDebuggerUrl);
  const until = performance.now() + 7000;
  while (performance.now() < until) {
    await raw.ask('Browser.getVersion');
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect((await fetch(`${info.discoveryUrl}/json/version`)).status).toBe(200);
  expect(await raw.closed).toEqual({ code: 1001, reason: 'the session ended' });
  expect((await fetch(`${info.discoveryUrl}/json/version`)).status).toBe(404);
  await waitUntil('the end of its folder', () => foldersOf(testbed, server).length === 1 || undefined);
  await expectNoSession(testbed, server);
  await stopBrowserServer(testbed, server);
});

it('a drain closes the sockets with the session, and metrics tell of them', async () => {
  const server = await startBrowserServer(testbed, { args: ['--cdp'] });
  const client = await server.open();
  const info = await startCdp(client);
  const raw = await connectRaw(info.webSocketDebuggerUrl);
  await fetch(`${info.discoveryUrl.slice(0, -1)}_/json/version`);
  const metrics = await (await fetch(`${new URL(server.url).origin}/metrics`)).text();
  expect(metrics).toContain('cloakbrowser_mcp_cdp_connections 1');
  expect(metrics).toContain('cloakbrowser_mcp_refusals_total{reason="cdp_not_found"} 1');
  await stopBrowserServer(testbed, server);
  expect((await raw.closed).code).toBe(1001);
  expect(server.program.stderr).not.toContain(info.discoveryUrl.slice(-43));
});
