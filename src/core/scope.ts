type Release = () => void | Promise<void>;

/** Anything that can be given back by an awaited `close`. */
export interface Closable {
  close(): void | Promise<void>;
}

/**
 * A stack of releases. Whatever is acquired registers its release in the same statement; `close` undoes the
 * acquisitions last-in first-out, once, and runs every release even if another one fails.
 */
export class Scope {
  readonly #releases: Release[] = [];
  #closing: Promise<void> | undefined;

  /** True from the first call of `close` on. */
  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  /** Registers a release. On a closed scope it runs at once, so that nothing acquired late is leaked. */
  defer(release: Release): void {
    if (this.#closing === undefined) {
      this.#releases.push(release);
      return;
    }
    this.#closing = this.#closing.then(release, async (failure: unknown) => {
      await release();
      throw failure;
    });
    // Whoever awaits `close` is told; nobody else has to be.
    this.#closing.catch(() => undefined);
  }

  /** Registers the `close` of something acquired and returns that thing. */
  own<T extends Closable>(thing: T): T {
    this.defer(() => thing.close());
    return thing;
  }

  /** Runs the releases in reverse order. A second call returns the first one's promise. Throws an `AggregateError` of what failed. */
  close(): Promise<void> {
    this.#closing ??= this.#runAll();
    return this.#closing;
  }

  async #runAll(): Promise<void> {
    const failures: unknown[] = [];
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) {
      try {
        await release();
      } catch (failure) {
        failures.push(failure);
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} release(s) failed`);
  }
}
