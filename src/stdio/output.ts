import { createWriteStream, fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';

import { within } from '../core/deadline.ts';

/**
 * A stream on an open descriptor that never blocks the program. Node's own standard streams write to pipes
 * synchronously on Linux and macOS: one client that stops reading would stop everything, signals included.
 */
export function openOutput(descriptor: number): Writable {
  const kind = fstatSync(descriptor);
  if (kind.isFIFO() || kind.isSocket()) {
    return new Socket({ fd: descriptor, readable: false, writable: true });
  }
  return createWriteStream('', { fd: descriptor, autoClose: false });
}

/** Text waiting for a reader of standard error; a reader that never comes must not fill the memory. */
const maxBacklogBytes = 1_048_576;
/** Time for the last lines to leave. */
const flushMs = 500;

/** Standard error: never blocks, and drops lines rather than keeping them for nobody. */
export class ErrorOutput {
  readonly #stream: Writable;

  constructor(stream: Writable) {
    this.#stream = stream;
    // A closed standard error ends nothing: there is only nobody left to read it.
    stream.on('error', () => undefined);
  }

  /** Writes a text. */
  print(text: string): void {
    if (!this.#stream.destroyed && this.#stream.writableLength < maxBacklogBytes) this.#stream.write(text);
  }

  /** Waits until what was written has left, at most half a second. */
  async close(): Promise<void> {
    if (this.#stream.destroyed) return;
    const flushed = new Promise<void>((resolve) => {
      this.#stream.once('close', resolve);
      this.#stream.end(() => {
        resolve();
      });
    });
    await within(flushed, flushMs);
  }
}
