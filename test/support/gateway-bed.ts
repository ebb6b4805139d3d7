import { get, request } from 'node:http';
import { WebSocket } from 'ws';

import { Access } from '../../src/cdp/access.ts';
import { Door, type DoorLimits, Doors } from '../../src/cdp/door.ts';
import { Gateway } from '../../src/cdp/gateway.ts';
import { type Lease, Ports } from '../../src/cdp/lease.ts';
import { makePolicy, type PolicySettings } from '../../src/cdp/policy.ts';
import type { SpliceFacts } from '../../src/cdp/splice.ts';
import type { LogFields, Logger } from '../../src/core/logger.ts';
import { FakeBrowser } from './fake-browser.ts';

/** Limits that are short enough to be waited for. */
export const shortLimits: DoorLimits = {
  maxConnections: 3,
  maxRequestBytes: 100_000,
  maxAnswerBytes: 100_000,
  bufferBytes: 65_536,
  stallTimeoutMs: 300,
  pingIntervalMs: 60_000,
  httpMax: 2,
  httpMaxBytes: 20_000,
  httpTimeoutMs: 500,
  handshakeTimeoutMs: 500,
};

/** What a bed is made with. */
export interface GatewayWish {
  readonly limits?: Partial<DoorLimits>;
  readonly policy?: Partial<PolicySettings>;
  readonly allowedOrigins?: readonly string[];
  readonly advertised?: {
    readonly scheme: 'http' | 'https';
    readonly host: string;
    readonly port: number;
    readonly path: string;
  };
}

/** An answer of the gateway over HTTP. */
export interface GatewayAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** A client's WebSocket, and how it was closed. */
export interface CdpSocket {
  readonly webSocket: WebSocket;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  /** The next message that comes. */
  next(): Promise<string>;
  /** Asks, and waits for the answer with this id. */
  ask(message: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>>;
}

/** A gateway on a leased port with the door of one browser, within the test. */
export class GatewayBed {
  readonly browser: FakeBrowser;
  readonly doors = new Doors();
  readonly door: Door;
  readonly lease: Lease;
  readonly logged: { readonly level: string; readonly event: string; readonly fields: LogFields | undefined }[] = [];
  readonly refused: string[] = [];
  readonly facts: SpliceFacts[] = [];
  readonly #sockets: WebSocket[] = [];

  private constructor(browser: FakeBrowser, door: Door, lease: Lease) {
    this.browser = browser;
    this.door = door;
    this.lease = lease;
  }

  /** Opens one whose browser is published. */
  static async open(wish: GatewayWish = {}): Promise<GatewayBed> {
    const browser = await FakeBrowser.start();
    const inner: { bed?: GatewayBed; gateway?: Gateway } = {};
    const at =
      (level: string) =>
      (event: string, fields?: LogFields): void =>
        void inner.bed?.logged.push({ level, event, fields });
    const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
    const door = new Door({
      settings: {
        policy: makePolicy({ name: 'full', allow: [], deny: [], ...wish.policy }),
        limits: { ...shortLimits, ...wish.limits },
      },
      events: {
        onActivity: () => undefined,
        onOpened: () => undefined,
        onClosed: (facts) => void inner.bed?.facts.push(facts),
      },
      logger,
    });
    const ports = new Ports({ range: undefined, host: '127.0.0.1', logger });
    const lease = await ports.acquire(
      {
        onRequest: (req, res) => void inner.gateway?.handle(req, res),
        onUpgrade: (req, socket, head) => inner.gateway?.upgrade(req, socket, head),
      },
      new AbortController().signal,
    );
    const bed = new GatewayBed(browser, door, lease);
    inner.bed = bed;
    const { advertised, allowedOrigins = [] } = wish;
    const own = { scheme: 'http', host: '127.0.0.1', port: lease.port, path: '' } as const;
    inner.gateway = new Gateway({
      doors: bed.doors,
      access: new Access({ bindHost: '127.0.0.1', port: lease.port, advertised, allowedOrigins }),
      address: advertised ?? own,
      logger,
      onRefused: (code) => void bed.refused.push(code),
    });
    bed.doors.add(door);
    bed.publish(1);
    return bed;
  }

  /** The base of the live address, without a final slash. */
  get base(): string {
    return `http://127.0.0.1:${this.lease.port}/cdp/${this.door.capability ?? 'none'}`;
  }

  /** Publishes the browser as this generation. */
  publish(generation: number): void {
    const { port, browserId } = this.browser;
    this.door.stage({ generation, port, browserId });
    this.door.publish();
  }

  /** Sends one request on a connection of its own; `path` is what follows the capability. */
  ask(
    path: string,
    sent: { method?: string; headers?: Record<string, string>; body?: string } = {},
  ): Promise<GatewayAnswer> {
    return askUrl(`${this.base}${path}`, sent);
  }

  /** Opens a WebSocket; rejects with the status of a refusal. */
  connect(path = '', headers: Record<string, string> = {}): Promise<CdpSocket> {
    return this.connectTo(`${this.base.replace('http', 'ws')}${path}`, headers);
  }

  /** The same at any URL. */
  async connectTo(url: string, headers: Record<string, string> = {}): Promise<CdpSocket> {
    const webSocket = new WebSocket(url, { headers, perMessageDeflate: false, maxPayload: 500_000_000 });
    this.#sockets.push(webSocket);
    const messages: string[] = [];
    const waiting: ((text: string) => void)[] = [];
    webSocket.on('message', (data: Buffer) => {
      const take = waiting.shift();
      if (take === undefined) messages.push(data.toString('utf8'));
      else take(data.toString('utf8'));
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
    const next = (): Promise<string> => {
      const known = messages.shift();
      return known === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(known);
    };
    const ask = async (message: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>> => {
      webSocket.send(JSON.stringify(message));
      return JSON.parse(await next()) as Record<string, unknown>;
    };
    return { webSocket, closed, next, ask };
  }

  /** Ends everything. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.terminate();
    this.door.close();
    await this.lease.close();
    await this.browser.close();
  }
}

/** Sends one request to any URL, on a connection of its own. */
export function askUrl(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<GatewayAnswer> {
  return new Promise((resolve, reject) => {
    const make = method === 'GET' ? get : request;
    const req = make(url, { method, headers, agent: false }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      res.once('end', () => {
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text });
      });
    });
    req.once('error', reject);
    req.end(body);
  });
}
