import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { watchIdle } from '../../../src/cdp/idle.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

interface Use {
  count: number;
  isRunning: boolean;
  messages: number;
}

function watch(idleTtlMs: number): { readonly use: Use; readonly idle: () => number; readonly close: () => void } {
  const use = { count: 0, isRunning: false, messages: 0 };
  let told = 0;
  const watched = watchIdle({
    idleTtlMs,
    calls: () => use,
    door: {
      get messages() {
        return use.messages;
      },
    },
    onIdle: () => (told += 1),
  });
  return { use, idle: () => told, close: () => watched.close() };
}

it('a browser that nobody uses is idle after the limit, and not before', () => {
  const { idle, close } = watch(1000);
  vi.advanceTimersByTime(999);
  expect(idle()).toBe(0);
  vi.advanceTimersByTime(1);
  expect(idle()).toBe(1);
  close();
});

it.each([
  ['calls over MCP', (use: Use) => (use.count += 1)],
  ['messages over CDP', (use: Use) => (use.messages += 1)],
])('%s keep it', (_what, act) => {
  const { use, idle, close } = watch(1000);
  for (let round = 0; round < 10; round += 1) {
    vi.advanceTimersByTime(700);
    act(use);
  }
  expect(idle()).toBe(0);
  vi.advanceTimersByTime(1500);
  expect(idle()).toBeGreaterThan(0);
  close();
});

it('a call that runs keeps it however long it takes', () => {
  const { use, idle, close } = watch(1000);
  use.isRunning = true;
  vi.advanceTimersByTime(100_000);
  expect(idle()).toBe(0);
  close();
});

it('without a limit nothing is watched, and after its end neither', () => {
  const never = watch(0);
  const { idle, close } = watch(1000);
  close();
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(1_000_000);
  expect([never.idle(), idle()]).toEqual([0, 0]);
});
