import { expect, it } from 'vitest';

import { HandedLogger, type LogFields, type Logger, withFields } from '../../../src/core/logger.ts';

it('adds the same fields to every event of every level, and gives way to what is told', () => {
  const seen: [string, string, LogFields | undefined][] = [];
  const at =
    (level: string) =>
    (event: string, fields?: LogFields): void =>
      void seen.push([level, event, fields]);
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const added = { sessionId: 'abc', pid: 1 };
  const own = withFields(logger, added);
  own.debug('a happened');
  own.info('b happened', { count: 2 });
  own.warn('c happened', { pid: 3 });
  own.error('d happened', { sessionId: 'other' });
  expect(seen).toEqual([
    ['debug', 'a happened', { sessionId: 'abc', pid: 1 }],
    ['info', 'b happened', { sessionId: 'abc', pid: 1, count: 2 }],
    ['warn', 'c happened', { sessionId: 'abc', pid: 3 }],
    ['error', 'd happened', { sessionId: 'other', pid: 1 }],
  ]);
  expect(added).toEqual({ sessionId: 'abc', pid: 1 });
});

it('can hand its events to another logger from some moment on', () => {
  const seen: string[] = [];
  const to = (name: string): Logger => {
    const at =
      (level: string) =>
      (event: string, fields?: LogFields): void =>
        void seen.push(`${name} ${level} ${event} ${fields?.count}`);
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  };
  const logger = new HandedLogger(to('one'));
  for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]('a', { count: 1 });
  logger.hand(to('two'));
  for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]('b', { count: 2 });
  expect(seen).toEqual([
    ...['debug', 'info', 'warn', 'error'].map((level) => `one ${level} a 1`),
    ...['debug', 'info', 'warn', 'error'].map((level) => `two ${level} b 2`),
  ]);
});

it('cleans the texts of what is told, and nothing else', () => {
  const seen: (LogFields | undefined)[] = [];
  const at = (_event: string, fields?: LogFields): void => void seen.push(fields);
  const own = withFields({ debug: at, info: at, warn: at, error: at }, { sessionId: 'secret' }, (text) =>
    text.replace('secret', 'masked'),
  );
  own.info('a secret happened', { reason: 'a secret', count: 1, code: null });
  own.info('b happened');
  expect(seen).toEqual([{ sessionId: 'secret', reason: 'a masked', count: 1, code: null }, { sessionId: 'secret' }]);
});
