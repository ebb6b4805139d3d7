import type { IncomingMessage } from 'node:http';

import { BridgeError } from '../core/errors.ts';

/** How requests that wait for `100 Continue` are told to go on. */
const permissions = new WeakMap<IncomingMessage, () => void>();

/** Lets the client of a request wait with its body until somebody wants to read it; a refused one never sends it. */
export function holdBody(req: IncomingMessage, permit: () => void): void {
  permissions.set(req, permit);
}

/**
 * The whole body of a request, at most `maxBytes` of it in memory. Throws `message_too_large` as soon as it is known,
 * `media_type` for a compressed body, and `invalid_request` when the client goes before the end.
 */
export async function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const { 'content-length': announced, 'content-encoding': coding } = req.headers;
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new BridgeError('media_type', `The request body is compressed (${JSON.stringify(coding.slice(0, 40))}).`, {
      hint: 'Send it without Content-Encoding.',
    });
  }
  if (Number(announced ?? 0) > maxBytes) throw tooLarge(`has ${announced} bytes; the limit is ${maxBytes}`, maxBytes);
  permissions.get(req)?.();
  return collect(req, maxBytes);
}

function collect(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > maxBytes) fail(tooLarge(`is longer than the limit of ${maxBytes} bytes`, maxBytes));
      else chunks.push(chunk);
    };
    const onEnd = (): void => {
      stop();
      const [first] = chunks;
      resolve(first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks, bytes));
    };
    const onClose = (): void => {
      fail(new BridgeError('invalid_request', 'The client closed the connection in the middle of its request.'));
    };
    const stop = (): void => {
      req.off('data', onData).off('end', onEnd).off('close', onClose);
    };
    const fail = (error: BridgeError): void => {
      stop();
      chunks.length = 0;
      reject(error);
    };
    if (req.destroyed) {
      onClose();
      return;
    }
    req.on('data', onData).once('end', onEnd).once('close', onClose);
  });
}

function tooLarge(what: string, maxBytes: number): BridgeError {
  return new BridgeError('message_too_large', `The request body ${what}.`, {
    hint: 'Raise --http-max-body-bytes, or send less at once.',
    data: { maxBytes },
  });
}
