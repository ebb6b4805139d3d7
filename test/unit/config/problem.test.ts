import { describe, expect, it } from 'vitest';
import { hideCredentials, showValue, suggestion } from '../../../src/config/problem.ts';

describe('suggestion', () => {
  it.each([
    ['headles', '; did you mean headless?'],
    ['HEADLESS', '; did you mean headless?'],
    ['no-head-less', '; did you mean headless?'],
    ['isolatd', '; did you mean isolated?'],
    ['x', ''],
    ['', ''],
    ['something-else', ''],
  ])('for %j is %j', (given, expected) => {
    expect(suggestion(given, ['headless', 'isolated'])).toBe(expected);
  });
});

describe('showValue', () => {
  it.each([
    ['', 'an empty value'],
    ['a\nb\u001b[0m', '"a\\nb\\u001b[0m"'],
    [{ proxy: 'http://u:pw@h' }, '{"proxy":"http://[redacted]@h"}'],
    ['x'.repeat(58), `"${'x'.repeat(58)}"`],
    ['x'.repeat(59), `"${'x'.repeat(59)}...`],
  ])('of %j is one short line', (value, shown) => {
    expect(showValue(value)).toBe(shown);
  });
});

describe('hideCredentials', () => {
  it.each([
    ['http://u:p@ss/w@h:1/x', 'http://[redacted]@h:1/x'],
    ['--proxy-server=socks5://u:p@h', '--proxy-server=socks5://[redacted]@h'],
    ['--proxy-server=u:p@h', '--proxy-server=[redacted]@h'],
    ['/home/someone/profile', '/home/someone/profile'],
    ['/srv/node_modules/@playwright/mcp/cli.js', '/srv/node_modules/@playwright/mcp/cli.js'],
    ['--load-extension=/srv/@me/one', '--load-extension=/srv/@me/one'],
  ])('turns %s into %s', (text, hidden) => {
    expect(hideCredentials(text)).toBe(hidden);
  });
});
