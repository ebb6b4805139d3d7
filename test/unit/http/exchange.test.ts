import { expect, it } from 'vitest';

import { Exchange, type Question } from '../../../src/http/exchange.ts';
import type { SseStream } from '../../../src/http/sse-stream.ts';

const ask = (idText: string, method = 'tools/call', progressToken?: string | number): Question => ({
  idText,
  method,
  progressToken,
});

it('is over with the last of its requests, in whatever order and spelling they are answered', () => {
  const exchange = new Exchange(7, [ask('1'), ask('"1"'), ask('2')]);
  expect([exchange.settle('n1'), exchange.settle('n2')]).toEqual([false, false]);
  expect(exchange.settle('s1')).toBe(true);
});

it('is not over with an answer to somebody else, or with the same one twice', () => {
  const exchange = new Exchange(1, [ask('1'), ask('2')]);
  expect([exchange.settle('n1'), exchange.settle('n1'), exchange.settle('n3')]).toEqual([false, false, false]);
});

it('knows what each request asked for', () => {
  const exchange = new Exchange(1, [ask('1', 'ping'), ask('"1"', 'tools/list')]);
  expect(['n1', 's1', 'n2'].map((key) => exchange.methodOf(key))).toEqual(['ping', 'tools/list', '']);
});

it('knows a progress token until its request is answered, and tells a number from a text', () => {
  const exchange = new Exchange(1, [ask('1', 'tools/call', 5), ask('2', 'tools/call', 'five'), ask('3')]);
  expect([5, 'five', '5', undefined, null, {}].map((token) => exchange.hasToken(token))).toEqual([
    true,
    true,
    false,
    true,
    false,
    false,
  ]);
  exchange.settle('n1');
  expect([exchange.hasToken(5), exchange.hasToken('five')]).toEqual([false, true]);
});

it('is open while its stream is', () => {
  const exchange = new Exchange(1, [ask('1')]);
  expect(exchange.isOpen).toBe(false);
  exchange.stream = { isOpen: true } as SseStream;
  expect(exchange.isOpen).toBe(true);
  exchange.stream = { isOpen: false } as SseStream;
  expect(exchange.isOpen).toBe(false);
});

it('of initialize is told from the others', () => {
  const kinds = [[ask('1', 'initialize')], [ask('1')], []].map((questions) => new Exchange(1, questions).isInitialize);
  expect(kinds).toEqual([true, false, false]);
});
