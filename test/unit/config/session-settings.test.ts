import { describe, expect, it } from 'vitest';
import { sessionSettingNames } from '../../../src/config/http-session-options.ts';
import { readSessionSettings } from '../../../src/config/session-settings.ts';
import { BridgeError } from '../../../src/core/errors.ts';

const own = 'io.github.cloakbrowser-mcp/session';
const alias = 'io.github.swimmwatch/cloakbrowser-mcp';

function refusalOf(meta: unknown, allowed: readonly string[] = sessionSettingNames): string {
  try {
    readSessionSettings(meta, allowed);
  } catch (error) {
    if (error instanceof BridgeError && error.code === 'session_setting') return error.message;
    throw error;
  }
  return 'accepted';
}

const cookie = { name: 'a', value: 'b', domain: 'x.org', path: '/', expires: -1, httpOnly: true, sameSite: 'Lax' };
const state = { cookies: [cookie], origins: [{ origin: 'https://x.org', localStorage: [{ name: 'a', value: 'b' }] }] };

const good: Record<(typeof sessionSettingNames)[number], readonly unknown[]> = {
  headless: [true, false],
  viewport: [{ width: 1, height: 16_384 }, { width: 16_384, height: 1 }, null],
  locale: ['de', 'de-CH', 'zh-Hant-TW'],
  timezoneId: ['Europe/Zurich', 'UTC', 'America/Argentina/Buenos_Aires'],
  userAgent: ['x', 'Mozilla/5.0 (X11; Linux) "a" é'.replace('é', 'e'), 'x'.repeat(1024)],
  extraHTTPHeaders: [{}, { 'X-One': 'a b', accept: '' }, { 'x-two': 'ä' }],
  storageState: [{}, { cookies: [] }, { origins: [] }, state, { cookies: [{ ...cookie, partitionKey: 'x' }] }],
  cdp: [true, false],
};

const expectation = {
  headless: 'must be true or false',
  viewport: 'must be an object of width and height, whole numbers from 1 to 16384, or null',
  locale: 'must be a language tag such as "de-CH"',
  timezoneId: 'must be the name of a time zone such as "Europe/Zurich"',
  userAgent: 'must be a text of 1 to 1024 printable ASCII characters',
  extraHTTPHeaders:
    'must be an object of at most 100 header names and their values, each a text in one line; the value is not shown',
  storageState:
    'must be the content of a storage state and no path: an object of cookies and origins, at most 2000 entries in all; the value is not shown',
  cdp: 'must be true or false',
} as const;

const bad: Record<keyof typeof good, readonly unknown[]> = {
  headless: ['true', 1, null, {}],
  viewport: [
    '1x1',
    { width: 0, height: 1 },
    { width: 1, height: 16_385 },
    { width: 1.5, height: 1 },
    { width: 1 },
    { width: 1, height: 1, scale: 2 },
    [1, 1],
  ],
  locale: ['', 'de_CH', 'x', 7, null, 'de CH'],
  timezoneId: ['', 'Mars/Base', '+01:00', 'Europe/', null],
  userAgent: ['', ' ', 'a\nb', 'ä', 'x'.repeat(1025), 3],
  extraHTTPHeaders: ['x', null, [], { 'a b': 'x' }, { '': 'x' }, { a: 1 }, { a: 'b\r\nc: d' }, { a: 'b\0' }],
  storageState: [
    '/etc/passwd',
    null,
    [],
    { cookies: {} },
    { cookies: [{ name: 'a' }] },
    { cookies: [{ ...cookie, expires: 'never' }] },
    { cookies: [{ ...cookie, sameSite: 'lax' }] },
    { origins: [{}] },
    { origins: [{ origin: 'x', localStorage: [{ name: 'a' }] }] },
    { path: '/etc/passwd' },
  ],
  cdp: ['true', 1, null, {}],
};

