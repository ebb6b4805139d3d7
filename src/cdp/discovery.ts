import { request } from 'node:http';

import { isRecord } from '../core/record.ts';
import { type Address, webSocketUrl } from './address.ts';
import { Refusal } from './answers.ts';
import type { DoorLimits } from './door.ts';

/** What Chromium answered. */
export interface BrowserAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

/** What is asked of Chromium's HTTP side. */
export interface Question {
  readonly port: number;
  readonly method: 'GET' | 'PUT';
  readonly path: string;
  readonly limits: DoorLimits;
}

/**
 * Asks Chromium on a connection of its own, with a Host that it accepts and without Origin. Throws a `Refusal`:
 * `gateway_timeout`, `bad_gateway` or `browser_unavailable`.
 */
export function askBrowser({ port, method, path, limits }: Question, signal: AbortSignal): Promise<BrowserAnswer> {
  const { httpTimeoutMs, httpMaxBytes } = limits;
  return new Promise((resolve, reject) => {
    const fail = (): void => {
      clearTimeout(timer);
      reject(new Refusal('browser_unavailable', 'The browser cannot be reached.'));
    };
    const options = {
      host: '127.0.0.1',
      port,
      method,
      path,
      agent: false,
      signal,
      headers: { host: `127.0.0.1:${port}` },
    };
    const req = request(options, (res) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      res.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        chunks.push(chunk);
        if (bytes <= httpMaxBytes) return;
        clearTimeout(timer);
        reject(new Refusal('bad_gateway', `The answer of the browser is longer than ${httpMaxBytes} bytes.`));
        req.destroy();
      });
      res.on('error', fail);
      res.once('end', () => {
        clearTimeout(timer);
        const type = res.headers['content-type'] ?? 'text/plain';
        resolve({ status: res.statusCode ?? 0, type, body: Buffer.concat(chunks) });
      });
    });
    // After the request: one that cannot be made throws, and leaves nothing behind.
    const timer = setTimeout(() => {
      reject(new Refusal('gateway_timeout', `The browser did not answer within ${httpTimeoutMs} ms.`));
      req.destroy();
    }, httpTimeoutMs);
    // It may come more than once, and without a listener it would end the program.
    req.on('error', fail);
    // A PUT without a length would be sent in chunks, which Chromium does not read.
    if (method === 'PUT') req.setHeader('content-length', 0);
    req.end();
  });
}

/** Where rewritten addresses lead. */
export interface Rewriting {
  readonly address: Address;
  readonly capability: string;
}

/**
 * A JSON answer of Chromium with our own address in place of its own. Only the two fields that hold addresses are
 * touched: a page's URL or title may contain the same text. Throws `bad_gateway` for anything that is not understood.
 */
export function rewrite(body: Buffer, rewriting: Rewriting): string {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    throw unreadable();
  }
  if (!Array.isArray(value)) return JSON.stringify(rewriteOne(value, rewriting));
  return JSON.stringify(value.map((item) => rewriteOne(item, rewriting)));
}

function rewriteOne(item: unknown, { address, capability }: Rewriting): unknown {
  if (!isRecord(item)) throw unreadable();
  // The front end is a page elsewhere whose origin is refused, and its address would give away the inner port.
  const { devtoolsFrontendUrl: _dropped, webSocketDebuggerUrl, ...kept } = item;
  if (webSocketDebuggerUrl === undefined) return kept;
  if (typeof webSocketDebuggerUrl !== 'string' || !URL.canParse(webSocketDebuggerUrl)) throw unreadable();
  const { pathname } = new URL(webSocketDebuggerUrl);
  if (!pathname.startsWith('/devtools/')) throw unreadable();
  return { ...kept, webSocketDebuggerUrl: webSocketUrl(address, capability, pathname) };
}

function unreadable(): Refusal {
  return new Refusal('bad_gateway', 'The answer of the browser is not understood.');
}
