import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import type { Link } from '../../../src/relay/link.ts';
import { Gate } from '../../../src/session/gate.ts';
import type { Generation } from '../../../src/session/generation.ts';

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

interface Bed {
  readonly gate: Gate;
  readonly events: string[];
  readonly generations: Generation[];
  /** How many starts were asked for. */
  readonly count: () => number;
  enter(name: string): void;
  /** Ends the running start: with a child, or with what its abort throws. */
  settle(isGood: boolean): Promise<void>;
}

function makeBed(): Bed {
  const events: string[] = [];
  const generations: Generation[] = [];
  let [count, settle] = [0, (_isGood: boolean): void => undefined];
  const makeGeneration = (number: number): Generation => {
    const generation = {
      number,
      state: 'ready',
      link: {} as Link,
      child: { pid: 77 },
      close: () => {
        events.push(`closed ${number}`);
        return Promise.resolve();
      },
    } as unknown as Generation;
    generations.push(generation);
    return generation;
  };
  const gate = new Gate({
    limits: { startTimeoutMs: 45_000, restartTimeoutMs: 60_000, restartMax: 5 },
    logger: silent,
    startGeneration: (number, signal) =>
      new Promise((resolve, reject) => {
        count += 1;
        let isRunning = true;
        signal.addEventListener('abort', () => void (isRunning && events.push('start aborted')));
        settle = (isGood) => {
          isRunning = false;
          if (isGood) resolve(makeGeneration(number));
          else reject(new BridgeError('closing', 'aborted'));
        };
      }),
    onReady: ({ number }) => void events.push(`ready ${number}`),
    describeWait: () => '',
  });
  return {
    gate,
    events,
    generations,
    count: () => count,
    enter: (name) => {
      gate.enter({
        forward: () => void events.push(`sent ${name}`),
        fail: ({ code }) => void events.push(`failed ${name}: ${code}`),
      });
    },
    settle: async (isGood) => {
      settle(isGood);
      await vi.advanceTimersByTimeAsync(0);
    },
  };
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('closing a gate', () => {
  it('refuses what waits and what comes, and starts nothing any more', async () => {
    const bed = makeBed();
    bed.enter('a');
    await vi.advanceTimersByTimeAsync(0);
    const closing = bed.gate.close();
    bed.enter('b');
    bed.gate.warm();
    expect(bed.events).toEqual(['start aborted', 'failed a: closing', 'failed b: closing']);
    await bed.settle(false);
    await closing;
    bed.gate.warm();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(bed.count()).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('waits for a running start and ends the child that it still made', async () => {
    const bed = makeBed();
    bed.enter('a');
    await vi.advanceTimersByTimeAsync(0);
    let isClosed = false;
    void bed.gate.close().then(() => (isClosed = true));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(isClosed).toBe(false);
    await bed.settle(true);
    expect(isClosed).toBe(true);
    expect(bed.events).toEqual(['start aborted', 'failed a: closing', 'closed 1']);
    expect(bed.gate.link).toBeUndefined();
  });

  it('does not begin a start that was only put off', async () => {
    const bed = makeBed();
    bed.enter('a');
    await vi.advanceTimersByTimeAsync(0);
    await bed.settle(false);
    bed.enter('b');
    await bed.gate.close();
    expect(bed.count()).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends the ready child, and once', async () => {
    const bed = makeBed();
    bed.gate.warm();
    await vi.advanceTimersByTimeAsync(0);
    await bed.settle(true);
    await bed.gate.close();
    await bed.gate.close();
    expect(bed.events).toEqual(['ready 1', 'closed 1']);
  });

  it('is no failure of a start', async () => {
    const bed = makeBed();
    bed.gate.warm();
    await vi.advanceTimersByTimeAsync(0);
    const closing = bed.gate.close();
    await bed.settle(false);
    await closing;
    expect(bed.gate.lastFailure).toBeUndefined();
  });
});

describe('warming a gate', () => {
  it('starts the first child ahead of the first call, once', async () => {
    const bed = makeBed();
    bed.gate.warm();
    bed.gate.warm();
    bed.enter('a');
    await vi.advanceTimersByTimeAsync(0);
    await bed.settle(true);
    bed.gate.warm();
    await vi.advanceTimersByTimeAsync(0);
    expect(bed.count()).toBe(1);
    expect(bed.events).toEqual(['ready 1', 'sent a']);
  });
});

describe('what a gate tells of itself', () => {
  it('is the state of the newest child', async () => {
    const bed = makeBed();
    expect(bed.gate.describe()).toEqual({ number: 0, state: 'none', pid: undefined });
    bed.gate.warm();
    await vi.advanceTimersByTimeAsync(0);
    expect(bed.gate.describe()).toEqual({ number: 1, state: 'starting', pid: undefined });
    await bed.settle(true);
    expect(bed.gate.describe()).toEqual({ number: 1, state: 'ready', pid: 77 });
    for (const generation of bed.generations) bed.gate.lose(generation);
    expect(bed.gate.describe()).toEqual({ number: 1, state: 'lost', pid: undefined });
    bed.enter('a');
    expect(bed.gate.describe()).toEqual({ number: 2, state: 'starting', pid: undefined });
  });
});
