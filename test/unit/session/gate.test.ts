import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Envelope } from '../../../src/core/envelope.ts';
import { readEnvelope } from '../../../src/core/envelope.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import type { Link } from '../../../src/relay/link.ts';
import type { Ticket } from '../../../src/relay/pending.ts';
import { Gate } from '../../../src/session/gate.ts';
import type { Generation } from '../../../src/session/generation.ts';

const limits = { startTimeoutMs: 45_000, restartTimeoutMs: 60_000, restartMax: 3 };
const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

interface Start {
  readonly number: number;
  readonly signal: AbortSignal;
  /** The start succeeds. */
  succeed(): Promise<Generation>;
  fail(failure: unknown): Promise<void>;
}

/** What happened, in order: `1>call`, `1>notification`, `failed call: code`, `ready 1`, `closed 1`. */
class Bed {
  readonly events: string[] = [];
  readonly starts: Start[] = [];
  readonly gate: Gate;
  /** The generation that a link belongs to. */
  readonly #numbers = new Map<Link, number>();
  onReady: (generation: Generation) => void = () => undefined;
  /** Called with each forwarded call. */
  onForward: (name: string) => void = () => undefined;

  constructor(some: Partial<typeof limits> = {}) {
    this.gate = new Gate({
      limits: { ...limits, ...some },
      logger: silent,
      startGeneration: (number, signal) => this.#start(number, signal),
      onReady: (generation) => {
        this.events.push(`ready ${generation.number}`);
        this.onReady(generation);
      },
      describeWait: () => 'downloading 43 %',
    });
  }

  enter(name: string): Ticket {
    const ticket: Ticket = {
      forward: (link) => {
        this.events.push(`${this.#numbers.get(link) ?? '?'}>${name}`);
        this.onForward(name);
      },
      fail: (error) => void this.events.push(`failed ${name}: ${error.code}`),
    };
    this.gate.enter(ticket);
    return ticket;
  }

  pass(name: string): void {
    this.gate.pass(notification(name));
  }

  /** The newest start, once the gate has asked for it. */
  async start(afterMs = 0): Promise<Start> {
    await vi.advanceTimersByTimeAsync(afterMs);
    const start = this.starts.at(-1);
    if (start === undefined) throw new Error('no start was asked for');
    return start;
  }

  takeEvents(): string[] {
    return this.events.splice(0);
  }

  #start(number: number, signal: AbortSignal): Promise<Generation> {
    return new Promise((resolve, reject) => {
      this.starts.push({
        number,
        signal,
        succeed: async () => {
          const generation = this.#makeGeneration(number);
          resolve(generation);
          await vi.advanceTimersByTimeAsync(0);
          return generation;
        },
        fail: async (failure) => {
          reject(failure instanceof Error ? failure : new Error(String(failure)));
          await vi.advanceTimersByTimeAsync(0);
        },
      });
    });
  }

  #makeGeneration(number: number): Generation {
    const link = {
      forward: ({ method }: Envelope) => void this.events.push(`${number}>${method ?? ''}`),
    } as unknown as Link;
    this.#numbers.set(link, number);
    const close = (): Promise<void> => {
      this.events.push(`closed ${number}`);
      return Promise.resolve();
    };
    return { number, link, state: 'ready', child: { pid: 1000 + number }, close } as unknown as Generation;
  }
}

function notification(method: string): Envelope {
  const message = readEnvelope(Buffer.from(`{"method":"${method}"}`));
  if ('bad' in message) throw new Error(message.bad);
  return message;
}

const lost = (): BridgeError => new BridgeError('child_start_failed', 'It crashed.', { hint: 'Look.' });