describe('a session setting', () => {
  it.each(sessionSettingNames)('%s is taken as it is given', (name) => {
    for (const value of good[name])
      expect(readSessionSettings({ [own]: { [name]: value } }, [name])).toEqual({ [name]: value });
  });

  it.each(sessionSettingNames)('%s that is wrong is refused by its name', (name) => {
    for (const value of bad[name])
      expect([value, refusalOf({ [own]: { [name]: value } })]).toEqual([
        value,
        expect.stringContaining(`${own}.${name}: ${expectation[name]}`),
      ]);
  });

  it.each(sessionSettingNames)('%s that the operator does not allow is refused, whatever its value', (name) => {
    const allowed = sessionSettingNames.filter((other) => other !== name);
    for (const value of [...good[name], ...bad[name]])
      expect(refusalOf({ [own]: { [name]: value } }, allowed)).toBe(
        `${own}.${name}: this server does not let clients set it (--session-settings of the server names what it does)`,
      );
  });

  it('shows a wrong value unless it is a header or a cookie', () => {
    expect(refusalOf({ [own]: { headless: 'yes' } })).toBe(`${own}.headless: must be true or false, got "yes"`);
    const secret = 'hunter2';
    expect(refusalOf({ [own]: { extraHTTPHeaders: { authorization: [secret] } } })).not.toContain(secret);
    expect(refusalOf({ [own]: { storageState: { cookies: [{ name: secret }] } } })).not.toContain(secret);
    expect(refusalOf({ [own]: { storageState: secret } })).not.toContain(secret);
  });

  it('may be given with all the others', () => {
    const all = Object.fromEntries(sessionSettingNames.map((name) => [name, good[name][0]]));
    expect(readSessionSettings({ [own]: all, other: 1 }, sessionSettingNames)).toEqual(all);
  });

  it.each([
    ['headles', '; did you mean headless?'],
    ['proxyServer', ''],
    ['userDataDir', ''],
    ['__proto__', ''],
    ['contextOptions', ''],
    ['', ''],
  ])('named %j is not known', (name, hint) => {
    const meta: unknown = JSON.parse(`{"${own}": {"${name}": true}}`);
    expect(refusalOf(meta)).toBe(`${own}.${name}: unknown session setting${hint}`);
  });

  it('is told of in a short line, soon, even if megabytes are wrong with it', () => {
    const long = '-a'.repeat(500_000);
    const many = Array.from({ length: 10_000 }, () => long);
    const started = process.cpuUsage();
    const lines = [
      { [long]: 1 },
      { locale: long },
      { locale: many },
      { timezoneId: `a${long}` },
      { userAgent: `${long}\n` },
      { viewport: { width: 1, height: long } },
      { headless: Object.fromEntries(many.map((_, index) => [index, 1])) },
    ].map((settings) => refusalOf({ [own]: settings }));
    const { user } = process.cpuUsage(started);
    expect(lines.filter((line) => line.length > 250 || !line.startsWith(own))).toEqual([]);
    // The search for what a name of such length may have meant takes many seconds.
    expect(user / 1000).toBeLessThan(1500);
  });

  it('names the setting to programs, too', () => {
    expect(() => readSessionSettings({ [own]: { headless: 0 } }, ['headless'])).toThrow(
      expect.objectContaining({ code: 'session_setting', data: { setting: `${own}.headless` } }),
    );
  });
});

describe('the time zone', () => {
  it('has a shorter name, which is allowed with the full one', () => {
    const meta = { [own]: { timezone: 'UTC' } };
    expect(readSessionSettings(meta, ['timezoneId'])).toEqual({ timezoneId: 'UTC' });
    expect(refusalOf(meta, ['headless'])).toContain(`${own}.timezone: this server does not let`);
    expect(refusalOf({ [own]: { timezone: 5 } })).toContain(`${own}.timezone: must be the name`);
  });

  it('is given once', () => {
    expect(refusalOf({ [own]: { timezone: 'UTC', timezoneId: 'UTC' } })).toBe(
      `${own}.timezoneId: timezoneId is given twice`,
    );
  });
});

