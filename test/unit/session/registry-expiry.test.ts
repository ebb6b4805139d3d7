import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Bed, type FakeSession, pass } from './registry-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Looks right after so much time, whenever the registry itself would look next. */
async function sweepAfter(bed: Bed, ms: number): Promise<void> {
  await pass(ms);
  bed.registry.sweep();
  await pass(0);
}

describe('an idle session', () => {
  it('lives at its limit and ends one millisecond past it', async () => {
    const bed = new Bed({ idleTtlMs: 80_000 });
    const session = bed.open();
    session.calls = 1;
    await sweepAfter(bed, 80_000);
    expect(bed.isOpen(session)).toBe(true);
    await sweepAfter(bed, 1);
    expect(session.closedFor).toEqual(['idle']);
  });

  it('ends sooner when it never called a tool', async () => {
    const bed = new Bed({ idleTtlMs: 80_000, unusedTtlMs: 16_000 });
    const session = bed.open();
    await sweepAfter(bed, 16_000);
    expect(bed.isOpen(session)).toBe(true);
    await sweepAfter(bed, 1);
    expect(session.closedFor).toEqual(['unused']);
  });

  it('lives no longer without calls than with them', async () => {
    const bed = new Bed({ idleTtlMs: 8000, unusedTtlMs: 16_000 });
    const session = bed.open();
    await sweepAfter(bed, 8001);
    expect(session.closedFor).toEqual(['unused']);
  });

  it('gets the long limit with its first call', async () => {
    const bed = new Bed({ idleTtlMs: 80_000, unusedTtlMs: 16_000 });
    const session = bed.open();
    await pass(15_000);
    session.calls = 1;
    await pass(60_000);
    expect(bed.isOpen(session)).toBe(true);
  });

  it('is found by itself, five seconds after its limit at the latest', async () => {
    const bed = new Bed({ idleTtlMs: 3_600_000, unusedTtlMs: 600_000 });
    const first = bed.open();
    await pass(5000);
    const second = bed.open();
    await pass(600_000);
    expect([first.closedFor, second.closedFor]).toEqual([['unused'], []]);
    await pass(5000);
    expect(second.closedFor).toEqual(['unused']);
  });

  it('is found within a quarter of a limit that is shorter', async () => {
    const bed = new Bed({ unusedTtlMs: 2000 });
    const session = bed.open();
    await pass(2500);
    expect(session.closedFor).toEqual(['unused']);
  });

  it('counts from its last use', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    await pass(15_000);
    bed.registry.touch(session);
    await sweepAfter(bed, 16_000);
    expect(bed.isOpen(session)).toBe(true);
    await sweepAfter(bed, 1);
    expect(bed.isOpen(session)).toBe(false);
  });

  it('is not idle in the middle of a call, and has its whole limit after it', async () => {
    const bed = new Bed({ idleTtlMs: 80_000 });
    const session = bed.open();
    session.calls = 1;
    session.isInFlight = true;
    await pass(1_000_000);
    session.isInFlight = false;
    await pass(75_000);
    expect(bed.isOpen(session)).toBe(true);
    await pass(10_001);
    expect(session.closedFor).toEqual(['idle']);
  });

  it('is not kept by a stream that nobody answers on', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    session.listens = true;
    await sweepAfter(bed, 16_001);
    expect(session.closedFor).toEqual(['unused']);
  });
});