/** A bed that has had so many failed starts one after the other. */
async function failStarts(bed: Bed, count: number, failure = lost): Promise<void> {
  for (let round = 0; round < count; round += 1) {
    bed.enter('x');
    await (await bed.start(2000)).fail(failure());
  }
  bed.takeEvents();
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a call at the gate', () => {
  it('goes on at once where a child is ready', async () => {
    const bed = new Bed();
    bed.enter('a');
    await (await bed.start()).succeed();
    bed.takeEvents();
    bed.enter('b');
    bed.pass('n');
    expect(bed.events).toEqual(['1>b', '1>n']);
    expect(bed.starts).toHaveLength(1);
  });

  it('shares one start with all others that wait, and each goes once, in order', async () => {
    const bed = new Bed();
    const names = Array.from({ length: 10 }, (_, index) => `c${index}`);
    for (const name of names) bed.enter(name);
    expect(bed.events).toEqual([]);
    await (await bed.start()).succeed();
    expect(bed.starts.map(({ number }) => number)).toEqual([1]);
    expect(bed.events).toEqual(['ready 1', ...names.map((name) => `1>${name}`)]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('keeps its place among the notifications', async () => {
    const bed = new Bed();
    bed.enter('a');
    bed.pass('n1');
    bed.enter('b');
    bed.pass('n2');
    await (await bed.start()).succeed();
    expect(bed.events).toEqual(['ready 1', '1>a', '1>n1', '1>b', '1>n2']);
  });

  it('that is withdrawn goes nowhere', async () => {
    const bed = new Bed();
    const ticket = bed.enter('a');
    bed.enter('b');
    bed.gate.withdraw(ticket);
    bed.gate.withdraw(ticket);
    await (await bed.start()).succeed();
    expect(bed.events).toEqual(['ready 1', '1>b']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('may come in while those before it are let through', async () => {
    const bed = new Bed();
    bed.onForward = (name) => {
      if (name === 'a') bed.enter('late');
    };
    bed.enter('a');
    bed.enter('b');
    await (await bed.start()).succeed();
    expect(bed.events.toSorted()).toEqual(['1>a', '1>b', '1>late', 'ready 1']);
  });
});

describe('notifications', () => {
  it('are dropped while no child is there or being started', async () => {
    const bed = new Bed();
    bed.pass('n');
    bed.enter('a');
    await (await bed.start()).succeed();
    expect(bed.events).toEqual(['ready 1', '1>a']);
  });

  it('are kept up to a thousand entries and no more', async () => {
    const bed = new Bed();
    bed.enter('a');
    for (let count = 0; count < 1000; count += 1) bed.pass(`n${count}`);
    await (await bed.start()).succeed();
    // The call is an entry as well.
    expect(bed.events).toHaveLength(1001);
    expect(bed.events.at(-1)).toBe('1>n998');
  });

  it('of a start that failed do not reach the next child', async () => {
    const bed = new Bed();
    bed.enter('a');
    bed.pass('n');
    await (await bed.start()).fail(lost());
    bed.enter('b');
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['failed a: child_start_failed', 'ready 1', '1>b']);
  });
});

describe('a failed start', () => {
  it('gives every waiting call the same reason, and the next call another try', async () => {
    const bed = new Bed();
    for (const name of ['a', 'b', 'c']) bed.enter(name);
    await (await bed.start()).fail(lost());
    expect(bed.takeEvents()).toEqual(['a', 'b', 'c'].map((name) => `failed ${name}: child_start_failed`));
    expect(bed.gate.lastFailure).toMatchObject({ code: 'child_start_failed', message: 'It crashed.' });
    expect(vi.getTimerCount()).toBe(0);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(bed.starts).toHaveLength(1);
    bed.enter('d');
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['ready 1', '1>d']);
    expect(bed.gate.lastFailure).toBeUndefined();
  });

  it('of another kind is called internal', async () => {
    const bed = new Bed();
    bed.enter('a');
    await (await bed.start()).fail(new TypeError('no'));
    expect(bed.events).toEqual(['failed a: internal']);
  });

  it('takes a call that comes in while the others are told', async () => {
    const bed = new Bed();
    let isTold = false;
    bed.gate.enter({
      forward: () => undefined,
      fail: () => {
        if (!isTold) bed.enter('again');
        isTold = true;
      },
    });
    await (await bed.start()).fail(lost());
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['ready 1', '1>again']);
  });

  it('puts the next one off for longer and longer', async () => {
    const bed = new Bed({ restartMax: 100 });
    for (const [index, ms] of [0, 250, 500, 1000, 2000, 2000, 2000].entries()) {
      bed.enter('x');
      if (ms > 0) await vi.advanceTimersByTimeAsync(ms - 1);
      expect(bed.starts).toHaveLength(index);
      await (await bed.start(1)).fail(lost());
      expect(bed.starts).toHaveLength(index + 1);
    }
  });

  it('a minute ago puts nothing off', async () => {
    const bed = new Bed();
    await failStarts(bed, 2);
    await vi.advanceTimersByTimeAsync(60_000);
    bed.enter('x');
    await bed.start();
    expect(bed.starts).toHaveLength(3);
  });
});

describe('the storm guard', () => {
  it('lets a start through at one failure less than the limit', async () => {
    const bed = new Bed();
    await failStarts(bed, limits.restartMax - 1);
    bed.enter('x');
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['ready 1', '1>x']);
  });

  it('refuses to start at the limit, with the last reason and when it goes on', async () => {
    const bed = new Bed();
    await failStarts(bed, limits.restartMax);
    let refusal: BridgeError | undefined;
    bed.gate.enter({ forward: () => undefined, fail: (error) => (refusal = error) });
    await vi.advanceTimersByTimeAsync(0);
    expect(bed.starts).toHaveLength(limits.restartMax);
    // The first of three failures 2 s apart is 4 s old.
    expect(refusal).toMatchObject({ code: 'restart_limited', hint: 'Look.', data: { retryAfterSeconds: 56 } });
    expect(refusal?.message).toMatch(/^3 starts failed within a minute; the next one is tried in 56 s.*It crashed\.$/);
    expect(bed.gate.lastFailure?.code).toBe('child_start_failed');
  });

  it('goes on when the first failure is a minute old, and not before', async () => {
    const bed = new Bed();
    await failStarts(bed, limits.restartMax);
    await vi.advanceTimersByTimeAsync(55_999);
    bed.enter('early');
    await vi.advanceTimersByTimeAsync(0);
    expect(bed.takeEvents()).toEqual(['failed early: restart_limited']);
    await vi.advanceTimersByTimeAsync(1);
    bed.enter('x');
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['ready 1', '1>x']);
  });

  it('does not count its own refusals', async () => {
    const bed = new Bed();
    await failStarts(bed, limits.restartMax);
    for (let round = 0; round < 5; round += 1) {
      bed.enter('x');
      await vi.advanceTimersByTimeAsync(10_000);
    }
    await vi.advanceTimersByTimeAsync(6000);
    bed.takeEvents();
    bed.enter('y');
    await (await bed.start(2000)).succeed();
    expect(bed.events).toEqual(['ready 1', '1>y']);
  });

  it('does not count settings that are wrong: their text stays', async () => {
    const bed = new Bed();
    await failStarts(bed, 10, () => new BridgeError('config', 'Bad setting.'));
    bed.enter('x');
    await (await bed.start()).fail(new BridgeError('config', 'Bad setting.'));
    expect(bed.starts).toHaveLength(11);
    expect(bed.events).toEqual(['failed x: config']);
  });
});

