import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

/** A connection whose other end reads when the test says so. */
class Wire extends Writable {
  readonly chunks: Buffer[] = [];
  timeoutMs: number | undefined;
  #isReading = true;
  #waiting: (() => void) | undefined;

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.chunks.push(chunk);
    if (this.#isReading) done();
    else this.#waiting = done;
  }

  setTimeout(ms: number): this {
    this.timeoutMs = ms;
    return this;
  }

  read(isReading: boolean): void {
    this.#isReading = isReading;
    const done = this.#waiting;
    this.#waiting = undefined;
    if (isReading) done?.();
  }
}

/** One event or comment of a stream; a comment has none of the fields. */
export interface SeenEvent {
  readonly event?: string;
  readonly id?: string;
  readonly retry?: string;
  readonly data?: string;
}

/** One request of a client, seen from the client's end. */
export interface Peer {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  status(): number;
  /** The body as JSON. */
  json(): Record<string, unknown>;
  /** Status line and headers; empty while none were sent. */
  head(): string;
  /** The body so far, without the marks of its chunks. */
  body(): string;
  events(): SeenEvent[];
  /** The messages of all events so far. */
  messages(): Record<string, unknown>[];
  /** True when the answer came to its regular end. */
  isEnded(): boolean;
  isCut(): boolean;
  /** Takes nothing any more, or goes on taking. */
  read(isReading: boolean): void;
  /** Closes the connection. */
  leave(): void;
  /** Time without progress after which the connection is looked at, in milliseconds; undefined if never. */
  timeoutMs(): number | undefined;
}

function withoutChunkMarks(body: string): string {
  let [rest, joined] = [body, ''];
  for (;;) {
    const [mark = ''] = /^[0-9a-f]+\r\n/i.exec(rest) ?? [];
    const size = Number.parseInt(mark, 16);
    if (mark === '' || size === 0) return joined;
    joined += rest.slice(mark.length, mark.length + size);
    rest = rest.slice(mark.length + size + 2);
  }
}

function readEvent(block: string): SeenEvent {
  const lines = block.split('\n').flatMap((line) => {
    const [, name = '', value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    return name === '' ? [] : [[name, value]];
  });
  return Object.fromEntries(lines) as SeenEvent;
}

/** What a request is made with; its headers by their names in lower case. */
export interface RequestParts {
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** A request that has come in full, and a client that waits for its answer. */
export function makePeer(method = 'POST', { url = '/mcp', headers = {}, body = '' }: RequestParts = {}): Peer {
  const req = new IncomingMessage(new Socket());
  [req.method, req.url] = [method, url];
  Object.assign(req.headers, headers);
  req.rawHeaders = Object.entries(headers).flat();
  if (body.length > 0) req.push(Buffer.from(body));
  req.push(null);
  [req.httpVersionMajor, req.httpVersionMinor] = [1, 1];
  req.complete = true;
  const res = new ServerResponse(req);
  const wire = new Wire();
  // All that an answer uses of its socket is that it can be written to, and closed.
  res.assignSocket(wire as unknown as Socket);
  wire.on('drain', () => res.emit('drain'));
  res.once('finish', () => {
    res.detachSocket(wire as unknown as Socket);
    res.emit('close');
  });
  const split = (): [string, string] => {
    // One character for each byte, as the marks of the chunks count.
    const sent = Buffer.concat(wire.chunks).toString('latin1');
    const end = sent.indexOf('\r\n\r\n');
    return end === -1 ? ['', ''] : [sent.slice(0, end), sent.slice(end + 4)];
  };
  const textOf = (): string => {
    const [head, rest] = split();
    const plain = /transfer-encoding: chunked/i.test(head) ? withoutChunkMarks(rest) : rest;
    return Buffer.from(plain, 'latin1').toString('utf8');
  };
  const events = (): SeenEvent[] => textOf().split('\n\n').slice(0, -1).map(readEvent);
  return {
    req,
    res,
    status: () => res.statusCode,
    json: () => JSON.parse(textOf()) as Record<string, unknown>,
    head: () => split()[0],
    body: textOf,
    events,
    messages: () =>
      events().flatMap(({ data = '' }) => (data.trim() === '' ? [] : [JSON.parse(data) as Record<string, unknown>])),
    isEnded: () => res.writableFinished,
    isCut: () => wire.destroyed,
    read: (isReading) => {
      wire.read(isReading);
    },
    leave: () => void wire.destroy(),
    timeoutMs: () => wire.timeoutMs,
  };
}

/** Lets everything pass that needs no time. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** What tests of streams put into their own hands; the rest, such as `settle`, is real. */
export const fakedTimers = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const;