describe('the ping', () => {
  it('goes out at half the limit, not before, and again each eighth of it', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    const start = performance.now();
    session.listens = true;
    await sweepAfter(bed, 7999);
    expect(session.pings).toEqual([]);
    await sweepAfter(bed, 1);
    for (let round = 0; round < 30; round += 1) await sweepAfter(bed, 250);
    expect(session.pings.map((at) => at - start)).toEqual([8000, 10_000, 12_000, 14_000]);
  });

  it('keeps a client that answers for as long as it does', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    session.listens = true;
    session.onPing = () => {
      bed.registry.touch(session);
    };
    await pass(1_000_000);
    expect(bed.isOpen(session)).toBe(true);
    session.onPing = () => undefined;
    await pass(21_000);
    expect(bed.isOpen(session)).toBe(false);
  });

  it('is not sent to a client that does not listen, which lives as long', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    await sweepAfter(bed, 16_000);
    expect([session.pings, bed.isOpen(session)]).toEqual([[], true]);
  });

  it('goes out by the limit that the session has now', async () => {
    const bed = new Bed({ idleTtlMs: 80_000, unusedTtlMs: 16_000 });
    const session = bed.open();
    session.listens = true;
    session.calls = 1;
    await pass(39_000);
    expect(session.pings).toEqual([]);
    await pass(6000);
    expect(session.pings).toHaveLength(1);
  });
});

describe('an old session', () => {
  /** Used all the time, so that it is never idle. */
  async function useFor(bed: Bed, session: FakeSession, ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1000) {
      bed.registry.touch(session);
      await pass(Math.min(1000, ms - passed));
    }
    bed.registry.sweep();
    await pass(0);
  }

  it('ends past its age however much it is used', async () => {
    const bed = new Bed({ maxAgeMs: 100_000 });
    const session = bed.open();
    session.calls = 1;
    await useFor(bed, session, 100_000);
    expect(bed.isOpen(session)).toBe(true);
    await useFor(bed, session, 1);
    expect(session.closedFor).toEqual(['age']);
  });

  it('may finish its call, for a tenth of its age at most', async () => {
    const bed = new Bed({ maxAgeMs: 100_000 });
    const session = bed.open();
    session.isInFlight = true;
    await sweepAfter(bed, 110_000);
    expect(bed.isOpen(session)).toBe(true);
    await sweepAfter(bed, 1);
    expect(session.closedFor).toEqual(['age']);
  });

  it('ends at the first moment without a call', async () => {
    const bed = new Bed({ maxAgeMs: 100_000 });
    const session = bed.open();
    session.isInFlight = true;
    await sweepAfter(bed, 102_000);
    session.isInFlight = false;
    await sweepAfter(bed, 1);
    expect(session.closedFor).toEqual(['age']);
  });

  it('never ends for its age where none is set', async () => {
    const bed = new Bed({ maxAgeMs: undefined });
    const session = bed.open();
    session.isInFlight = true;
    await pass(3 * 3_600_000);
    expect(bed.isOpen(session)).toBe(true);
  });
});

describe('looking for expired sessions', () => {
  it('goes on past a session that cannot be asked, and tells whose mistake it was', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const [broken, other] = [bed.open(), bed.open()];
    broken.isBusy = () => {
      throw new Error('no channel');
    };
    await sweepAfter(bed, 16_001);
    expect(other.closedFor).toEqual(['unused']);
    expect(bed.lines('session not checked')[0]?.fields).toEqual({ sessionId: broken.hash, reason: 'no channel' });
    await bed.registry.closeAll('shutdown');
  });

  it('lets clients speak first after the whole process had been stopped', async () => {
    const bed = new Bed({ idleTtlMs: 80_000, unusedTtlMs: 16_000 });
    const [speaking, silent] = [bed.open(), bed.open()];
    await pass(7000);
    bed.stoppedMs = 600_000;
    await pass(1000);
    expect([speaking, silent].map((session) => bed.isOpen(session))).toEqual([true, true]);
    bed.registry.touch(speaking);
    await pass(4000);
    expect([speaking, silent].map((session) => bed.isOpen(session))).toEqual([true, false]);
  });

  it('is put off once and not for ever in a process that stops again and again', async () => {
    const bed = new Bed({ unusedTtlMs: 16_000 });
    const session = bed.open();
    for (const stoppedMs of [20_000, 40_000]) {
      bed.stoppedMs = stoppedMs;
      await pass(4000);
    }
    expect(session.closedFor).toEqual(['unused']);
  });

  it('costs nothing while there are none', async () => {
    const bed = new Bed();
    expect(vi.getTimerCount()).toBe(0);
    const session = bed.open();
    expect(vi.getTimerCount()).toBe(1);
    await bed.registry.end(session, 'deleted');
    expect(vi.getTimerCount()).toBe(0);
    bed.open();
    expect(vi.getTimerCount()).toBe(1);
  });

  it('does not keep the program from ending', () => {
    const timers = vi.spyOn(globalThis, 'setInterval');
    new Bed().open();
    expect(timers.mock.results.map(({ value }) => (value as NodeJS.Timeout).hasRef())).toEqual([false]);
    timers.mockRestore();
  });

  it('leaves nothing of fifty clients that came and said no more', async () => {
    const bed = new Bed({ max: 50, unusedTtlMs: 2000 });
    for (let count = 0; count < 50; count += 1) bed.open();
    expect(bed.refusal()?.code).toBe('sessions_full');
    await pass(2500);
    expect(bed.registry.counts()).toEqual({ open: 0, closing: 0 });
    expect([bed.ended.length, bed.lines('session ended').length, bed.store.size()]).toEqual([50, 50, 0]);
  });
});

