import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { watchStop } from '../../../src/cli/stop.ts';
import type { BridgeError } from '../../../src/core/errors.ts';

const events = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];
let before: Map<string, unknown[]>;

beforeEach(() => {
  vi.useFakeTimers();
  before = new Map(events.map((event) => [event, process.rawListeners(event)]));
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const [event, kept] of before) {
    const added = process.rawListeners(event).filter((listener) => !kept.includes(listener));
    for (const listener of added) process.removeListener(event, listener as () => void);
  }
});

interface Bed {
  readonly watch: ReturnType<typeof watchStop>;
  readonly forced: number[];
  readonly failures: BridgeError[];
  /** Calls what was registered for an event, and nobody else's listeners. */
  readonly emit: (event: string, ...values: unknown[]) => void;
}

function makeBed(reload?: () => void): Bed {
  const [forced, failures]: [number[], BridgeError[]] = [[], []];
  const watch = watchStop(
    (code) => void forced.push(code),
    (failure) => void failures.push(failure),
    reload,
  );
  const emit = (event: string, ...values: unknown[]): void => {
    const added = process.rawListeners(event).filter((listener) => before.get(event)?.includes(listener) === false);
    for (const listener of added) (listener as (...args: unknown[]) => void)(...values);
  };
  return { watch, forced, failures, emit };
}

describe('watchStop', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ])('begins the ordered end with the first %s and forces it with the second as exit code %i', (signal, code) => {
    const { watch, forced, emit } = makeBed();
    emit(signal);
    expect(watch.signal.aborted).toBe(true);
    expect(watch.signal.reason).toBe(signal);
    vi.advanceTimersByTime(301);
    expect(forced).toEqual([]);
    emit(signal);
    expect(forced).toEqual([code]);
    expect(watch.signal.reason).toBe(signal);
  });

  it('takes what comes within 300 ms for the same signal, as from a terminal and from what passes it on', () => {
    const { forced, emit } = makeBed();
    emit('SIGINT');
    vi.advanceTimersByTime(300);
    emit('SIGINT');
    expect(forced).toEqual([]);
    vi.advanceTimersByTime(1);
    emit('SIGTERM');
    expect(forced).toEqual([143]);
  });

  it('does not take the first signal after the end of stdin for a second one', () => {
    const { watch, forced, emit } = makeBed();
    watch.stop('end of standard input');
    watch.stop('another reason');
    expect(watch.signal.reason).toBe('end of standard input');
    vi.advanceTimersByTime(2000);
    emit('SIGTERM');
    expect(forced).toEqual([]);
    vi.advanceTimersByTime(2000);
    emit('SIGINT');
    expect(forced).toEqual([130]);
  });

  it.each([
    ['uncaughtException', new Error('boom')],
    ['unhandledRejection', 'boom'],
  ])('reports an %s and begins the ordered end', (event, thrown) => {
    const { watch, failures, emit } = makeBed();
    emit(event, thrown);
    expect(failures).toMatchObject([{ code: 'internal', message: 'boom', cause: thrown }]);
    expect(watch.signal.reason).toBe('an internal failure');
  });

  it('notices within three seconds that its parent is another one', () => {
    const parent = vi.spyOn(process, 'ppid', 'get').mockReturnValue(500);
    const { watch } = makeBed();
    vi.advanceTimersByTime(6000);
    expect(watch.signal.aborted).toBe(false);
    parent.mockReturnValue(1);
    vi.advanceTimersByTime(3000);
    expect(watch.signal.reason).toBe('the parent process ended');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does not watch a parent that cannot end, as in a container', () => {
    vi.spyOn(process, 'ppid', 'get').mockReturnValue(1);
    makeBed();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('watchStop for a service', () => {
  it('takes SIGHUP for the wish to reload, each time, and the other signals for the end', () => {
    let reloads = 0;
    const { watch, forced, emit } = makeBed(() => (reloads += 1));
    emit('SIGHUP');
    vi.advanceTimersByTime(1000);
    emit('SIGHUP');
    expect([reloads, watch.signal.aborted, forced]).toEqual([2, false, []]);
    emit('SIGTERM');
    expect(watch.signal.reason).toBe('SIGTERM');
    vi.advanceTimersByTime(1000);
    emit('SIGHUP');
    expect([reloads, forced]).toEqual([3, []]);
    emit('SIGINT');
    expect(forced).toEqual([130]);
  });

  it('outlives its parent', () => {
    vi.spyOn(process, 'ppid', 'get').mockReturnValue(500);
    makeBed(() => undefined);
    expect(vi.getTimerCount()).toBe(0);
  });
});
