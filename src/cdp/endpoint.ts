import { Agent } from 'node:http';

import { WebSocket } from 'ws';

import { BridgeError, messageOf } from '../core/errors.ts';
import { isRecord } from '../core/record.ts';
import type { BrowserAddress } from './port-file.ts';

/** The bridge asks for versions and lists of targets only. */
const maxAnswerBytes = 16_777_216;
/** Time for an answer, unless a request says another one. */
const defaultAnswerMs = 10_000;
/** A browser that has said goodbye ends the connection at once; `ws` alone would wait 30 s for one that does not. */
const goodbyeMs = 1000;

interface Waiting {
  readonly timer: NodeJS.Timeout;
  readonly resolve: (result: Record<string, unknown>) => void;
  readonly reject: (error: BridgeError) => void;
}

/** The bridge's own connection to a browser. Made by `openEndpoint`. */
export class Endpoint {
  /** Settles when the connection has ended, whoever ended it. */
  readonly closed: Promise<void>;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => {
      this.#accept(data);
    });
    // What is no frame, or too long a one, comes from no browser: its end is told by the close.
    socket.on('error', () => {
      socket.terminate();
    });
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#failAll();
        resolve();
      });
    });
  }

  /** True until the connection ends. */
  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Asks the browser. Rejects with `cdp_start_failed` when it refuses, does not answer in time, or goes. */
  request(
    method: string,
    params: Readonly<Record<string, unknown>> = {},
    { sessionId, timeoutMs = defaultAnswerMs }: { readonly sessionId?: string; readonly timeoutMs?: number } = {},
  ): Promise<Record<string, unknown>> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      if (!this.isOpen) {
        reject(ended());
        return;
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new BridgeError('cdp_start_failed', `The browser did not answer ${method} within ${timeoutMs} ms.`));
      }, timeoutMs);
      this.#waiting.set(id, { timer, resolve, reject });
      this.#socket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
    });
  }

  /** Ends the connection at once. */
  close(): void {
    this.#socket.terminate();
  }

  #accept(data: Buffer): void {
    let message: unknown;
    try {
      message = JSON.parse(data.toString('utf8'));
    } catch {
      // No answer of a browser; whoever waits for one runs out of time.
      return;
    }
    if (!isRecord(message) || typeof message['id'] !== 'number') return;
    const waiting = this.#waiting.get(message['id']);
    if (waiting === undefined) return;
    this.#waiting.delete(message['id']);
    clearTimeout(waiting.timer);
    const { error, result } = message;
    if (error === undefined) waiting.resolve(isRecord(result) ? result : {});
    else waiting.reject(new BridgeError('cdp_start_failed', `The browser refused a request: ${describe(error)}`));
  }

  #failAll(): void {
    for (const { timer, reject } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(ended());
    }
    this.#waiting.clear();
  }
}

function describe(error: unknown): string {
  return isRecord(error) && typeof error['message'] === 'string' ? error['message'] : JSON.stringify(error);
}

function ended(): BridgeError {
  return new BridgeError('cdp_start_failed', 'The connection to the browser has ended.');
}

function connect({ port, browserId }: BrowserAddress): WebSocket {
  // No Origin, which Chromium would check, and no compression, which on loopback only costs.
  const options = {
    perMessageDeflate: false,
    maxPayload: maxAnswerBytes,
    closeTimeout: goodbyeMs,
    followRedirects: false,
    // Not the shared agent, which Node 24 can be told to send through a proxy (NODE_USE_ENV_PROXY).
    agent: new Agent(),
  };
  return new WebSocket(`ws://127.0.0.1:${port}/devtools/browser/${browserId}`, options);
}

/** Connects to exactly this browser: one with another id refuses. Throws `cdp_start_failed`, or `closing` when aborted. */
export function openEndpoint(address: BrowserAddress, timeoutMs: number, signal: AbortSignal): Promise<Endpoint> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new BridgeError('closing', 'The session is ending.'));
      return;
    }
    const socket = connect(address);
    let isLate = false;
    const abort = (): void => {
      socket.terminate();
    };
    // Not the handshake timeout of `ws`, which starts anew with every byte that comes.
    const timer = setTimeout(() => {
      isLate = true;
      socket.terminate();
    }, timeoutMs);
    const settle = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      socket.off('error', fail);
    };
    const fail = (failure: Error): void => {
      settle();
      socket.on('error', () => undefined);
      const reason = isLate ? `no answer within ${timeoutMs} ms` : messageOf(failure);
      reject(
        signal.aborted
          ? new BridgeError('closing', 'The session is ending.')
          : new BridgeError('cdp_start_failed', `The browser does not answer on port ${address.port}: ${reason}.`),
      );
    };
    signal.addEventListener('abort', abort, { once: true });
    socket.once('error', fail);
    socket.once('open', () => {
      settle();
      resolve(new Endpoint(socket));
    });
  });
}
