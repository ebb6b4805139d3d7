import { pause } from '../core/deadline.ts';
import type { Envelope } from '../core/envelope.ts';
import { BridgeError, toBridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Link } from '../relay/link.ts';
import type { Ticket } from '../relay/pending.ts';
import type { GatePort } from '../relay/relay.ts';
import type { Generation } from './generation.ts';

/** Window of the storm guard, in milliseconds (design section 4: at most so many failures in 60 s). */
const failureWindowMs = 60_000;
/** Pause before the next start after 0, 1, 2, ... recent failures; the last one repeats. */
const backOffMs = [0, 250, 500, 1000, 2000];
/** Notifications kept for a child that is being started; a client that sends more floods us. */
const maxNotifications = 1000;

/** A bounded replacement reports its own failure before the waiting calls run out of time. */
const ownReportMs = 1000;

/** Limits of a gate. */
export interface GateLimits {
  /** How long a call waits at most, in milliseconds. */
  readonly startTimeoutMs: number;
  /** How long a replacement may take, in milliseconds. */
  readonly restartTimeoutMs: number;
  /** Failed starts within 60 s after which no new one is tried until the window has passed. */
  readonly restartMax: number;
}

/** What a gate is made with. */
export interface GateParts {
  readonly limits: GateLimits;
  readonly logger: Logger;
  /** Makes the generation of this number ready, or throws with everything undone. */
  readonly startGeneration: (number: number, signal: AbortSignal) => Promise<Generation>;
  /** A generation is ready; called before the first waiting call goes to it. */
  readonly onReady: (generation: Generation) => void;
  /** What is going on while calls wait, for the text they get when their limit is over. */
  readonly describeWait: () => string;
}

interface Waiting {
  readonly ticket: Ticket;
  readonly timer: NodeJS.Timeout;
}

