import type { Readable, Writable } from 'node:stream';

import { timedOut, within } from '../core/deadline.ts';
import { type LineParts, LineReader, LineWriter, throttle } from '../core/framing.ts';

/** Time for what is already written to reach the client when the session ends. */
const flushMs = 2000;

/**
 * Bytes that may wait for a reader before the client's own messages are held back. While they are, the end of standard
 * input goes unnoticed, so this is far above what an honest peer ever leaves unread.
 */
const maxBacklogBytes = 67_108_864;

/** What the client's side of stdio tells. */
export interface TransportEvents {
  onLine(line: Buffer): void;
  onOversize(head: Buffer, tail: Buffer, bytes: number): void;
}

/** The client's side of stdio: lines in, lines out, and the end of either. */
export class StdioTransport {
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #writer: LineWriter;

  constructor(input: Readable, output: Writable) {
    this.#input = input;
    this.#output = output;
    this.#writer = new LineWriter(output);
  }

  /** Starts telling lines. `onGone` is called once, when the client has closed its end or can no longer be written to. */
  listen(maxBytes: number, events: TransportEvents, onGone: (reason: string) => void): void {
    const reader = new LineReader(maxBytes, events);
    this.#input.on('data', (chunk: Buffer) => {
      reader.push(chunk);
      this.holdInput(this.#output);
    });
    let isGone = false;
    const tellOnce = (reason: string): void => {
      if (!isGone) onGone(reason);
      isGone = true;
    };
    for (const [stream, event, reason] of [
      [this.#input, 'end', 'end of standard input'],
      [this.#input, 'close', 'standard input closed'],
      [this.#input, 'error', 'standard input failed'],
      // EPIPE: the client went away while it was being answered.
      [this.#output, 'error', 'standard output closed by the client'],
    ] as const) {
      stream.once(event, () => {
        tellOnce(reason);
      });
    }
    // Further errors of a closed pipe carry nothing new.
    this.#output.on('error', () => undefined);
  }

  /** Writes one line. */
  send(parts: LineParts): void {
    this.#writer.write(parts);
  }

  /** Makes `source` wait while the client reads slower than it is written to. */
  throttle(source: Readable): void {
    throttle(source, this.#output);
  }

  /** Makes the client wait while `sink` has more unread than any honest reader leaves. */
  holdInput(sink: Writable): void {
    if (sink.writableLength <= maxBacklogBytes || sink.destroyed || this.#input.isPaused()) return;
    this.#input.pause();
    const resume = (): void => {
      sink.off('drain', resume).off('close', resume);
      this.#input.resume();
    };
    sink.once('drain', resume).once('close', resume);
  }

  /** Stops reading, and waits until what was written has left or the client is gone, at most 2 s. */
  async close(): Promise<void> {
    this.#input.removeAllListeners('data');
    this.#input.pause();
    this.#writer.flush();
    if (this.#output.destroyed) return;
    const flushed = new Promise<void>((resolve) => {
      this.#output.once('close', resolve);
      this.#output.end(() => {
        resolve();
      });
    });
    if ((await within(flushed, flushMs)) === timedOut) this.#output.destroy();
  }
}
