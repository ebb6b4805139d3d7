import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { callText, startBrowserBridge } from '../support/browser-bed.ts';
import { evaluate } from '../support/browser-server.ts';
import { cdpArgs, type CdpInfo, cdpOf } from '../support/cdp-bed.ts';
import type { LineClient } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let pages: PageServer;
let redirect: Server;
/** Where `redirect` leads. */
let location = '';

beforeEach(async () => {
  testbed = await Testbed.make();
  pages = await startPageServer();
  redirect = createServer((_, response) => response.writeHead(302, { location }).end());
  await new Promise<void>((resolve) => redirect.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  await testbed.close();
  await pages.close();
  redirect.close();
});

/** Opens a page that attacks, and one that it should not be able to close. */
async function start(): Promise<{ readonly client: LineClient; readonly info: CdpInfo; readonly victim: string }> {
  const client = startBrowserBridge(testbed, { args: cdpArgs });
  await client.initialize();
  await callText(client, 'browser_navigate', { url: `${pages.url}/form` });
  await callText(client, 'browser_tabs', { action: 'new', url: `${pages.url}/home` });
  const info = await cdpOf(client);
  return { client, info, victim: (await idOf(info, `${pages.url}/form`)) ?? '' };
}

async function idOf(info: CdpInfo, page: string): Promise<string | undefined> {
  const list = (await (await fetch(`${info.discoveryUrl}/json/list`)).json()) as { id: string; url: string }[];
  return list.find(({ url }) => url === page)?.id;
}

/** What a page can try by itself; each answers with what it learned. */
const attacks = `
  const read = (url, options) => fetch(url, options).then((r) => r.type + ' ' + r.status, (e) => 'failed: ' + e.name);
  const socket = (url) => new Promise((resolve) => {
    const ws = new WebSocket(url);
    ws.onopen = () => resolve('open');
    ws.onerror = () => resolve('failed');
  });
  const image = (url) => new Promise((resolve) => {
    const element = new Image();
    element.onload = () => resolve('loaded');
    element.onerror = () => resolve('failed');
    element.src = url;
  });
  const frame = (url) => new Promise((resolve) => {
    const element = document.createElement('iframe');
    element.onload = () => resolve('shown');
    element.src = url;
    document.body.append(element);
  });`;

it('a page in the browser cannot use the address, even if it knows it', async () => {
  const { client, info, victim } = await start();
  const tries = await evaluate(
    client,
    `async () => {
      ${attacks}
      const base = ${JSON.stringify(info.discoveryUrl)}, close = base + '/json/close/${victim}';
      const cors = [
        await read(base + '/json/list'), await read(base + '/json/new?about:blank', { method: 'PUT' }),
        await read(close), await read(close, { method: 'PUT' }),
      ];
      const sockets = [
        await socket(${JSON.stringify(info.webSocketDebuggerUrl)}), await socket(base.replace('http', 'ws')),
        await socket(base.replace('http', 'ws') + '/devtools/page/${victim}'),
      ];
      // These carry no Origin, and their answers cannot be read; only what they do counts.
      await read(close, { mode: 'no-cors' });
      await image(close);
      await frame(close);
      return { cors, sockets };
    }`,
  );
  expect(tries).toEqual({
    cors: Array.from({ length: 4 }, () => 'failed: TypeError'),
    sockets: ['failed', 'failed', 'failed'],
  });
  location = `${info.discoveryUrl}/json/close/${victim}`;
  const { port } = redirect.address() as AddressInfo;
  expect(await callText(client, 'browser_navigate', { url: `http://127.0.0.1:${port}/` })).toContain('/json/close/');
  expect(await evaluate(client, '() => document.body.textContent')).toContain('origin_refused');
  const tabs = await callText(client, 'browser_tabs', { action: 'list' });
  expect(tabs).toContain(`${pages.url}/form`);
  expect(tabs).not.toContain('- 2:');
  expect((await cdpOf(client)).activeConnections).toBe(0);
  // To somebody who is no page the same request is served.
  expect((await fetch(location)).status).toBe(200);
  await waitUntil('the end of that page', async () => {
    return (await idOf(info, `${pages.url}/form`)) === undefined || undefined;
  });
});

it('a page that only knows the port learns nothing there', async () => {
  const { client, info, victim } = await start();
  const [id] = info.webSocketDebuggerUrl.split('/').slice(-1);
  const tries = await evaluate(
    client,
    `async () => {
      ${attacks}
      const results = [];
      for (const base of ['http://127.0.0.1:${info.port}', 'http://localhost:${info.port}']) {
        for (const path of ['/json/version', '/json/list', '/json/close/${victim}', '/cdp/', '/cdp/${'A'.repeat(43)}/json/list'])
          results.push(await read(base + path));
        for (const path of ['/', '/devtools/browser/${id ?? ''}', '/devtools/page/${victim}', '/cdp/'])
          results.push(await socket(base.replace('http', 'ws') + path));
        await read(base + '/json/close/${victim}', { mode: 'no-cors' });
      }
      return [...new Set(results)].sort();
    }`,
  );
  expect(tries).toEqual(['failed', 'failed: TypeError']);
  expect(await callText(client, 'browser_tabs', { action: 'list' })).toContain(`${pages.url}/form`);
});
