import { describe, expect, it } from 'vitest';

import { BridgeError, type ErrorCode, describeError, errorTable } from '../../../src/core/errors.ts';
import { Redactor } from '../../../src/core/redact.ts';
import { createLogger } from '../../../src/log/pino.ts';

const secrets = ['hunter22', 'p@ss/word', 'qu"ote\\d', 'line\nbreak', 'umläut✓'];

function makeLog(level = 'debug'): { logger: ReturnType<typeof createLogger>; lines: string[] } {
  const lines: string[] = [];
  const redactor = new Redactor();
  redactor.add(...secrets);
  return { logger: createLogger({ level, redactor, write: (line) => void lines.push(line) }), lines };
}

function parse(line: string | undefined): Record<string, unknown> {
  return JSON.parse(line ?? '') as Record<string, unknown>;
}

describe('a log line', () => {
  it('is one line of JSON with time, level, event and fields', () => {
    const { logger, lines } = makeLog();
    logger.info('session opened', { generation: 1, path: '/a\nb' });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]+\n$/);
    const { time, ...rest } = parse(lines[0]);
    expect(rest).toEqual({ level: 30, generation: 1, path: '/a\nb', msg: 'session opened' });
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it.each([
    ['debug', ['debug', 'info', 'warn', 'error']],
    ['info', ['info', 'warn', 'error']],
    ['warn', ['warn', 'error']],
    ['error', ['error']],
    ['silent', []],
  ])('is written at the level %s for %j', (level, expected) => {
    const { logger, lines } = makeLog(level);
    for (const name of ['debug', 'info', 'warn', 'error'] as const) logger[name](name);
    expect(lines.map((line) => parse(line)['msg'])).toEqual(expected);
  });

  it('has no fields that are not given', () => {
    const { logger, lines } = makeLog();
    logger.warn('generation lost', { pid: undefined });
    expect(Object.keys(parse(lines[0])).toSorted()).toEqual(['level', 'msg', 'time']);
  });
});

describe('a secret in a log line', () => {
  it.each(Object.keys(errorTable))('is removed from an error with the code %s', (code) => {
    const { logger, lines } = makeLog();
    const text = `refused ${secrets.join(', ')}, ${secrets.map(encodeURIComponent).join(', ')} at http://user:pw99@host/`;
    const error = new BridgeError(code as ErrorCode, text, { hint: text });
    logger.error('start failed', {
      code: error.code,
      reason: error.message,
      hint: error.hint,
      line: describeError(error),
    });
    const line = parse(lines[0]);
    expect(line['code']).toBe(code);
    const shown = [line['reason'], line['hint'], line['line']].map(String).join('\n');
    const left = [...secrets, ...secrets.map(encodeURIComponent), 'pw99'].filter((secret) => shown.includes(secret));
    expect(left).toEqual([]);
    expect(shown.match(/\[redacted\]/g)).toHaveLength(11 * 4);
  });

  it.each(secrets)('is removed where it has a quote or another character that JSON escapes: %j', (secret) => {
    const { logger, lines } = makeLog();
    logger.info('child wrote', { line: `<${secret}>` });
    expect(parse(lines[0])['line']).toBe('<[redacted]>');
  });

  it('that is not there keeps its fields as they are', () => {
    const { logger, lines } = makeLog();
    const fields = { path: 'http://host', line: 'mail to a@b', hint: 'https://host:8080', reason: 'c@d' };
    logger.info('child wrote', fields);
    expect(parse(lines[0])).toMatchObject(fields);
  });

  it('is removed from an event, too', () => {
    const { logger, lines } = makeLog();
    logger.info('opened hunter22');
    expect(parse(lines[0])['msg']).toBe('opened [redacted]');
  });
});
