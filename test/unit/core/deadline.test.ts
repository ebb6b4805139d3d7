import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { pause, timedOut, within } from '../../../src/core/deadline.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

describe('within', () => {
  it('gives the value of a promise that is in time, and leaves no timer', async () => {
    expect(await within(Promise.resolve(5), 100)).toBe(5);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('passes a failure on, and leaves no timer', async () => {
    await expect(within(Promise.reject(new Error('no')), 100)).rejects.toThrow('no');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is over at the limit and not before', async () => {
    let result: unknown = 'pending';
    void within(never(), 100).then((value) => (result = value));
    await vi.advanceTimersByTimeAsync(99);
    expect(result).toBe('pending');
    await vi.advanceTimersByTimeAsync(1);
    expect(result).toBe(timedOut);
  });

  it('does not let a failure after the limit go unhandled', async () => {
    let fail = (_failure: Error): void => undefined;
    const late = new Promise<never>((_resolve, reject) => {
      fail = reject;
    });
    const result = within(late, 100);
    await vi.advanceTimersByTimeAsync(100);
    fail(new Error('late'));
    expect(await result).toBe(timedOut);
  });
});

describe('pause', () => {
  it('ends after its time and not before', async () => {
    let isOver = false;
    void pause(50).then(() => (isOver = true));
    await vi.advanceTimersByTimeAsync(49);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
  });

  it('ends at once when its signal is aborted, and leaves no timer', async () => {
    const controller = new AbortController();
    const waiting = pause(50, controller.signal);
    expect(vi.getTimerCount()).toBe(1);
    controller.abort();
    await waiting;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does not begin with a signal that is aborted already', async () => {
    await pause(50, AbortSignal.abort());
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves no listener on a signal that outlives it', async () => {
    const { signal } = new AbortController();
    const remove = vi.spyOn(signal, 'removeEventListener');
    const waiting = pause(50, signal);
    await vi.advanceTimersByTimeAsync(50);
    await waiting;
    expect(remove).toHaveBeenCalledOnce();
  });
});
