import { pause, within } from '../core/deadline.ts';
import { messageOf, toBridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ChildFactory } from './child-factory.ts';
import type { StartedChild } from './generation.ts';

/** Upstream 0.0.83 closes a browser that was idle for an hour; a spare is replaced well before. */
const defaultMaxAgeMs = 1_800_000;
/** Whoever took a spare gets the processor to itself until its first page is usually there. */
const defaultHeadStartMs = 2000;
/** Pause after 1, 2, 3, ... failures in a row; the last one repeats. One may be chance, more are a state of the host. */
const backOffMs = [1000, 5000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000];
/** A failure that comes so long after the one before is a new story; longer than the longest pause. */
const forgetMs = 900_000;
/** A start that is told to end, and the ending of a spare, are waited for so long. */
const closeLimitMs = 30_000;

/** A child started ahead of need, with default settings, owned by nobody yet. */
export interface Spare {
  /** Made the child, and keeps its folders. */
  readonly factory: ChildFactory;
  readonly started: StartedChild;
  /** Its browser runs already, and was never used. */
  readonly isWarm: boolean;
}

/** What spares are made with. */
export interface SparesParts {
  /** How many wait ready: children only, and children whose browser runs. */
  readonly wanted: { readonly children: number; readonly browsers: number };
  /** Starts one; must end soon when the signal aborts, and leave nothing behind with a failure. */
  readonly make: (isWarm: boolean, signal: AbortSignal) => Promise<Spare>;
  /** Ends one and removes its folders, also when its child has ended by itself. */
  readonly discard: (spare: Spare) => Promise<void>;
  readonly logger: Logger;
  /** Age at which a spare is replaced, in milliseconds. */
  readonly maxAgeMs?: number;
  /** A turn to start a child, given back by the returned function: `StartQueue.acquireLast`. */
  readonly acquireTurn?: (signal: AbortSignal) => Promise<() => void>;
  /** Time between a spare being taken and the next one being made, in milliseconds. */
  readonly headStartMs?: number;
}

interface Held {
  readonly spare: Spare;
  readonly ageTimer: NodeJS.Timeout;
}

/** Keeps children ready for sessions to come. One at a time is made, in the background, and only when nobody waits. */
export class Spares {
  readonly #parts: SparesParts;
  readonly #abort = new AbortController();
  /** Ready ones, the oldest first. */
  readonly #held = new Set<Held>();
  /** Those that are being removed. */
  readonly #discards = new Map<Spare, Promise<void>>();
  #filling: Promise<void> | undefined;
  /** Ends the start that is going on. One for each, so that no start can leave listeners behind for ever. */
  #attempt = new AbortController();
  /** Ends a pause whose time has changed. */
  #wake = new AbortController();
  #notBefore = 0;
  #failures = 0;
  #failedAt = -Infinity;
  #closing: Promise<void> | undefined;

  constructor(parts: SparesParts) {
    this.#parts = parts;
  }