describe('the settings as a whole', () => {
  it.each([undefined, null, 'x', 5, {}, { progressToken: 1 }, { [own]: {} }, { [alias]: {} }, [own]])(
    'are none in %j',
    (meta) => {
      expect(readSessionSettings(meta, sessionSettingNames)).toEqual({});
    },
  );

  it.each([null, 'x', 5, [], true])('must be an object, not %j', (value) => {
    expect(refusalOf({ [own]: value })).toBe(`${own}: must be an object, got ${JSON.stringify(value)}`);
    expect(refusalOf({ [alias]: value })).toBe(`${alias}: must be an object, got ${JSON.stringify(value)}`);
    expect(refusalOf({ [alias]: { contextOptions: value } })).toBe(
      `${alias}.contextOptions: must be an object, got ${JSON.stringify(value)}`,
    );
  });
});

describe('the key of the other project', () => {
  const contextOptions = {
    userAgent: 'x',
    viewport: { width: 800, height: 600 },
    locale: 'de',
    timezoneId: 'UTC',
    extraHTTPHeaders: { a: 'b' },
  };

  it('means the same', () => {
    const meta = { [alias]: { headless: false, contextOptions } };
    expect(readSessionSettings(meta, sessionSettingNames)).toEqual({ headless: false, ...contextOptions });
  });

  it('is not read beside our own', () => {
    const meta = { [own]: { locale: 'fr' }, [alias]: { headless: false, proxyServer: 'x' } };
    expect(readSessionSettings(meta, sessionSettingNames)).toEqual({ locale: 'fr' });
  });

  it.each<[value: unknown, line: string]>([
    [{ locale: 'de' }, `${alias}.locale: unknown session setting`],
    [{ proxyServer: 'http://p' }, `${alias}.proxyServer: unknown session setting`],
    [{ userDataDir: '/p' }, `${alias}.userDataDir: unknown session setting`],
    [{ headless: 1 }, `${alias}.headless: must be true or false, got 1`],
    [{ contextOptions: { storageState: {} } }, `${alias}.contextOptions.storageState: unknown session setting`],
    [{ contextOptions: { headless: true } }, `${alias}.contextOptions.headless: unknown session setting`],
    [
      { contextOptions: { locale: '' } },
      `${alias}.contextOptions.locale: must be a language tag such as "de-CH", got an empty value`,
    ],
  ])('with %j is refused by its own name', (value, line) => {
    expect(refusalOf({ [alias]: value })).toBe(line);
  });

  it('obeys the operator', () => {
    expect(refusalOf({ [alias]: { contextOptions: { locale: 'de' } } }, ['headless'])).toContain(
      `${alias}.contextOptions.locale: this server does not let clients set it`,
    );
  });
});

describe('how much a client may set', () => {
  const headers = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_none, index) => [`x-${index}`, 'v']));
  const cookies = (count: number): unknown => ({ cookies: Array.from({ length: count }, () => cookie) });

  it('ends at 100 headers', () => {
    expect(refusalOf({ [own]: { extraHTTPHeaders: headers(100) } })).toBe('accepted');
    expect(refusalOf({ [own]: { extraHTTPHeaders: headers(101) } })).toContain('at most 100 header names');
  });

  it('ends at 2000 cookies and stored values together', () => {
    expect(refusalOf({ [own]: { storageState: cookies(2000) } })).toBe('accepted');
    expect(refusalOf({ [own]: { storageState: cookies(2001) } })).toContain('at most 2000 entries');
    const localStorage = Array.from({ length: 2000 }, () => ({ name: 'a', value: 'b' }));
    expect(refusalOf({ [own]: { storageState: { origins: [{ origin: 'https://x.org', localStorage }] } } })).toContain(
      'at most 2000 entries',
    );
  });
});
