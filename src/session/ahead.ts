import type { Generation } from './generation.ts';

/** A generation whose child answered `initialize`, and that answer. */
export interface Booted {
  readonly generation: Generation;
  readonly answer: Buffer;
}

/**
 * A child that is booted before the first call needs it, while its browser waits for that call. It is one attempt: a
 * failure is left to the call, which then starts a child of its own.
 */
export class Ahead {
  readonly #boot: (signal: AbortSignal) => Promise<Booted>;
  readonly #abort = new AbortController();
  #booting: Promise<Booted | undefined> | undefined;

  constructor(boot: (signal: AbortSignal) => Promise<Booted>) {
    this.#boot = boot;
  }

  /** Boots it, once. */
  begin(): void {
    if (this.#abort.signal.aborted) return;
    this.#booting ??= this.#boot(this.#abort.signal).catch(() => undefined);
  }

  /** Gives it away when it is booted; undefined if there is none or it has ended. */
  async take(): Promise<Booted | undefined> {
    const booted = await this.#booting;
    this.#booting = undefined;
    if (booted === undefined || booted.generation.child.hasEnded) {
      await booted?.generation.close();
      return undefined;
    }
    return booted;
  }

  /** Ends it if nobody took it; nothing is booted any more. */
  async close(): Promise<void> {
    this.#abort.abort();
    const booted = await this.#booting;
    this.#booting = undefined;
    await booted?.generation.close();
  }
}
