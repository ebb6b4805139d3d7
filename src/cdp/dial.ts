import { Agent } from 'node:http';
import type { Duplex } from 'node:stream';

import { WebSocket } from 'ws';

import { Refusal } from './answers.ts';

/** Not the shared agent, which Node 24 can be told to send through a proxy (NODE_USE_ENV_PROXY). */
const agent = new Agent();

/** Whom to dial, and for whom. */
export interface DialParts {
  readonly port: number;
  /** Chromium's own, `/devtools/...`. */
  readonly path: string;
  readonly maxAnswerBytes: number;
  readonly timeoutMs: number;
  /** When it closes the connection is not needed any more. */
  readonly client: Duplex;
}

/** A connection to the browser, and what is below it. */
export interface Dialled {
  readonly webSocket: WebSocket;
  readonly socket: Duplex;
}

/** Opens a socket of the browser, paused. Rejects with a `Refusal` when the browser does not take it. */
export function dial({ port, path, maxAnswerBytes, timeoutMs, client }: DialParts): Promise<Dialled> {
  // No Origin, which Chromium would check, and no compression, which on loopback only costs.
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    agent,
    perMessageDeflate: false,
    maxPayload: maxAnswerBytes,
    handshakeTimeout: timeoutMs,
    followRedirects: false,
    // What Chromium sends comes from its own encoder, and the client looks at it again.
    skipUTF8Validation: true,
    // Masks keep caches between the two ends from being confused. There is nothing between, and a mask of zeros costs no
    // copy of a message.
    generateMask: clear,
  });
  const giveUp = (): void => {
    webSocket.terminate();
  };
  client.once('close', giveUp);
  return new Promise((resolve, reject) => {
    webSocket.once('upgrade', ({ socket }) => {
      webSocket.once('open', () => {
        client.off('close', giveUp);
        // Nothing of it is read before somebody listens.
        webSocket.pause();
        resolve({ webSocket, socket });
      });
    });
    // It stays: a failure after the first one has no other listener.
    webSocket.on('error', (failure) => {
      client.off('close', giveUp);
      reject(refusalOf(failure));
    });
  });
}

function clear(mask: Buffer): void {
  mask.fill(0);
}

function refusalOf(failure: Error): Refusal {
  const status = Number(/^Unexpected server response: (\d+)/.exec(failure.message)?.[1] ?? 0);
  return status >= 400
    ? new Refusal('not_found', 'The browser has no such target.', { status: 404 })
    : new Refusal('browser_unavailable', 'The browser cannot be reached.');
}