/** Where calls wait while a generation is being made; all who wait share one bounded start. */
export class Gate implements GatePort {
  readonly #parts: GateParts;
  readonly #abort = new AbortController();
  /** Waiting calls and notifications, in the order they came. */
  readonly #queue = new Set<Waiting | Envelope>();
  readonly #waiting = new Map<Ticket, Waiting>();
  #failures: number[] = [];
  #current: Generation | undefined;
  #starting: Promise<void> | undefined;
  #count = 0;
  #lastFailure: BridgeError | undefined;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  get link(): Link | undefined {
    return this.#current?.link;
  }

  /** Number, state and process of the newest generation, for the info tool; number 0 before the first start. */
  describe(): { readonly number: number; readonly state: string; readonly pid: number | undefined } {
    const current = this.#current;
    if (current !== undefined) return { number: current.number, state: current.state, pid: current.child.pid };
    if (this.#starting !== undefined) return { number: this.#count + 1, state: 'starting', pid: undefined };
    return { number: this.#count, state: this.#count === 0 ? 'none' : 'lost', pid: undefined };
  }

  /** Why the last start failed; undefined after a good one. */
  get lastFailure(): BridgeError | undefined {
    return this.#lastFailure;
  }

  /** Bytes of notifications that wait for a child, and of what the child has not read. */
  get unreadBytes(): number {
    let bytes = this.#current?.child.unreadBytes ?? 0;
    for (const entry of this.#queue) if (!('ticket' in entry)) bytes += entry.line.length;
    return bytes;
  }

  /** Starts the first generation ahead of the first call. */
  warm(): void {
    if (this.#current === undefined && !this.#abort.signal.aborted) this.#start();
  }

  enter(ticket: Ticket): void {
    const current = this.#current;
    if (this.#abort.signal.aborted) {
      ticket.fail(closingError());
    } else if (current !== undefined) {
      ticket.forward(current.link);
    } else {
      this.#wait(ticket);
      this.#start();
    }
  }

  withdraw(ticket: Ticket): void {
    this.#take(ticket);
  }

  pass(message: Envelope): void {
    if (this.#current !== undefined) this.#current.link.forward(message);
    else if (this.#starting !== undefined && this.#queue.size < maxNotifications) this.#queue.add(message);
  }

  /** Forgets a lost generation. Nothing is started until the next call. */
  lose(generation: Generation): void {
    if (this.#current === generation) this.#current = undefined;
  }

  /** Refuses what waits and what comes, ends a running start, and returns when the last generation is gone. */
  async close(): Promise<void> {
    this.#abort.abort();
    this.#failWaiting(closingError());
    await this.#starting;
    const current = this.#current;
    this.#current = undefined;
    await current?.close();
  }

  #wait(ticket: Ticket): void {
    const { startTimeoutMs, restartTimeoutMs } = this.#parts.limits;
    // Never longer than clients commonly wait, so that they see our reason and not their own limit.
    const limit = this.#count === 0 ? startTimeoutMs : Math.min(startTimeoutMs, restartTimeoutMs + ownReportMs);
    const timer = setTimeout(() => {
      if (this.#take(ticket)) ticket.fail(this.#pendingError(limit));
    }, limit);
    const waiting = { ticket, timer };
    this.#waiting.set(ticket, waiting);
    this.#queue.add(waiting);
  }

  #take(ticket: Ticket): boolean {
    const waiting = this.#waiting.get(ticket);
    if (waiting === undefined) return false;
    clearTimeout(waiting.timer);
    this.#queue.delete(waiting);
    return this.#waiting.delete(ticket);
  }

  #pendingError(limitMs: number): BridgeError {
    const doing = this.#parts.describeWait();
    return new BridgeError('start_pending', `The browser is not ready yet after ${limitMs} ms: ${doing}.`, {
      hint: 'It goes on in the background. Try the call again a little later; cloakbrowser_bridge_info tells the state.',
    });
  }

  #start(): void {
    if (this.#starting !== undefined) return;
    const starting = this.#attempt().then(
      (generation) => {
        this.#starting = undefined;
        this.#open(generation);
      },
      (failure: unknown) => {
        this.#starting = undefined;
        this.#failWaiting(this.#noteFailure(toBridgeError(failure)));
      },
    );
    this.#starting = starting;
  }

  async #attempt(): Promise<Generation> {
    const now = performance.now();
    this.#failures = this.#failures.filter((at) => now - at < failureWindowMs);
    const oldest = this.#failures[0];
    if (oldest !== undefined && this.#failures.length >= this.#parts.limits.restartMax) {
      throw this.#stormError(Math.ceil((oldest + failureWindowMs - now) / 1000));
    }
    await pause(backOffMs[Math.min(this.#failures.length, backOffMs.length - 1)] ?? 0, this.#abort.signal);
    this.#abort.signal.throwIfAborted();
    return this.#parts.startGeneration(this.#count + 1, this.#abort.signal);
  }

  #stormError(seconds: number): BridgeError {
    const { restartMax } = this.#parts.limits;
    const last = this.#lastFailure;
    return new BridgeError(
      'restart_limited',
      `${restartMax} starts failed within a minute; the next one is tried in ${seconds} s. The last one: ${last?.message ?? ''}`,
      {
        hint: last?.hint,
        data: { retryAfterSeconds: seconds },
      },
    );
  }

  #noteFailure(failure: BridgeError): BridgeError {
    if (this.#abort.signal.aborted) return closingError();
    if (failure.code === 'restart_limited') return failure;
    this.#lastFailure = failure;
    // A setting stays wrong until somebody changes it: its text must not give way to the storm guard's.
    if (failure.code !== 'config') this.#failures.push(performance.now());
    this.#parts.logger.error('start failed', {
      generation: this.#count + 1,
      code: failure.code,
      reason: failure.message,
    });
    return failure;
  }

  #open(generation: Generation): void {
    if (this.#abort.signal.aborted) {
      // Closing waits for the start, and ends what it made.
      this.#current = generation;
      return;
    }
    this.#count = generation.number;
    this.#lastFailure = undefined;
    this.#current = generation;
    this.#parts.onReady(generation);
    // Emptied first: a call that comes meanwhile belongs to the queue of the next generation.
    const entries = [...this.#queue];
    this.#queue.clear();
    for (const entry of entries) {
      if ('ticket' in entry) this.#release(entry.ticket);
      else this.pass(entry);
    }
  }

  #release(ticket: Ticket): void {
    if (!this.#take(ticket)) return;
    // The child may have died while the queue was emptied: then the call was not sent, and waits for the next one.
    if (this.#current === undefined) this.enter(ticket);
    else ticket.forward(this.#current.link);
  }

  #failWaiting(error: BridgeError): void {
    const tickets = [...this.#waiting.keys()];
    // Notifications for a child that did not come to life; a call that comes meanwhile waits for the next one.
    this.#queue.clear();
    for (const ticket of tickets) {
      if (this.#take(ticket)) ticket.fail(error);
    }
  }
}

/** What calls get that come, wait or run while the session ends. */
export function closingError(): BridgeError {
  return new BridgeError('closing', 'The session is ending.', { hint: 'Start a new session.' });
}
