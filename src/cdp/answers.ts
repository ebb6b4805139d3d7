import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import { type RefusalCode, refusals } from '../core/cdp-errors.ts';

/** A request of a CDP client that is not served. */
export class Refusal extends Error {
  readonly code: RefusalCode;
  readonly status: number;
  readonly hint: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RefusalCode,
    message: string,
    parts: {
      readonly hint?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly status?: number;
    } = {},
  ) {
    super(message);
    this.name = 'Refusal';
    this.code = code;
    this.status = parts.status ?? refusals[code];
    this.hint = parts.hint;
    this.headers = parts.headers ?? {};
  }
}

/** A client that takes nothing of a refusal for so long is cut; most take it at once. */
const refusalStallMs = 10_000;

/** What every answer carries: the address is a secret, and what it tells is of this moment. */
const commonHeaders = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

function bodyOf({ code, message, hint }: Refusal): string {
  return JSON.stringify({ error: { code, message, ...(hint === undefined ? {} : { hint }) } });
}

/** What an answer says. */
export interface AnswerBody {
  readonly text: string | Buffer;
  readonly type: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A client that takes nothing of it for so long is cut: until then it lies in our memory. */
  readonly stallTimeoutMs: number;
}

/** Sends a body, and settles when the client has it or is gone; does nothing when it is gone already. */
export function send(res: ServerResponse, status: number, body: AnswerBody): Promise<void> {
  if (res.headersSent || res.destroyed) return Promise.resolve();
  res.writeHead(status, {
    ...commonHeaders,
    'content-type': body.type,
    'content-length': Buffer.byteLength(body.text),
    ...body.headers,
  });
  // Of the socket: it does not run while the client reads, however slowly.
  res.setTimeout(body.stallTimeoutMs, () => {
    res.destroy();
  });
  return new Promise((resolve) => {
    res.once('close', resolve);
    res.end(body.text);
  });
}

/** Answers a request with a refusal. What a client still sends is not waited for. */
export function refuse(res: ServerResponse, refusal: Refusal): void {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = res.req.headers;
  const hasBody = coding !== undefined || Number(length) > 0;
  const headers = hasBody ? { ...refusal.headers, connection: 'close' } : refusal.headers;
  const type = 'application/json; charset=utf-8';
  void send(res, refusal.status, { text: bodyOf(refusal), type, headers, stallTimeoutMs: refusalStallMs });
}

/**
 * The answer to an upgrade request that is served as the plain request which it also is, on a connection that ends with
 * it. Undefined when an earlier request of the same connection still waits for its answer.
 */
export function answerOf(req: IncomingMessage, socket: Duplex): ServerResponse | undefined {
  if (!(socket instanceof Socket)) return undefined;
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  try {
    res.assignSocket(socket);
  } catch {
    return undefined;
  }
  socket.on('timeout', () => res.emit('timeout', socket));
  // As with any request of Node's server, a client that ends its side is gone; unread, that would not be noticed.
  socket.once('end', () => {
    socket.destroySoon();
  });
  socket.resume();
  res.on('error', () => undefined);
  res.once('finish', () => {
    socket.destroySoon();
  });
  return res;
}

/** Answers an upgrade with a refusal and ends its connection. */
export function refuseUpgrade(socket: Duplex, refusal: Refusal): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const text = bodyOf(refusal);
  const headers = {
    ...commonHeaders,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(text)),
    connection: 'close',
    ...refusal.headers,
  };
  const timer = setTimeout(() => {
    socket.destroy();
  }, refusalStallMs);
  socket.once('close', () => {
    clearTimeout(timer);
  });
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end(
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? 'Refused'}\r\n${lines.join('\r\n')}\r\n\r\n${text}`,
    () => socket.destroy(),
  );
}