  /** How many are ready. */
  counts(): { readonly children: number; readonly browsers: number } {
    const browsers = [...this.#held].filter(({ spare }) => spare.isWarm).length;
    return { children: this.#held.size - browsers, browsers };
  }

  /** Hands one over whose child runs, rather with a browser than without; the taker ends it. Has another one made. */
  take(): Spare | undefined {
    if (this.#closing !== undefined) return undefined;
    const all = [...this.#held];
    const held = all.find(({ spare }) => spare.isWarm) ?? all[0];
    if (held !== undefined) {
      this.#remove(held);
      this.#failures = 0;
    }
    const headStartMs = this.#parts.headStartMs ?? defaultHeadStartMs;
    // One that gets nothing ends the pause after failures, but must not put a refill off that is due already.
    if (held !== undefined || this.#left() > headStartMs) this.#delay(headStartMs);
    this.refill();
    return held?.spare;
  }

  /** Makes what is missing, in the background. */
  refill(): void {
    if (this.#filling !== undefined || this.#closing !== undefined || this.#missing() === undefined) return;
    this.#filling = this.#fill().then(() => {
      this.#filling = undefined;
      // What went missing while the last one was made.
      this.refill();
    });
  }

  /** Kills all without waiting, those that are being removed included, for somebody who does not want to wait. */
  force(): void {
    for (const { spare } of this.#held) spare.factory.force();
    for (const spare of this.#discards.keys()) spare.factory.force();
  }

  /** Ends a running start and all that wait; returns when nothing of them is left, a minute later at the latest. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    for (const abort of [this.#abort, this.#attempt, this.#wake]) abort.abort();
    for (const held of this.#held) this.#drop(held);
    if (this.#filling !== undefined) await within(this.#filling, closeLimitMs);
    await within(Promise.all(this.#discards.values()), closeLimitMs);
  }

  /** Whether a warm (true) or a cold one (false) is made next; undefined when none is missing. */
  #missing(): boolean | undefined {
    const { wanted } = this.#parts;
    const { children, browsers } = this.counts();
    if (browsers < wanted.browsers) return true;
    return children < wanted.children ? false : undefined;
  }

  async #fill(): Promise<void> {
    while (this.#missing() !== undefined) {
      await this.#waitForTime();
      if (this.#abort.signal.aborted) return;
      await this.#makeOne();
    }
  }

  async #waitForTime(): Promise<void> {
    for (let left = this.#left(); left > 0 && !this.#abort.signal.aborted; left = this.#left()) {
      await pause(left, this.#wake.signal);
    }
  }

  #left(): number {
    return this.#notBefore - performance.now();
  }

  async #makeOne(): Promise<void> {
    this.#attempt = new AbortController();
    const { signal } = this.#attempt;
    let release: (() => void) | undefined;
    try {
      release = await this.#parts.acquireTurn?.(signal);
      // Somebody took another spare meanwhile, and has the head start of its own.
      if (this.#left() > 0) return;
      const startedAt = performance.now();
      const isWarm = this.#missing() === true;
      this.#hold(await this.#parts.make(isWarm, signal), startedAt);
    } catch (failure) {
      if (signal.aborted) return;
      const { code, message } = toBridgeError(failure);
      this.#parts.logger.warn('spare not started', { code, reason: message, count: this.#noteFailure() });
    } finally {
      release?.();
    }
  }

  #hold(spare: Spare, startedAt: number): void {
    if (this.#abort.signal.aborted) {
      // The start did not hear that it was to end.
      this.#discard(spare);
      return;
    }
    const { child } = spare.started;
    const ageTimer = setTimeout(() => {
      this.#drop(held);
      this.refill();
    }, this.#parts.maxAgeMs ?? defaultMaxAgeMs);
    ageTimer.unref();
    const held: Held = { spare, ageTimer };
    this.#held.add(held);
    this.#parts.logger.debug('spare started', {
      pid: child.pid,
      durationMs: Math.round(performance.now() - startedAt),
    });
    void child.gone.then(() => {
      if (!this.#held.has(held)) return;
      this.#parts.logger.warn('spare ended', { pid: child.pid, count: this.#noteFailure() });
      this.#drop(held);
      this.refill();
    });
  }

  /** Puts the next try off, longer with each failure in a row; returns how many there were. */
  #noteFailure(): number {
    const now = performance.now();
    this.#failures = now - this.#failedAt > forgetMs ? 1 : this.#failures + 1;
    this.#failedAt = now;
    this.#delay(backOffMs[Math.min(this.#failures, backOffMs.length) - 1] ?? 0);
    return this.#failures;
  }

  #delay(ms: number): void {
    this.#notBefore = performance.now() + ms;
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  #remove(held: Held): void {
    clearTimeout(held.ageTimer);
    this.#held.delete(held);
  }

  #drop(held: Held): void {
    this.#remove(held);
    this.#discard(held.spare);
  }

  #discard(spare: Spare): void {
    const { discard, logger } = this.#parts;
    const done = Promise.resolve()
      .then(() => discard(spare))
      .catch((failure: unknown) => {
        logger.warn('spare not removed', { pid: spare.started.child.pid, reason: messageOf(failure) });
      })
      .then(() => {
        this.#discards.delete(spare);
      });
    this.#discards.set(spare, done);
  }
}
