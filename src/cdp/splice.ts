import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';

import { messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { Refusal } from './answers.ts';
import { dial, type Dialled } from './dial.ts';
import type { DoorLimits } from './door.ts';
import { Flow, Source } from './flow.ts';
import type { Policy } from './policy.ts';

/** Codes with which we close a client: RFC 6455 below 4000, our own above (facts/managed-cdp 7.10). */
export type CloseCode = 1000 | 1001 | 1003 | 1009 | 1011 | 1013 | 4001 | 4002 | 4008;

/** Time for a client to read why it is closed and to say goodbye. */
const goodbyeMs = 1000;
/** When the whole browser goes, its end is told to all sockets within this time, in no certain order; then the reason is known. */
const reasonMs = 1000;
/** Pings in a row that a client may leave unanswered. */
const missesAllowed = 2;
/** RFC 6455 allows no longer reason. */
const longestReason = 123;

/** What is known of a splice when it is over. */
export interface SpliceFacts {
  readonly id: number;
  /** With which the client was closed, or left. */
  readonly code: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly messagesIn: number;
  readonly messagesOut: number;
  readonly durationMs: number;
}

/** What a splice is made of. */
export interface SpliceParts {
  readonly id: number;
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Chromium's own socket. */
  readonly target: { readonly port: number; readonly path: string };
  readonly limits: DoorLimits;
  readonly policy: Policy;
  readonly logger: Logger;
  readonly onMessage: () => void;
  readonly onDenied: (method: string) => void;
}

/** One CDP client's socket joined to one of the browser's. Made by `openSplice`. */
export class Splice {
  /** Settles when both sockets are gone. */
  readonly closed: Promise<SpliceFacts>;
  readonly #parts: SpliceParts;
  readonly #client: WebSocket;
  readonly #browser: WebSocket;
  readonly #fromClient: Source;
  readonly #fromBrowser: Source;
  readonly #in: Flow;
  readonly #out: Flow;
  /** What we answer ourselves: a client that asks and does not read has to wait as well. */
  readonly #own: Flow;
  readonly #startedAt = performance.now();
  readonly #pings: NodeJS.Timeout;
  #misses = 0;
  #bytesRead = 0;
  #closing: { readonly code: number } | undefined;
  #reasonTimer: NodeJS.Timeout | undefined;

  constructor(parts: SpliceParts, client: WebSocket, browser: Dialled) {
    this.#parts = parts;
    this.#client = client;
    this.#browser = browser.webSocket;
    this.#fromClient = new Source(client);
    this.#fromBrowser = new Source(browser.webSocket);
    const { bufferBytes, stallTimeoutMs, pingIntervalMs } = parts.limits;
    const onStalled = (): void => {
      this.close(4008, `nothing was read for ${stallTimeoutMs} ms`);
    };
    const limits = { bufferBytes, stallTimeoutMs, onStalled };
    const toClient = { ...limits, sink: client, socket: parts.socket };
    this.#in = new Flow({ ...limits, source: this.#fromClient, sink: browser.webSocket, socket: browser.socket });
    this.#out = new Flow({ ...toClient, source: this.#fromBrowser });
    this.#own = new Flow({ ...toClient, source: this.#fromClient });
    this.#pings = setInterval(() => {
      this.#ping();
    }, pingIntervalMs);
    this.closed = Promise.all([this.#wireClient(), this.#wireBrowser()]).then(([code]) => this.#finish(code));
  }

  /** Closes the client with a code and a reason, and leaves the browser; the first call counts. */
  close(code: CloseCode, reason: string): void {
    if (this.#closing !== undefined) return;
    this.#closing = { code };
    this.#stopWaiting();
    // Unread, its goodbye would not be noticed. One that does not say it is cut by `ws` after `goodbyeMs`.
    this.#client.resume();
    this.#client.close(code, shorten(reason));
    this.#browser.terminate();
  }

  #wireClient(): Promise<number> {
    const client = this.#client;
    client.on('message', (data: Buffer, isBinary: boolean) => {
      if (this.#closing === undefined) this.#accept(data, isBinary);
    });
    client.on('pong', () => {
      this.#misses = 0;
    });
    client.on('error', (failure) => {
      // `ws` closes by itself with the code for what was wrong, 1009 for a message that is too long.
      this.#parts.logger.debug('CDP client failed', { reason: messageOf(failure) });
      this.#stopWaiting();
      this.#browser.terminate();
    });
    return new Promise((resolve) => {
      client.once('close', (code) => {
        this.#closing ??= { code };
        this.#browser.terminate();
        resolve(this.#closing.code);
      });
    });
  }

  #wireBrowser(): Promise<void> {
    const browser = this.#browser;
    browser.on('message', (data: Buffer) => {
      if (this.#closing === undefined) this.#out.pass(data);
    });
    browser.on('error', (failure) => {
      const isTooLong = 'code' in failure && failure.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
      if (isTooLong) this.close(1009, 'a message of the browser is longer than the limit');
      else this.#parts.logger.debug('CDP browser socket failed', { reason: messageOf(failure) });
      browser.terminate();
    });
    return new Promise((resolve) => {
      browser.once('close', () => {
        this.#in.close();
        resolve();
        if (this.#client.readyState !== WebSocket.OPEN) return;
        // Either this target went, or all of the browser: then whoever notices it closes this socket with the reason.
        this.#reasonTimer = setTimeout(() => {
          this.close(1001, 'the browser closed this target');
        }, reasonMs);
      });
    });
  }

  #accept(data: Buffer, isBinary: boolean): void {
    const { policy, onMessage, onDenied } = this.#parts;
    this.#misses = 0;
    if (isBinary) {
      // Chromium would drop the connection without a word.
      this.close(1003, 'CDP has text messages only');
      return;
    }
    onMessage();
    const verdict = policy.check(data);
    if (verdict.kind === 'pass') {
      this.#in.pass(data);
      return;
    }
    onDenied(verdict.method);
    this.#own.pass(Buffer.from(verdict.text));
    if (verdict.kind === 'leave') this.close(1000, 'the browser is shared and stays open');
  }

  /** A client counts as there while anything of it is read, and is not judged while one side waits for the other. */
  #ping(): void {
    const { socket } = this.#parts;
    const bytesRead = 'bytesRead' in socket && typeof socket.bytesRead === 'number' ? socket.bytesRead : 0;
    const isAlive = bytesRead !== this.#bytesRead || this.#fromClient.isHeld || this.#fromBrowser.isHeld;
    this.#bytesRead = bytesRead;
    this.#misses = isAlive ? 0 : this.#misses + 1;
    if (this.#misses >= missesAllowed) this.#client.terminate();
    else if (this.#client.readyState === WebSocket.OPEN) this.#client.ping();
  }

  #stopWaiting(): void {
    clearTimeout(this.#reasonTimer);
    for (const flow of [this.#in, this.#out, this.#own]) flow.close();
  }

  #finish(code: number): SpliceFacts {
    clearInterval(this.#pings);
    this.#stopWaiting();
    const facts = {
      id: this.#parts.id,
      code,
      bytesIn: this.#in.bytes,
      bytesOut: this.#out.bytes,
      messagesIn: this.#in.messages,
      messagesOut: this.#out.messages,
      durationMs: Math.round(performance.now() - this.#startedAt),
    };
    this.#parts.logger.debug('CDP client left', {
      count: facts.id,
      code,
      bytes: facts.bytesIn + facts.bytesOut,
      durationMs: facts.durationMs,
    });
    return facts;
  }
}

const never = (): void => undefined;

/**
 * Joins a client's upgrade request to a socket of the browser. The client's handshake is completed only after the
 * browser's, so that an open socket leads to a browser. Rejects with a `Refusal`, the client not answered.
 */
export async function openSplice(parts: SpliceParts): Promise<Splice> {
  const { req, socket, head, limits, target } = parts;
  const { maxAnswerBytes, maxRequestBytes, handshakeTimeoutMs: timeoutMs } = limits;
  socket.on('error', never);
  const browser = await dial({ ...target, maxAnswerBytes, timeoutMs, client: socket });
  const splice = await new Promise<Splice | undefined>((resolve) => {
    // ws answers a handshake that is none by itself, and then only closes the socket.
    const gone = (): void => {
      resolve(undefined);
    };
    if (socket.destroyed) {
      gone();
      return;
    }
    socket.once('close', gone);
    makeServer(maxRequestBytes).handleUpgrade(req, socket, head, (client) => {
      socket.off('close', gone);
      // In this very moment, before anything of the client is read.
      resolve(new Splice(parts, client, browser));
    });
  });
  if (splice === undefined) {
    browser.webSocket.terminate();
    throw new Refusal('bad_request', 'The WebSocket handshake of the client is not valid, or the client has gone.');
  }
  browser.webSocket.resume();
  return splice;
}

/** Completes a client's handshake only to tell it by a code why it is not let in. */
export function refuseSocket(
  { req, socket, head }: Pick<SpliceParts, 'req' | 'socket' | 'head'>,
  code: CloseCode,
  reason: string,
): void {
  socket.on('error', never);
  // Nothing that it sends is wanted; 0 would be no limit.
  makeServer(1).handleUpgrade(req, socket, head, (client) => {
    client.on('error', never);
    client.close(code, shorten(reason));
  });
}

/** Texts of clients are looked at for valid UTF-8: otherwise Chromium would, or take them for its binary form of CDP. */
function makeServer(maxPayload: number): WebSocketServer {
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload,
    closeTimeout: goodbyeMs,
  };
  return new WebSocketServer(options);
}

/** As much of a reason as a close frame takes, in whole characters. */
function shorten(reason: string): string {
  let text = reason.slice(0, longestReason);
  while (Buffer.byteLength(text) > longestReason) text = text.slice(0, -1);
  return text;
}
