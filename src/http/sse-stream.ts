import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

import { type Frame, commentFrame } from './sse-frame.ts';

/**
 * A stream that has nothing to say yet is opened after this time all the same, since proxies pass the headers on with
 * the first byte. An answer that comes sooner goes out with the headers in one piece.
 */
const openAfterMs = 20;

/** How event streams are kept open and given up. */
export interface StreamLimits {
  /** Time between two comments on a quiet stream, in milliseconds; 0 sends none. */
  readonly keepAliveMs: number;
  /** A peer that takes nothing for so long while something waits for it is cut off; milliseconds. */
  readonly writeTimeoutMs: number;
}

/** What an event stream is made with. */
export interface StreamParts {
  readonly res: ServerResponse;
  readonly headers: OutgoingHttpHeaders;
  /** The first thing on the stream. */
  readonly first?: Frame | undefined;
  readonly limits: StreamLimits;
  /** The stream is over: `true` when everything was handed to the system, `false` when the peer went before. */
  readonly onClosed: (isComplete: boolean) => void;
}

/** One HTTP answer with events. */
export class SseStream {
  readonly #parts: StreamParts;
  #timer: NodeJS.Timeout | undefined;
  #isOpen = true;
  #isStarted = false;

  constructor(parts: StreamParts) {
    const { res } = parts;
    this.#parts = parts;
    this.#timer = setTimeout(() => {
      this.#start();
    }, openAfterMs);
    const close = (): void => {
      this.#isOpen = false;
      this.#stopTimer();
      parts.onClosed(res.writableFinished);
    };
    // The close event tells it as well.
    res.on('error', () => undefined);
    // A peer that is gone already: its close event has passed.
    if (res.destroyed) queueMicrotask(close);
    else res.once('close', close);
  }

  /** True while events can be sent. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Bytes that the peer has not taken yet. */
  get unread(): number {
    return this.#parts.res.writableLength;
  }

  /** Sends one event. */
  write(frame: Frame): void {
    if (!this.#isOpen) return;
    if (!this.#isStarted) this.#start(frame);
    else this.#put(frame);
  }

  /** Sends the last event, if any, and ends the answer. */
  end(frame: Frame = []): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#stopTimer();
    const { res, first = [], headers } = this.#parts;
    if (this.#isStarted) {
      this.#put(frame);
      res.end();
    } else {
      // Headers that are set and not yet written let Node announce the length, and send all of it at once.
      res.statusCode = 200;
      for (const [name, value] of Object.entries(headers)) if (value !== undefined) res.setHeader(name, value);
      res.end(Buffer.concat([...first, ...frame]));
      this.#guard();
    }
  }

  /** Cuts the connection. */
  destroy(): void {
    this.#parts.res.destroy();
  }

  #start(frame: Frame = []): void {
    const { res, headers, first = [], limits } = this.#parts;
    this.#stopTimer();
    this.#isStarted = true;
    res.writeHead(200, headers);
    const opening = [...first, ...frame];
    // Node keeps the headers back until there is a byte to send with them.
    this.#put(opening.length === 0 ? commentFrame : opening);
    if (limits.keepAliveMs === 0) return;
    this.#timer = setInterval(() => {
      this.#put(commentFrame);
    }, limits.keepAliveMs);
  }

  #put(frame: Frame): void {
    const { res } = this.#parts;
    if (frame.length > 1) res.cork();
    for (const piece of frame) res.write(piece);
    if (frame.length > 1) res.uncork();
    this.#guard();
  }

  /** Node starts this time anew with each byte that the peer takes, also in the middle of a large write. */
  #guard(): void {
    const { res, limits } = this.#parts;
    if (res.writableLength === 0 || res.listenerCount('timeout') > 0) return;
    res.setTimeout(limits.writeTimeoutMs, () => {
      if (res.writableLength > 0) res.destroy();
    });
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
