import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Rejections } from '../../../src/cdp/rejections.ts';
import type { LogFields, Logger } from '../../../src/core/logger.ts';

const lines: (LogFields | undefined)[] = [];
const counted: string[] = [];

function make(): Rejections {
  const unused = (): void => undefined;
  const warn = (_event: string, fields?: LogFields): void => void lines.push(fields);
  const logger: Logger = { debug: unused, info: unused, error: unused, warn };
  return new Rejections(logger, (kind) => void counted.push(kind));
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  lines.length = 0;
  counted.length = 0;
});

it('the first rejection of a kind is told at once, and those after it once a minute by their number', () => {
  const rejections = make();
  for (let count = 0; count < 10_000; count += 1) rejections.note('not_found');
  rejections.note('host_refused');
  expect(counted).toHaveLength(10_001);
  expect(lines).toEqual([{ code: 'not_found' }, { code: 'host_refused' }]);
  vi.advanceTimersByTime(59_999);
  expect(lines).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(lines.slice(2)).toEqual([{ code: 'not_found', count: 9999, durationMs: 60_000 }]);
});

it('an attack of an hour is sixty-one lines', () => {
  const rejections = make();
  for (let second = 0; second < 3600; second += 1) {
    for (let count = 0; count < 10; count += 1) rejections.note('not_found');
    vi.advanceTimersByTime(1000);
  }
  expect(lines).toHaveLength(61);
  const told = lines.reduce((sum, line) => sum + (line?.count ?? 1), 0);
  expect(told).toBe(36_000);
});

it('after a quiet minute a rejection is news again, and nothing waits meanwhile', () => {
  const rejections = make();
  rejections.note('not_found');
  vi.advanceTimersByTime(60_000);
  expect([lines.length, vi.getTimerCount()]).toEqual([1, 0]);
  rejections.note('not_found');
  expect(lines).toEqual([{ code: 'not_found' }, { code: 'not_found' }]);
});

it('one kind that goes on does not bring back another one that was told', () => {
  const rejections = make();
  rejections.note('host_refused');
  rejections.note('not_found');
  rejections.note('not_found');
  vi.advanceTimersByTime(60_000);
  rejections.note('host_refused');
  expect(lines).toHaveLength(3);
  vi.advanceTimersByTime(60_000);
  expect(lines.at(-1)).toEqual({ code: 'host_refused', count: 1, durationMs: 60_000 });
});
