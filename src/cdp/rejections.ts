import type { Logger } from '../core/logger.ts';

/** After the first rejection of a kind, one line tells those of so many milliseconds. */
const windowMs = 60_000;

/** Counts rejected requests, and logs the first of each kind and then one line a minute, however many come. */
export class Rejections {
  readonly #logger: Logger;
  readonly #onRejected: (kind: string) => void;
  readonly #counts = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(logger: Logger, onRejected: (kind: string) => void) {
    this.#logger = logger;
    this.#onRejected = onRejected;
  }

  /** Notes one. */
  note(kind: string): void {
    this.#onRejected(kind);
    const count = this.#counts.get(kind);
    this.#counts.set(kind, (count ?? -1) + 1);
    if (count === undefined) this.#logger.warn('CDP request rejected', { code: kind });
    if (this.#timer === undefined) this.#start();
  }

  #start(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      for (const [kind, count] of this.#counts)
        if (count > 0) this.#logger.warn('CDP requests rejected', { code: kind, count, durationMs: windowMs });
      const isQuiet = [...this.#counts.values()].every((count) => count === 0);
      for (const kind of this.#counts.keys()) this.#counts.set(kind, 0);
      // Who comes back after a quiet minute is news again.
      if (isQuiet) this.#counts.clear();
      else this.#start();
    }, windowMs);
    this.#timer.unref();
  }
}
