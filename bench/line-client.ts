import type { Readable, Writable } from 'node:stream';

const newline = 0x0a;
/** What is kept of a line's two ends to find its id; a longer answer is counted, not kept. */
const endBytes = 256;
/** Longest answer that is kept whole; a tool list fits. */
const keptBytes = 131_072;

/** An answer of which only what the benchmark needs was read. */
export interface Answer {
  readonly bytes: number;
  /** The line; only its two ends when it is long. */
  text(): string;
}

/**
 * A client that costs little: it finds the end of an answer and the id at one of its ends, and parses nothing. Upstream's
 * SDK writes the id last, the bridge writes the id of its own answers first.
 */
export class LineClient {
  readonly #output: Writable;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #kept: Buffer[] = [];
  #bytes = 0;
  #lastId = 0;

  constructor(input: Readable, output: Writable) {
    this.#output = output;
    input.on('data', (chunk: Buffer) => {
      this.#push(chunk);
    });
  }

  /** Sends a request; `onAnswer` is called in the turn in which its last byte comes. */
  send(method: string, params: string, onAnswer: (answer: Answer) => void): void {
    this.#lastId += 1;
    this.#waiting.set(this.#lastId, onAnswer);
    this.#output.write(`{"jsonrpc":"2.0","id":${this.#lastId},"method":"${method}","params":${params}}\n`);
  }

  /** Sends a notification. */
  notify(method: string): void {
    this.#output.write(`{"jsonrpc":"2.0","method":"${method}"}\n`);
  }

  #push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    this.#kept.push(piece);
    // A pipe hands over pieces of up to 64 KiB, but the last ones may be short.
    if (this.#bytes > keptBytes && this.#kept.length > 16) this.#kept.splice(1, 8);
  }

  #finish(): void {
    const line = this.#kept.length === 1 ? this.#kept[0] : Buffer.concat(this.#kept);
    const bytes = this.#bytes;
    this.#kept = [];
    this.#bytes = 0;
    if (line === undefined) return;
    const ending = line.toString('latin1', Math.max(0, line.length - endBytes));
    const beginning = line.toString('latin1', 0, endBytes);
    const id = /"id":(\d+)\}$/.exec(ending)?.[1] ?? /^\{"jsonrpc":"2\.0","id":(\d+),/.exec(beginning)?.[1];
    const onAnswer = this.#waiting.get(Number(id));
    if (onAnswer === undefined) return; // A notification, or a request to the client: nothing here asks for one.
    this.#waiting.delete(Number(id));
    onAnswer({ bytes, text: () => line.toString('utf8') });
  }
}