/** Numbers from 0 to below 1, the same ones for the same seed (mulberry32, 32 bits of state). */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe('any order of events', () => {
  it.each([1, 2, 3])('keeps every count exact (seed %i)', async (seed) => {
    const random = makeRandom(seed);
    const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(random() * all.length)];
    const bed = new Bed({ max: 6, maxPerOwner: 3, idleTtlMs: 9000, unusedTtlMs: 4000, maxAgeMs: 30_000 });
    const opened: FakeSession[] = [];
    let refused = 0;
    const open = (): void => {
      const owner = pick(['ann', 'bob', 'eve']) ?? '';
      if (bed.refusal(owner) !== undefined) {
        refused += 1;
        return;
      }
      const session = bed.open(owner);
      const closesInMs = pick([0, 5, 3000]) ?? 0;
      session.onClose = () => new Promise((resolve) => setTimeout(resolve, closesInMs));
      opened.push(session);
    };
    const live = (): FakeSession[] => [...bed.registry.sessions()];
    const steps: (() => void)[] = [
      open,
      open,
      () => void (pick(live()) ?? { calls: 0 }).calls++,
      () => {
        const session = pick(live());
        if (session !== undefined) session.isInFlight = !session.isInFlight;
      },
      () => {
        // Also one that is gone already.
        const session = pick(opened);
        if (session !== undefined) void bed.registry.end(session, 'deleted');
      },
      () => {
        const session = pick(opened);
        if (session !== undefined) bed.registry.touch(session);
      },
    ];
    for (let step = 0; step < 200; step += 1) {
      pick(steps)?.();
      await pass(Math.floor(random() * 600));
      const { open: openCount, closing } = bed.registry.counts();
      expect(openCount + closing).toBeLessThanOrEqual(6);
      expect(openCount + closing + bed.ended.length).toBe(opened.length);
      expect(bed.store.size()).toBe(openCount + closing);
      for (const owner of ['ann', 'bob', 'eve'])
        expect(live().filter((session) => session.owner === owner).length).toBeLessThanOrEqual(3);
    }
    const closed = bed.registry.closeAll('shutdown');
    await pass(3000);
    await closed;
    expect(opened.filter((session) => session.closedFor.length !== 1)).toEqual([]);
    expect(new Set(bed.ended).size).toBe(opened.length);
    expect([bed.registry.counts(), bed.store.size(), vi.getTimerCount()]).toEqual([{ open: 0, closing: 0 }, 0, 0]);
    // The run was worth its name: sessions came, were refused, and ended in every way.
    expect(opened.length).toBeGreaterThan(20);
    expect(refused).toBeGreaterThan(5);
    expect(new Set(bed.ended.map((line) => line.split(' ')[1]))).toEqual(
      new Set(['deleted', 'idle', 'unused', 'age', 'shutdown']),
    );
  });
});
