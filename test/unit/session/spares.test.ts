import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { StartQueue } from '../../../src/session/start-queue.ts';
import { Bed, pass, startMs } from './spares-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('Spares', () => {
  it('makes as many as are wanted, those with a browser first, one at a time', async () => {
    const bed = new Bed(2, 1);
    bed.spares.refill();
    bed.spares.refill();
    await pass(3 * startMs);
    expect(bed.events).toEqual(['made w1', 'made c2', 'made c3']);
    expect(bed.most).toBe(1);
    expect(bed.spares.counts()).toEqual({ children: 2, browsers: 1 });
    await pass(10_000);
    expect(bed.made).toHaveLength(3);
    await bed.spares.close();
  });

  it('makes none where none are wanted, and leaves no timer', async () => {
    const bed = new Bed(0, 0);
    bed.spares.refill();
    expect(bed.take()).toBeUndefined();
    await pass(10_000);
    expect(bed.events).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
    await bed.spares.close();
  });

  it('hands over one with a browser first, then the oldest, and each once', async () => {
    const bed = new Bed(2, 1);
    bed.spares.refill();
    await pass(3 * startMs);
    expect([bed.take(), bed.take(), bed.take(), bed.take()]).toEqual(['w1', 'c2', 'c3', undefined]);
    expect(bed.spares.counts()).toEqual({ children: 0, browsers: 0 });
    await bed.spares.close();
    expect(bed.events.filter((event) => event.startsWith('discarded'))).toEqual([]);
  });

  it('prefers one with a browser that is the newest', async () => {
    const bed = new Bed(1, 1);
    bed.spares.refill();
    await pass(2 * startMs);
    bed.made[0]?.die();
    await pass(1000 + startMs);
    expect([bed.take(), bed.take()]).toEqual(['w3', 'c2']);
    await bed.spares.close();
  });

  it('makes another one whenever one is taken, also in the very moment it was made', async () => {
    for (let turns = 0; turns < 30; turns += 1) {
      const bed = new Bed(1, 0);
      bed.spares.refill();
      await pass(startMs - 1);
      vi.advanceTimersByTime(1);
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      bed.take();
      await pass(2000 + 2 * startMs);
      expect(bed.spares.counts().children).toBe(1);
      await bed.spares.close();
    }
  });

  it('does not keep the program from ending', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    expect(timers.mock.results.map(({ value }) => (value as NodeJS.Timeout).hasRef()).at(-1)).toBe(false);
    timers.mockRestore();
    await bed.spares.close();
  });

  it('makes the next one only when the taker has had its head start', async () => {
    const bed = new Bed(1, 0, { headStartMs: 3000 });
    bed.spares.refill();
    await pass(1000);
    bed.take();
    await pass(2999);
    expect(bed.startedAt).toEqual([0]);
    await pass(1);
    expect(bed.startedAt).toEqual([0, 4000]);
    await bed.spares.close();
  });

  it('is not kept from making the next one by clients that come and get none', async () => {
    const bed = new Bed(1, 0, { headStartMs: 3000 });
    bed.spares.refill();
    await pass(1000);
    expect(bed.take()).toBe('c1');
    await pass(2000);
    expect(bed.take()).toBeUndefined();
    await pass(1000);
    expect(bed.startedAt).toEqual([0, 4000]);
    await bed.spares.close();
  });

  it('lets every session start first, and gives its turn back', async () => {
    const queue = new StartQueue(1);
    const bed = new Bed(1, 0, { acquireTurn: (signal) => queue.acquireLast(signal) });
    const session = new AbortController().signal;
    const [first, second] = [await queue.acquire(session), queue.acquire(session)];
    bed.spares.refill();
    await pass(5000);
    first();
    await pass(5000);
    expect(bed.startedAt).toEqual([]);
    (await second)();
    await pass(startMs);
    expect(bed.events).toEqual(['made c1']);
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
    await bed.spares.close();
  });

  it('gives the head start also to somebody who takes one while it waits for its turn', async () => {
    const queue = new StartQueue(1);
    const bed = new Bed(2, 0, { headStartMs: 3000, acquireTurn: (signal) => queue.acquireLast(signal) });
    bed.spares.refill();
    await pass(2 * startMs);
    const release = await queue.acquire(new AbortController().signal);
    bed.newest.die();
    await pass(2000);
    expect(bed.take()).toBe('c1');
    release();
    await pass(2999);
    expect(bed.startedAt).toHaveLength(2);
    await pass(1);
    expect(bed.startedAt).toHaveLength(3);
    await bed.spares.close();
  });

  it('gives each start a signal of its own, that nothing is left on', async () => {
    const bed = new Bed(2, 0);
    bed.spares.refill();
    await pass(2 * startMs);
    expect(new Set(bed.signals).size).toBe(2);
    await bed.spares.close();
  });

  it('gives the turn of a failed start back', async () => {
    const queue = new StartQueue(1);
    const bed = new Bed(1, 0, { acquireTurn: (signal) => queue.acquireLast(signal) });
    bed.failing = true;
    bed.spares.refill();
    await pass(startMs);
    expect([bed.events, queue.running]).toEqual([['failed 1'], 0]);
    await bed.spares.close();
  });

  it('replaces one whose child has ended, and never hands it over', async () => {
    const bed = new Bed(1, 0);
    bed.spares.refill();
    await pass(startMs);
    bed.newest.die();
    await pass(0);
    expect(bed.spares.counts()).toEqual({ children: 0, browsers: 0 });
    await pass(1000 + startMs);
    expect(bed.events).toEqual(['made c1', 'discarded c1', 'made c2']);
    expect(bed.take()).toBe('c2');
    await bed.spares.close();
  });

  it('has nothing more to do with one that was taken', async () => {
    const bed = new Bed(1, 0, { maxAgeMs: 5000 });
    bed.spares.refill();
    await pass(startMs);
    const taken = bed.newest;
    bed.take();
    taken.die();
    await pass(4000);
    await bed.spares.close();
    expect(bed.events).toEqual(['made c1', 'made c2', 'discarded c2']);
    expect(bed.logged.filter(({ event }) => event === 'spare ended')).toEqual([]);
  });

  it('replaces one at its age and not before', async () => {
    const bed = new Bed(1, 1, { maxAgeMs: 60_000 });
    bed.spares.refill();
    await pass(startMs + 59_999);
    expect(bed.events).toEqual(['made w1', 'made c2']);
    await pass(1);
    expect(bed.events).toEqual(['made w1', 'made c2', 'discarded w1']);
    await pass(2 * startMs);
    expect(bed.events.slice(3)).toEqual(['discarded c2', 'made w3', 'made c4']);
    expect(bed.spares.counts()).toEqual({ children: 1, browsers: 1 });
    await bed.spares.close();
  });

  it('by default replaces a browser before upstream would close it', async () => {
    const bed = new Bed(0, 1);
    bed.spares.refill();
    await pass(1_800_000 + 2 * startMs);
    expect(bed.events).toEqual(['made w1', 'discarded w1', 'made w2']);
    await bed.spares.close();
  });

  it('says so when one cannot be removed, and goes on', async () => {
    const bed = new Bed(1, 0, { maxAgeMs: 1000 });
    bed.discard = () => Promise.reject(new Error('busy'));
    bed.spares.refill();
    await pass(1000 + 2 * startMs);
    expect(bed.logged.find(({ event }) => event === 'spare not removed')?.fields).toEqual({ pid: 7, reason: 'busy' });
    expect(bed.spares.counts().children).toBe(1);
    await bed.spares.close();
  });
});
