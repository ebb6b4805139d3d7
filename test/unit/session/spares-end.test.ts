import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { StartQueue } from '../../../src/session/start-queue.ts';
import { Bed, pass, startMs } from './spares-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('spares that do not start', () => {
  it('are tried ever less often, and at least each five minutes', async () => {
    const bed = new Bed(1, 0);
    bed.failing = true;
    bed.spares.refill();
    await pass(1_500_000);
    const pauses = bed.startedAt.slice(1).map((at, index) => at - (bed.startedAt[index] ?? 0) - startMs);
    expect(pauses.slice(0, 10)).toEqual([
      1000, 5000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000,
    ]);
    expect(bed.logged[1]).toEqual({
      event: 'spare not started',
      fields: { code: 'child_start_failed', reason: 'it does not start', count: 2 },
    });
    await bed.spares.close();
  });

  it('are tried anew when a session would have taken one', async () => {
    const bed = new Bed(1, 0, { headStartMs: 2000 });
    bed.failing = true;
    bed.spares.refill();
    await pass(100_000);
    const before = bed.startedAt.length;
    bed.failing = false;
    bed.take();
    await pass(1999);
    expect(bed.startedAt).toHaveLength(before);
    await pass(1);
    expect(bed.startedAt).toHaveLength(before + 1);
    await pass(startMs);
    expect(bed.spares.counts().children).toBe(1);
    await bed.spares.close();
  });

  it('begin with the short pause again when one was good for a session', async () => {
    const bed = new Bed(1, 0, { headStartMs: 2000 });
    bed.failing = true;
    bed.spares.refill();
    await pass(10_000);
    bed.failing = false;
    await pass(10_000);
    expect(bed.take()).toBe('c4');
    bed.failing = true;
    await pass(2000 + startMs);
    expect(bed.logged.at(-1)?.fields?.count).toBe(1);
    await bed.spares.close();
  });

  it('are not tried in a circle when they start and end at once', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    for (let second = 0; second < 600; second += 1) {
      await pass(1000);
      bed.made.at(-1)?.die();
    }
    expect(bed.made.length).toBeGreaterThan(3);
    expect(bed.made.length).toBeLessThan(12);
    await bed.spares.close();
  });

  it('are forgiven what failed long before', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    for (const expected of [1, 1]) {
      bed.newest.die();
      await pass(1000 + startMs);
      expect(bed.logged.findLast(({ event }) => event === 'spare ended')?.fields?.count).toBe(expected);
      await pass(900_000);
    }
    await bed.spares.close();
  });
});

describe('closing the spares', () => {
  it('removes all that wait, takes no more orders, and leaves no timer', async () => {
    const bed = new Bed(1, 1);
    bed.spares.refill();
    await pass(2 * startMs);
    await bed.spares.close();
    expect(bed.events).toEqual(['made w1', 'made c2', 'discarded w1', 'discarded c2']);
    bed.spares.refill();
    expect(bed.take()).toBeUndefined();
    await pass(10_000);
    expect(bed.startedAt).toHaveLength(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends a start that is going on', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs / 2);
    await bed.spares.close();
    expect(bed.events).toEqual(['failed 1']);
    expect(bed.logged).toEqual([]);
  });

  it('removes what a start makes that did not hear of it', async () => {
    const bed = new Bed(1, 0);
    bed.isDeaf = true;
    bed.spares.refill();
    await pass(startMs / 2);
    const closing = bed.spares.close();
    await pass(startMs);
    await closing;
    expect(bed.events).toEqual(['made c1', 'discarded c1']);
    expect(bed.spares.counts().children).toBe(0);
  });

  it('does not wait for a pause or for a turn', async () => {
    const queue = new StartQueue(1);
    await queue.acquire(new AbortController().signal);
    const waiting = new Bed(1, 0, { acquireTurn: (signal) => queue.acquireLast(signal) });
    waiting.spares.refill();
    const pausing = new Bed(1, 0);
    pausing.failing = true;
    pausing.spares.refill();
    await pass(20_000);
    await waiting.spares.close();
    await pausing.spares.close();
    expect(waiting.startedAt).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('returns when they are gone, once for all who ask, and in any case within a minute', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    bed.discard = () => new Promise((resolve) => setTimeout(resolve, 500));
    const closing = bed.spares.close();
    expect(bed.spares.close()).toBe(closing);
    let isDone = false;
    void closing.then(() => (isDone = true));
    await pass(499);
    expect(isDone).toBe(false);
    await pass(1);
    expect(isDone).toBe(true);
    expect(bed.events.filter((event) => event === 'discarded c1')).toHaveLength(1);
  });

  it('gives up on one that cannot be removed', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    bed.discard = () => new Promise(() => undefined);
    let isDone = false;
    void bed.spares.close().then(() => (isDone = true));
    await pass(60_000);
    expect(isDone).toBe(true);
  });

  it('kills them without waiting when somebody forces it', async () => {
    const bed = new Bed(2, 0);
    bed.spares.refill();
    await pass(2 * startMs);
    bed.spares.force();
    expect(bed.events.slice(2)).toEqual(['forced c1', 'forced c2']);
    await bed.spares.close();
  });

  it('kills also those that are being removed, when that takes somebody too long', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    bed.discard = () => new Promise((resolve) => setTimeout(resolve, 5000));
    const closing = bed.spares.close();
    await pass(0);
    bed.spares.force();
    await pass(5000);
    await closing;
    bed.spares.force();
    expect(bed.events).toEqual(['made c1', 'discarded c1', 'forced c1']);
  });
});
