import { getEventListeners } from 'node:events';

import { describe, expect, it } from 'vitest';

import { StartQueue } from '../../../src/session/start-queue.ts';

/** Names of those who have a turn, in the order they got it, and how each gives it back. */
class Bed {
  readonly queue: StartQueue;
  readonly got: string[] = [];
  readonly releases = new Map<string, () => void>();

  constructor(limit: number) {
    this.queue = new StartQueue(limit);
  }

  async enter(name: string, isPatient = false): Promise<AbortController> {
    const abort = new AbortController();
    const turn = isPatient ? this.queue.acquireLast(abort.signal) : this.queue.acquire(abort.signal);
    void turn.then(
      (release) => {
        this.got.push(name);
        this.releases.set(name, release);
      },
      (failure: unknown) => this.got.push(`${name} refused: ${(failure as { code: string }).code}`),
    );
    await settle();
    return abort;
  }

  async release(name: string): Promise<void> {
    this.releases.get(name)?.();
    await settle();
  }
}

/** Lets every promise that can settle do so. */
async function settle(): Promise<void> {
  for (let round = 0; round < 10; round += 1) await Promise.resolve();
}

describe('StartQueue', () => {
  it('gives so many turns at once and not one more', async () => {
    const bed = new Bed(2);
    await bed.enter('a');
    await bed.enter('b');
    await bed.enter('c');
    expect(bed.got).toEqual(['a', 'b']);
    expect([bed.queue.running, bed.queue.waiting]).toEqual([2, 1]);
  });

  it('serves in the order of arrival, whoever ends first', async () => {
    const bed = new Bed(2);
    for (const name of ['a', 'b', 'c', 'd', 'e']) await bed.enter(name);
    await bed.release('b');
    await bed.release('a');
    await bed.release('c');
    expect(bed.got).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect([bed.queue.running, bed.queue.waiting]).toEqual([2, 0]);
  });

  it('takes a turn back only once', async () => {
    const bed = new Bed(1);
    for (const name of ['a', 'b', 'c']) await bed.enter(name);
    await bed.release('a');
    await bed.release('a');
    expect(bed.got).toEqual(['a', 'b']);
    expect(bed.queue.running).toBe(1);
  });

  it('lets those behind move up when one gives up waiting', async () => {
    const bed = new Bed(1);
    await bed.enter('a');
    const leaving = await bed.enter('b');
    const last = await bed.enter('c');
    expect(bed.queue.ahead(last.signal)).toBe(1);
    leaving.abort();
    expect(bed.queue.ahead(last.signal)).toBe(0);
    await bed.release('a');
    expect(bed.got).toEqual(['a', 'b refused: closing', 'c']);
  });

  it('refuses somebody who has given up already, and keeps the turn', async () => {
    const { queue } = new Bed(1);
    await expect(queue.acquire(AbortSignal.abort())).rejects.toMatchObject({ code: 'closing' });
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
  });

  it('leaves the turn with its holder when the holder gives up later', async () => {
    const bed = new Bed(1);
    const holder = await bed.enter('a');
    await bed.enter('b');
    holder.abort();
    await settle();
    expect(bed.got).toEqual(['a']);
    await bed.release('a');
    expect(bed.got).toEqual(['a', 'b']);
  });

  it('leaves nothing on a signal that lives longer than the wait', async () => {
    const { queue } = new Bed(1);
    const { signal } = new AbortController();
    for (let start = 0; start < 3; start += 1) (await queue.acquire(signal))();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('tells a newcomer how many are before it', async () => {
    const bed = new Bed(1);
    expect(bed.queue.ahead()).toBe(0);
    await bed.enter('a');
    expect(bed.queue.ahead()).toBe(0);
    await bed.enter('b');
    await bed.enter('c');
    expect(bed.queue.ahead()).toBe(2);
  });

  it('gives a turn to the patient only when nobody else wants it', async () => {
    const bed = new Bed(1);
    await bed.enter('a');
    await bed.enter('spare', true);
    await bed.enter('b');
    expect(bed.queue.waiting).toBe(1);
    await bed.release('a');
    await bed.enter('c');
    await bed.release('b');
    await bed.release('c');
    expect(bed.got).toEqual(['a', 'b', 'c', 'spare']);
  });

  it('lets the patient give up too', async () => {
    const bed = new Bed(1);
    await bed.enter('a');
    const patient = await bed.enter('spare', true);
    patient.abort();
    await settle();
    await bed.release('a');
    expect(bed.got).toEqual(['a', 'spare refused: closing']);
    expect(bed.queue.running).toBe(0);
  });

  it('serves a burst to the end with never more than the limit at once', async () => {
    const queue = new StartQueue(4);
    let atOnce = 0;
    let most = 0;
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 100 }, async (_, number) => {
        const release = await queue.acquire(new AbortController().signal);
        order.push(number);
        atOnce += 1;
        most = Math.max(most, atOnce);
        await settle();
        atOnce -= 1;
        release();
      }),
    );
    expect(most).toBe(4);
    expect(order).toEqual(Array.from({ length: 100 }, (_, number) => number));
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
  });
});
