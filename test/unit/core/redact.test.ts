import { describe, expect, it } from 'vitest';

import { Redactor } from '../../../src/core/redact.ts';

function clean(text: string, ...secrets: (string | undefined)[]): string {
  const redactor = new Redactor();
  redactor.add(...secrets);
  return redactor.clean(text);
}

describe('Redactor', () => {
  it('masks every place of every known value', () => {
    expect(clean('hunter22, then hunter22 and s3cr3t', 'hunter22', 's3cr3t')).toBe(
      '[redacted], then [redacted] and [redacted]',
    );
  });

  it('masks a value that is URL-encoded', () => {
    expect(clean('proxy?password=p%40ss%2Fword%20', 'p@ss/word ')).toBe('proxy?password=[redacted]');
  });

  it('takes a value as it is written and not as a pattern', () => {
    expect(clean('a.c* abc $& axc', 'a.c*')).toBe('[redacted] abc $& axc');
    expect(clean('$&$1', '$&$1')).toBe('[redacted]');
  });

  it('masks values of four characters and none that are shorter', () => {
    expect(clean('true tru', 'tru')).toBe('true tru');
    expect(clean('true tru', 'true')).toBe('[redacted] tru');
  });

  it('ignores what is not set', () => {
    expect(clean('abc', undefined, '')).toBe('abc');
  });

  it.each([
    ['http://user:pass@host:8080/x', 'http://[redacted]@host:8080/x'],
    ['socks5://u:p%40@h', 'socks5://[redacted]@h'],
    ['http://:pass@host', 'http://[redacted]@host'],
    ['two: http://a:b@c, https://d:e@f', 'two: http://[redacted]@c, https://[redacted]@f'],
    ['https://token99@host/x', 'https://[redacted]@host/x'],
    ['{"a":"http://host","b":"x@y"}', '{"a":"http://host","b":"x@y"}'],
    ['http://host:8080/path@x', 'http://host:8080/path@x'],
    ['http://host/a:b@c', 'http://host/a:b@c'],
    ['mail me at a:b@c', 'mail me at a:b@c'],
  ])('masks the credentials of a URL and nothing else: %s', (text, expected) => {
    expect(clean(text)).toBe(expected);
  });

  it('masks the whole of a value that begins with another one', () => {
    expect(clean('pass pass-word', 'pass', 'pass-word')).toBe('[redacted] [redacted]');
  });

  it('knows what another one knows, also what that one learns later, and keeps its own to itself', () => {
    const base = new Redactor();
    const own = new Redactor(base);
    own.add('own-secret');
    base.add('base-secret');
    expect(own.clean('own-secret base-secret http://a:b@c')).toBe('[redacted] [redacted] http://[redacted]@c');
    expect(base.clean('own-secret base-secret')).toBe('own-secret [redacted]');
    expect(own.clean('')).toBe('');
  });

  it('takes a value with a lone surrogate, which no URL can hold', () => {
    expect(clean('x abcdefgh\ud83d y', 'abcdefgh\ud83d')).toBe('x [redacted] y');
  });
});
