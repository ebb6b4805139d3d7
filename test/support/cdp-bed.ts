import CRI from 'chrome-remote-interface';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { WebSocket } from 'ws';

import { callTool, type ToolCaller } from './browser-bed.ts';
import { stateOf } from './browser-server.ts';
import type { JsonObject } from './client.ts';
import { waitUntil, withDeadline } from './waiting.ts';

/** Managed CDP, without the half second that upstream waits after each action: these tests look at the browser themselves. */
export const cdpArgs: readonly string[] = ['--cdp', '--timeout-settle', '0'];

/** What `cloakbrowser_bridge_info` tells of managed CDP. */
export interface CdpInfo extends JsonObject {
  readonly enabled: boolean;
  readonly state: string;
  readonly generation: number;
  readonly port: number;
  readonly discoveryUrl: string;
  readonly webSocketDebuggerUrl: string;
  readonly browserContextId: string;
  readonly activeConnections: number;
  readonly lastLoss: { readonly reason: string; readonly generation: number } | null;
  readonly lastError: { readonly code: string; readonly message: string } | null;
}

/** What the bridge tells now. */
export async function cdpOf(client: ToolCaller): Promise<CdpInfo> {
  return (await stateOf(client))['cdp'] as CdpInfo;
}

/** Has the browser started by a call, and tells where it is. */
export async function startCdp(client: ToolCaller): Promise<CdpInfo> {
  await callTool(client, 'browser_tabs', { action: 'list' });
  const info = await cdpOf(client);
  if (info.state !== 'ready') throw new Error(`No browser is published: ${JSON.stringify(info)}`);
  return info;
}

/** A raw CDP client, and how it was closed. */
export interface RawCdp {
  readonly webSocket: WebSocket;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  ask(method: string, params?: JsonObject, sessionId?: string): Promise<JsonObject>;
}

/** Connects a raw WebSocket. */
export async function connectRaw(url: string, headers: Record<string, string> = {}): Promise<RawCdp> {
  const webSocket = new WebSocket(url, { headers, maxPayload: 300_000_000, rejectUnauthorized: false });
  const waiting = new Map<number, (message: JsonObject) => void>();
  let lastId = 0;
  webSocket.on('message', (data: Buffer) => {
    const message = JSON.parse(data.toString('utf8')) as JsonObject;
    waiting.get(Number(message['id']))?.(message);
  });
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    webSocket.once('close', (code, reason) => {
      resolve({ code, reason: reason.toString('utf8') });
    });
  });
  await new Promise<void>((resolve, reject) => {
    webSocket.once('open', resolve).once('error', reject);
  });
  webSocket.on('error', () => undefined);
  const ask = (method: string, params: JsonObject = {}, sessionId?: string): Promise<JsonObject> => {
    lastId += 1;
    const id = lastId;
    const answer = new Promise<JsonObject>((resolve) => waiting.set(id, resolve));
    webSocket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
    return withDeadline(`the answer to ${method}`, answer, 30_000);
  };
  return { webSocket, closed, ask };
}

/** Waits until the bridge has noticed a loss. */
export async function lossOf(client: ToolCaller, ms = 20_000): Promise<NonNullable<CdpInfo['lastLoss']>> {
  const info = await waitUntil(
    'the loss',
    async () => {
      const now = await cdpOf(client);
      return now.state === 'lost' ? now : undefined;
    },
    ms,
  );
  if (info.lastLoss === null) throw new Error('A loss without a reason');
  return info.lastLoss;
}

/** What a CDP client can do with a browser, whatever library it is written with. */
export interface Visitor {
  /** The URLs of the pages that it sees. */
  urls(): Promise<string[]>;
  /** All cookies of this URL, as `name=value`. */
  cookies(url: string): Promise<string[]>;
  /** Opens a page, with a cookie of its own. */
  open(url: string, cookie: { readonly name: string; readonly value: string }): Promise<void>;
  disconnect(): Promise<void>;
}

/** The libraries, each by the address that it is told. */
export const visitors: Readonly<Record<string, (info: CdpInfo) => Promise<Visitor>>> = {
  'Playwright over http': (info) => visitByPlaywright(info.discoveryUrl),
  'Playwright over ws': (info) => visitByPlaywright(info.webSocketDebuggerUrl),
  Puppeteer: visitByPuppeteer,
  'chrome-remote-interface': visitByRemoteInterface,
  'a raw WebSocket': visitRaw,
};

async function visitByPlaywright(url: string): Promise<Visitor> {
  const browser = await chromium.connectOverCDP(url);
  const [context] = browser.contexts();
  if (context === undefined) throw new Error('no context');
  return {
    urls: () => Promise.resolve(browser.contexts().flatMap((one) => one.pages().map((page) => page.url()))),
    cookies: async (of) => (await context.cookies(of)).map(({ name, value }) => `${name}=${value}`),
    open: async (to, cookie) => {
      await context.addCookies([{ ...cookie, url: to }]);
      const page = await context.newPage();
      await page.goto(to);
    },
    disconnect: () => browser.close(),
  };
}

async function visitByPuppeteer({ webSocketDebuggerUrl }: CdpInfo): Promise<Visitor> {
  const browser = await puppeteer.connect({ browserWSEndpoint: webSocketDebuggerUrl, defaultViewport: null });
  return {
    urls: async () => (await browser.pages()).map((page) => page.url()),
    cookies: async (of) => {
      const host = new URL(of).hostname;
      const all = await browser.defaultBrowserContext().cookies();
      return all.filter(({ domain }) => domain === host).map(({ name, value }) => `${name}=${value}`);
    },
    open: async (to, cookie) => {
      await browser.defaultBrowserContext().setCookie({ ...cookie, domain: new URL(to).hostname });
      const page = await browser.newPage();
      await page.goto(to);
    },
    disconnect: () => browser.disconnect(),
  };
}

type Ask = (method: string, params?: JsonObject) => Promise<JsonObject>;

function visitBy(ask: Ask, disconnect: () => Promise<void>): Visitor {
  return {
    urls: async () => {
      const { targetInfos } = (await ask('Target.getTargets')) as { targetInfos?: { type: string; url: string }[] };
      return (targetInfos ?? []).filter(({ type }) => type === 'page').map(({ url }) => url);
    },
    cookies: async (of) => {
      const { cookies } = (await ask('Storage.getCookies')) as {
        cookies?: { name: string; value: string; domain: string }[];
      };
      const host = new URL(of).hostname;
      return (cookies ?? []).filter(({ domain }) => domain === host).map(({ name, value }) => `${name}=${value}`);
    },
    open: async (to, cookie) => {
      await ask('Storage.setCookies', { cookies: [{ ...cookie, url: to }] });
      await ask('Target.createTarget', { url: to });
    },
    disconnect,
  };
}

async function visitByRemoteInterface({ webSocketDebuggerUrl }: CdpInfo): Promise<Visitor> {
  const client = await CRI({ target: webSocketDebuggerUrl, local: true });
  return visitBy(
    (method, params) => client.send(method, params),
    () => client.close(),
  );
}

async function visitRaw({ webSocketDebuggerUrl }: CdpInfo): Promise<Visitor> {
  const raw = await connectRaw(webSocketDebuggerUrl);
  return visitBy(
    async (method, params) => {
      const { result, error } = await raw.ask(method, params);
      if (result === undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
      return result as JsonObject;
    },
    async () => {
      raw.webSocket.close();
      await raw.closed;
    },
  );
}
