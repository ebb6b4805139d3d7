import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

/** A request as Node's parser leaves it, on a socket that is connected to nothing. */
export function makeRequest(headers: readonly string[] = [], url = '/mcp', method = 'POST'): IncomingMessage {
  const req = new IncomingMessage(new Socket());
  req.url = url;
  req.method = method;
  [req.httpVersionMajor, req.httpVersionMinor] = [1, 1];
  req.rawHeaders = [...headers];
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index]?.toLowerCase() ?? '';
    const known = req.headers[name];
    req.headers[name] = known === undefined ? headers[index + 1] : `${String(known)}, ${headers[index + 1]}`;
  }
  return req;
}

/** The rest of the body has come. */
export function finishRequest(req: IncomingMessage): void {
  req.complete = true;
  req.push(null);
}

/** An answer whose bytes can be read. */
export interface Answer {
  readonly res: ServerResponse;
  /** What was sent so far, head and body. */
  readonly sent: () => string;
  /** Sent, and nothing more will come. */
  readonly isEnded: () => boolean;
}

/** The answer to a request. */
export function makeAnswer(req: IncomingMessage): Answer {
  const chunks: Buffer[] = [];
  const socket = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(chunk);
      done();
    },
  });
  const res = new ServerResponse(req);
  // All that an answer uses of its socket is that it can be written to.
  res.assignSocket(socket as unknown as Socket);
  return { res, sent: () => Buffer.concat(chunks).toString(), isEnded: () => res.writableFinished };
}
