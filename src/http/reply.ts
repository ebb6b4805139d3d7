import { type OutgoingHttpHeader, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

import { type BridgeError, errorTable } from '../core/errors.ts';
import { errorLine } from '../relay/answers.ts';

/** A body up to this is read away and the connection kept; more would cost more than a new connection. */
const skipUpToBytes = 65_536;
/** How long a client that still sends has for reading its answer: closed at once, the answer would be lost to a reset. */
const lingerMs = 2000;

/** Headers of an answer, names in lower case. */
export type AnswerHeaders = Readonly<Record<string, OutgoingHttpHeader>>;

/** What a refusal carries besides its error. */
export interface RefusalParts {
  /** The request's JSON-RPC id as JSON; null is answered when it is not known. */
  readonly idText?: string | undefined;
  readonly headers?: AnswerHeaders | undefined;
}

/** The one text of every refusal: a JSON-RPC error with our code and the way to mend it in `data`. */
function refusalText(error: BridgeError, idText?: string): string {
  return errorLine(idText, error).join('');
}

/** Answers a request with an error; does nothing when it was answered already or its client is gone. */
export function refuse(res: ServerResponse, error: BridgeError, parts: RefusalParts = {}): void {
  const { retryAfterSeconds } = error.data;
  send(res, errorTable[error.code].http, {
    text: refusalText(error, parts.idText),
    headers: {
      ...(typeof retryAfterSeconds === 'number' ? { 'retry-after': Math.ceil(retryAfterSeconds) } : {}),
      ...(error.code === 'unauthorized' ? { 'www-authenticate': 'Bearer', connection: 'close' } : {}),
      ...parts.headers,
    },
  });
}

/** Answers on a connection whose request could not be read, and ends it. */
export function refuseRaw(channel: Duplex, error: BridgeError): void {
  const text = refusalText(error);
  const status = errorTable[error.code].http;
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  channel.end(`${lines.join('\r\n')}\r\n\r\n${text}`);
}

/** Answers a request with a value as JSON; does nothing when it was answered already or its client is gone. */
export function replyJson(res: ServerResponse, status: number, value: unknown, headers: AnswerHeaders = {}): void {
  send(res, status, { text: JSON.stringify(value), headers });
}

interface Body {
  readonly text: string;
  readonly headers: AnswerHeaders;
}

function send(res: ServerResponse, status: number, { text, headers }: Body): void {
  if (res.headersSent || res.destroyed) return;
  const unread = unreadBytes(res);
  const isLast = headers['connection'] === 'close' || !res.shouldKeepAlive || unread > skipUpToBytes;
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...headers,
    ...(isLast ? { connection: 'close' } : {}),
  });
  if (!isLast || unread === 0) {
    res.end(text);
    return;
  }
  res.write(text);
  linger(res);
}

/** How much of the request's body may still come; infinite when it is not announced, or waits for our permission. */
function unreadBytes({ req }: ServerResponse): number {
  if (req.complete) return 0;
  const { 'content-length': announced, 'transfer-encoding': coding, expect } = req.headers;
  if (coding !== undefined || expect !== undefined) return Infinity;
  return Number(announced ?? 0);
}

/** Reads away what still comes before the connection is closed. */
function linger(res: ServerResponse): void {
  const { req } = res;
  const finish = (): void => {
    clearTimeout(timer);
    req.off('end', finish).off('close', finish);
    res.end();
  };
  const timer = setTimeout(finish, lingerMs);
  req.once('end', finish).once('close', finish);
  req.resume();
}
