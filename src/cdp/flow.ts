import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

/** A paused source goes on when so much less waits in its sink, as a part of what paused it. */
const resumeShare = 4;
/**
 * Messages that may wait whatever their size: each small one can be a view into a whole read of 64 KiB, which it keeps
 * in memory.
 */
const mostWaiting = 1000;

/** One side as somebody to read from: several flows may hold it, and it is read while none does. */
export class Source {
  readonly #webSocket: WebSocket;
  readonly #holders = new Set<Flow>();

  constructor(webSocket: WebSocket) {
    this.#webSocket = webSocket;
  }

  /** True while it is not read. */
  get isHeld(): boolean {
    return this.#holders.size > 0;
  }

  /** Reads no more until this flow and all others let go. */
  hold(flow: Flow): void {
    this.#holders.add(flow);
    this.#webSocket.pause();
  }

  /** Lets go. */
  release(flow: Flow): void {
    this.#holders.delete(flow);
    if (!this.isHeld) this.#webSocket.resume();
  }
}

/** What one direction of a splice is made with. */
export interface FlowParts {
  readonly source: Source;
  readonly sink: WebSocket;
  /** Below the sink. */
  readonly socket: Duplex;
  /** Bytes that wait in the sink before the source is held. */
  readonly bufferBytes: number;
  /** Time that the sink may take nothing while it is waited for, in milliseconds. */
  readonly stallTimeoutMs: number;
  readonly onStalled: () => void;
}

/** What waits for a sink at one moment. */
interface Backlog {
  readonly bytes: number;
  /** Of the write that runs: the stream counts it as a whole until all of it is done. */
  readonly running: number;
  readonly passed: number;
}

/** One direction of a splice: passes messages on, and lets the source wait for a sink that does not read. */
export class Flow {
  bytes = 0;
  messages = 0;
  readonly #parts: FlowParts;
  #timer: NodeJS.Timeout | undefined;
  #isHolding = false;
  /** Messages that have left us. */
  #passed = 0;
  #lastLook: Backlog = { bytes: 0, running: 0, passed: 0 };

  constructor(parts: FlowParts) {
    this.#parts = parts;
  }

  /** Passes a text message on as the bytes it came in. */
  pass(data: Buffer): void {
    const { sink, bufferBytes } = this.#parts;
    if (sink.readyState !== sink.OPEN) return;
    this.bytes += data.length;
    this.messages += 1;
    sink.send(data, { binary: false }, this.#onSent);
    if (this.#isHolding) return;
    if (sink.bufferedAmount > bufferBytes || this.messages - this.#passed > mostWaiting) this.#hold();
  }

  /** Ends all waiting. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  readonly #onSent = (): void => {
    const { sink, source, bufferBytes } = this.#parts;
    this.#passed += 1;
    if (!this.#isHolding || sink.bufferedAmount > bufferBytes / resumeShare) return;
    if (this.messages - this.#passed > mostWaiting / resumeShare) return;
    this.#isHolding = false;
    this.close();
    source.release(this);
  };

  #hold(): void {
    this.#isHolding = true;
    this.#parts.source.hold(this);
    this.#lastLook = this.#look();
    this.#wait();
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      const [last, now] = [this.#lastLook, this.#look()];
      // Slow is not stalled: a large message over a thin line moves all the time. What grows is only what was added.
      const hasMoved = now.bytes < last.bytes || now.running < last.running || now.passed > last.passed;
      this.#lastLook = now;
      if (hasMoved) this.#wait();
      else this.#parts.onStalled();
    }, this.#parts.stallTimeoutMs);
  }

  #look(): Backlog {
    const { sink, socket } = this.#parts;
    return { bytes: sink.bufferedAmount, running: runningBytes(socket), passed: this.#passed };
  }
}

/**
 * Bytes of the running write that the system has not taken yet. Node's own socket timeout looks at the same number; there
 * is no public way to it (Node 20 to 24; the test "is not taken for stalled while one long message moves" needs it).
 */
function runningBytes(socket: Duplex): number {
  const handle: unknown = '_handle' in socket ? socket._handle : undefined;
  if (typeof handle !== 'object' || handle === null || !('writeQueueSize' in handle)) return 0;
  return typeof handle.writeQueueSize === 'number' ? handle.writeQueueSize : 0;
}
