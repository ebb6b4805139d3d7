import type { Readable, Writable } from 'node:stream';

const newline = 0x0a;
const carriageReturn = 0x0d;
/** How much of an oversized line's beginning and end is kept to find out which request it answers. */
const keptBytes = 4096;

/** From here on joining the chunks of a line costs more than looking at its two ends (2.7 of 8 ms CPU for 5 MiB). */
const joinBelowBytes = 65_536;

/** What a `LineReader` tells. */
export interface LineEvents {
  onLine(line: Buffer): void;
  /** A line of many chunks, not joined; without this it comes joined through `onLine`. */
  onChunks?(chunks: readonly Buffer[], bytes: number): void;
  /** A line longer than the limit was passed over; its first and last bytes and its length are left of it. */
  onOversize(head: Buffer, tail: Buffer, bytes: number): void;
}

/**
 * Cuts a byte stream into newline-delimited messages. The chunks of a line are collected and joined once, so the cost
 * is linear in its length; a line over `maxBytes` is dropped without being kept in memory.
 */
export class LineReader {
  readonly #maxBytes: number;
  readonly #events: LineEvents;
  #chunks: Buffer[] = [];
  #length = 0;
  #oversize: { head: Buffer; tail: Buffer } | undefined;

  constructor(maxBytes: number, events: LineEvents) {
    this.#maxBytes = maxBytes;
    this.#events = events;
  }

  /** Takes the next bytes of the stream and tells every line that they complete. */
  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      this.#add(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  #add(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#oversize !== undefined) {
      this.#oversize.tail = Buffer.concat([this.#oversize.tail, piece.subarray(-keptBytes)]).subarray(-keptBytes);
      return;
    }
    this.#chunks.push(piece);
    if (this.#length <= this.#maxBytes) return;
    const seen = Buffer.concat(this.#chunks);
    this.#oversize = { head: Buffer.from(seen.subarray(0, keptBytes)), tail: Buffer.from(seen.subarray(-keptBytes)) };
    this.#chunks = [];
  }

  #finish(): void {
    const chunks = this.#chunks;
    const length = this.#length;
    const oversize = this.#oversize;
    this.#chunks = [];
    this.#length = 0;
    this.#oversize = undefined;
    if (oversize !== undefined) {
      this.#events.onOversize(oversize.head, oversize.tail, length);
      return;
    }
    const [first] = chunks;
    if (first === undefined || length === 0) return;
    if (length >= joinBelowBytes && this.#events.onChunks !== undefined) {
      this.#events.onChunks(chunks, length);
      return;
    }
    const line = chunks.length === 1 ? first : Buffer.concat(chunks, length);
    const end = line[line.length - 1] === carriageReturn ? line.length - 1 : line.length;
    if (end > 0) this.#events.onLine(end === line.length ? line : line.subarray(0, end));
  }
}

/** Parts of one line, written one after the other. */
export type LineParts = readonly (Buffer | string)[];

/** Up to this many bytes are copied together: one small write costs less than a vector of small pieces. */
const copyUpToBytes = 65_536;

const lineEnd = Buffer.from('\n');

/** Writes lines to a stream; all that is written in one turn of the event loop leaves together. */
export class LineWriter {
  readonly #stream: Writable;
  #waiting: Buffer[] = [];

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** Writes the parts and a newline. */
  write(parts: LineParts): void {
    if (this.#waiting.length === 0) {
      // A promise's microtask: `queueMicrotask` makes a resource for async hooks each time, 16 to 38 us a call.
      void Promise.resolve().then(() => {
        this.flush();
      });
    }
    for (const part of parts) this.#waiting.push(typeof part === 'string' ? Buffer.from(part) : part);
    this.#waiting.push(lineEnd);
  }

  /** Writes what was collected now; to be called before the stream is ended. */
  flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length === 0 || this.#stream.destroyed || this.#stream.writableEnded) return;
    let bytes = 0;
    for (const piece of waiting) bytes += piece.length;
    if (bytes <= copyUpToBytes) {
      this.#stream.write(Buffer.concat(waiting, bytes));
      return;
    }
    this.#stream.cork();
    for (const piece of waiting) this.#stream.write(piece);
    this.#stream.uncork();
  }
}

/** Stops reading `source` while `sink` has more buffered than it likes, so that a slow reader bounds our memory. */
export function throttle(source: Readable, sink: Writable): void {
  if (!sink.writableNeedDrain || source.isPaused()) return;
  source.pause();
  sink.once('drain', () => source.resume());
}
