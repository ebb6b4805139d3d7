import { vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { LogFields, Logger } from '../../../src/core/logger.ts';
import { type Spare, Spares, type SparesParts } from '../../../src/session/spares.ts';

/** Time that the fake children need to start. */
export const startMs = 100;

interface FakeSpare extends Spare {
  readonly name: string;
  /** Its child ends by itself. */
  readonly die: () => void;
}

type Some = Partial<Pick<SparesParts, 'maxAgeMs' | 'headStartMs' | 'acquireTurn'>>;

/** Spares without processes, with everything that was done: `made c1`, `made w2`, `failed 3`, `discarded c1`, `forced c1`. */
export class Bed {
  readonly events: string[] = [];
  readonly logged: { readonly event: string; readonly fields: LogFields | undefined }[] = [];
  readonly made: FakeSpare[] = [];
  /** When each start began, from the making of the bed. */
  readonly startedAt: number[] = [];
  readonly signals: AbortSignal[] = [];
  readonly spares: Spares;
  readonly #bornAt = performance.now();
  failing = false;
  /** A start does not hear that it is to end. */
  isDeaf = false;
  running = 0;
  most = 0;
  discard: () => Promise<void> = () => Promise.resolve();

  constructor(children: number, browsers: number, some: Some = {}) {
    const note = (event: string, fields?: LogFields): void => void this.logged.push({ event, fields });
    const logger: Logger = { debug: note, info: note, warn: note, error: note };
    this.spares = new Spares({
      wanted: { children, browsers },
      make: (isWarm, signal) => this.#make(isWarm, signal),
      discard: (spare) => {
        this.events.push(`discarded ${(spare as FakeSpare).name}`);
        return this.discard();
      },
      logger,
      ...some,
    });
  }

  take(): string | undefined {
    return (this.spares.take() as FakeSpare | undefined)?.name;
  }

  /** The newest spare that was made. */
  get newest(): FakeSpare {
    const spare = this.made.at(-1);
    if (spare === undefined) throw new Error('none was made');
    return spare;
  }

  async #make(isWarm: boolean, signal: AbortSignal): Promise<Spare> {
    this.startedAt.push(performance.now() - this.#bornAt);
    this.signals.push(signal);
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    try {
      await new Promise<void>((resolve, reject) => {
        setTimeout(resolve, startMs);
        signal.addEventListener('abort', () => {
          if (!this.isDeaf) reject(new Error('told to end'));
        });
      });
      if (this.failing) throw new BridgeError('child_start_failed', 'it does not start');
    } catch (failure) {
      this.events.push(`failed ${this.startedAt.length}`);
      throw failure;
    } finally {
      this.running -= 1;
    }
    return this.#born(isWarm);
  }

  #born(isWarm: boolean): Spare {
    const name = `${isWarm ? 'w' : 'c'}${this.startedAt.length}`;
    let die = (): void => undefined;
    const gone = new Promise<void>((resolve) => (die = resolve));
    const factory = { force: () => void this.events.push(`forced ${name}`) };
    const spare = { name, die, factory, started: { child: { pid: 7, gone } }, isWarm } as unknown as FakeSpare;
    this.made.push(spare);
    this.events.push(`made ${name}`);
    return spare;
  }
}

/** Lets time pass, and everything that it sets off. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}
