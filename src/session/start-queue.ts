import { BridgeError } from '../core/errors.ts';

interface Waiting {
  readonly signal: AbortSignal;
  readonly grant: () => void;
}

/** Whose turn it is to start a child: so many at once and no more, the others in the order they came. */
export class StartQueue {
  readonly #limit: number;
  readonly #waiting: Waiting[] = [];
  /** Those that get a turn only when nobody else wants one. */
  readonly #patient: Waiting[] = [];
  #running = 0;

  /** `limit`: starts at once, at least 1. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Turns that are taken. */
  get running(): number {
    return this.#running;
  }

  /** Who waits for a turn, without those who let everybody pass. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** How many get a turn before the one that waits with this signal; without it, before a newcomer. */
  ahead(signal?: AbortSignal): number {
    const place = this.#waiting.findIndex((entry) => entry.signal === signal);
    return place === -1 ? this.#waiting.length : place;
  }

  /** Waits for a turn and returns the function that gives it back, once. Rejects with `closing` when the signal aborts. */
  acquire(signal: AbortSignal): Promise<() => void> {
    return this.#enter(this.#waiting, signal);
  }

  /** As `acquire`, but lets everybody pass: for what nobody waits for, such as spares. */
  acquireLast(signal: AbortSignal): Promise<() => void> {
    return this.#enter(this.#patient, signal);
  }

  #enter(queue: Waiting[], signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const place = queue.indexOf(entry);
        if (place !== -1) queue.splice(place, 1);
        reject(new BridgeError('closing', 'The session ended before it was its turn to start.'));
      };
      const entry: Waiting = {
        signal,
        grant: () => {
          signal.removeEventListener('abort', leave);
          resolve(this.#makeRelease());
        },
      };
      if (signal.aborted) {
        leave();
        return;
      }
      signal.addEventListener('abort', leave, { once: true });
      queue.push(entry);
      this.#admit();
    });
  }

  #makeRelease(): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#running -= 1;
      this.#admit();
    };
  }

  #admit(): void {
    while (this.#running < this.#limit) {
      const next = this.#waiting.shift() ?? this.#patient.shift();
      if (next === undefined) return;
      this.#running += 1;
      next.grant();
    }
  }
}