describe('the limit of a wait', () => {
  function waitFor(bed: Bed): { readonly error: () => BridgeError | undefined } {
    let error: BridgeError | undefined;
    bed.gate.enter({ forward: () => undefined, fail: (failure) => (error = failure) });
    return { error: () => error };
  }

  it('for the first child is the start limit, and its text says what goes on', async () => {
    const bed = new Bed();
    const wait = waitFor(bed);
    await vi.advanceTimersByTimeAsync(44_999);
    expect(wait.error()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(wait.error()).toMatchObject({
      code: 'start_pending',
      message: 'The browser is not ready yet after 45000 ms: downloading 43 %.',
      hint: expect.stringContaining('Try the call again'),
    });
  });

  it('ends the call and not the start', async () => {
    const bed = new Bed();
    bed.enter('a');
    const start = await bed.start(45_000);
    expect(bed.takeEvents()).toEqual(['failed a: start_pending']);
    expect(start.signal.aborted).toBe(false);
    bed.enter('b');
    await start.succeed();
    expect(bed.starts).toHaveLength(1);
    expect(bed.events).toEqual(['ready 1', '1>b']);
  });

  it.each([
    ['a second over its own limit, so that its own failure is told', 30_000, 31_000],
    ['not over the limit of a start, so that the client does not give up first', 60_000, 45_000],
  ])('for a replacement is %s', async (_why, restartTimeoutMs, expected) => {
    const bed = new Bed({ restartTimeoutMs });
    bed.enter('a');
    bed.gate.lose(await (await bed.start()).succeed());
    const wait = waitFor(bed);
    await vi.advanceTimersByTimeAsync(expected - 1);
    expect(wait.error()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(wait.error()?.code).toBe('start_pending');
  });

  it('counts for each call by itself', async () => {
    const bed = new Bed();
    bed.enter('a');
    await vi.advanceTimersByTimeAsync(10_000);
    bed.enter('b');
    await vi.advanceTimersByTimeAsync(35_000);
    expect(bed.events).toEqual(['failed a: start_pending']);
  });
});

describe('a lost child', () => {
  it('is replaced at the next call and not before, under the next number', async () => {
    const bed = new Bed();
    bed.enter('a');
    const first = await (await bed.start()).succeed();
    bed.gate.lose(first);
    expect(bed.gate.link).toBeUndefined();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(bed.starts).toHaveLength(1);
    bed.enter('b');
    bed.enter('c');
    await (await bed.start()).succeed();
    expect(bed.starts.map(({ number }) => number)).toEqual([1, 2]);
    expect(bed.events.slice(2)).toEqual(['ready 2', '2>b', '2>c']);
  });

  it('of an earlier generation does not make the present one go', async () => {
    const bed = new Bed();
    bed.enter('a');
    const first = await (await bed.start()).succeed();
    bed.gate.lose(first);
    bed.enter('b');
    const second = await (await bed.start()).succeed();
    bed.gate.lose(first);
    expect(bed.gate.link).toBe(second.link);
  });

  it('while the waiting calls are let through leaves the rest to its replacement', async () => {
    const bed = new Bed();
    let current: Generation | undefined;
    bed.onReady = (generation) => (current = generation);
    bed.onForward = (name) => {
      if (name === 'a' && current !== undefined) bed.gate.lose(current);
    };
    for (const name of ['a', 'b', 'c']) bed.enter(name);
    await (await bed.start()).succeed();
    expect(bed.takeEvents()).toEqual(['ready 1', '1>a']);
    await (await bed.start()).succeed();
    expect(bed.events).toEqual(['ready 2', '2>b', '2>c']);
    expect(vi.getTimerCount()).toBe(0);
  });
});
