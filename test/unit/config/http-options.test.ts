import { describe, expect, it } from 'vitest';
import { type ErrorCode, errorTable } from '../../../src/core/errors.ts';
import { options, type SettingName, type Settings } from '../../../src/config/options.ts';
import { messagesFrom, resolveFrom } from '../../support/settings.ts';

/** Every number of the HTTP server: the least and the most it takes, and what it is without being given. */
const numbers: [name: SettingName, least: number, most: number, normal: number | undefined][] = [
  ['httpPort', 0, 65_535, 3000],
  ['httpSessionMax', 1, 10_000, 32],
  ['httpSessionMaxPerToken', 1, 10_000, undefined],
  ['httpStartsMax', 1, 1000, undefined],
  ['httpSpareChildren', 0, 100, 1],
  ['httpSpareBrowsers', 0, 100, 0],
  ['httpSessionIdleTtlMs', 100, 2_147_483_647, 3_600_000],
  ['httpSessionUnusedTtlMs', 100, 2_147_483_647, 600_000],
  ['httpSessionMaxAgeMs', 100, 2_147_483_647, undefined],
  ['httpSessionMaxCalls', 1, 10_000, 100],
  ['httpMaxBodyBytes', 1024, 536_870_000, 4_194_304],
  ['httpMaxHeaderBytes', 1024, 1_048_576, 16_384],
  ['httpHeaderTimeoutMs', 100, 3_600_000, 10_000],
  ['httpBodyTimeoutMs', 100, 3_600_000, 60_000],
  ['httpKeepAliveTimeoutMs', 100, 2_147_483_647, 620_000],
  ['httpStreamKeepAliveMs', 0, 3_600_000, 15_000],
  ['httpWriteTimeoutMs', 100, 3_600_000, 30_000],
  ['httpReplayEvents', 0, 100_000, 256],
  ['httpReplayBytes', 0, 536_870_000, 4_194_304],
  ['httpRetryMs', 0, 3_600_000, 1000],
  ['httpMinFreeMemory', 0, 1_099_511_627_776, 536_870_912],
  ['drainTimeoutMs', 0, 3_600_000, 20_000],
  ['drainDelayMs', 0, 3_600_000, 0],
];

function flagOf(name: SettingName): string {
  return `--${options.find((option) => option.name === name)?.flags[0] ?? ''}`;
}

/** The setting as a server over HTTP has it with this flag. */
function valueOf(name: SettingName, ...values: readonly string[]): Settings[SettingName] {
  return resolveFrom({ argv: ['--transport=streamable-http', ...values.map((value) => `${flagOf(name)}=${value}`)] })
    .settings[name];
}

function problemsOf(name: SettingName, value: string): string[] {
  return messagesFrom({ argv: ['--transport=streamable-http', `${flagOf(name)}=${value}`] });
}

describe('numbers', () => {
  it.each(numbers)('%s goes from %i to %i', (name, least, most, normal) => {
    const flag = flagOf(name);
    const refused = `${flag}: must be a whole number from ${String(least)} to ${String(most)}, got`;
    expect(valueOf(name)).toBe(normal);
    expect(valueOf(name, String(least))).toBe(least);
    expect(valueOf(name, String(most))).toBe(most);
    expect(problemsOf(name, String(least - 1))).toEqual([`${refused} ${String(least - 1)}`]);
    expect(problemsOf(name, String(most + 1))).toEqual([`${refused} ${String(most + 1)}`]);
  });

  it('are all in this table', () => {
    const http = options.filter(({ group, form }) => group === 'Streamable HTTP' && form.kind === 'integer');
    expect(http.map(({ name }) => name)).toEqual(numbers.map(([name]) => name));
  });
});

const sixteen = 'abcdefgh-1234567';

const texts: [name: SettingName, good: readonly string[], bad: readonly string[]][] = [
  ['transport', ['stdio', 'streamable-http'], ['http', 'sse', '', 'STDIO']],
  ['httpProtocol', ['http'], ['HTTP', 'h2', '']],
  [
    'httpHost',
    ['127.0.0.1', 'localhost', '::1', '127.8.9.1'],
    ['', '[::1]', 'a:80', 'http://a', 'a b', 'a/b', '-', '.', '::1%'],
  ],
  [
    'httpEndpoint',
    ['/mcp', '/a/b', '/a-b_c.d~e', '/%20', '/healthz/x', '/statu'],
    ['', '/', 'mcp', '/mcp/', '//mcp', '/a//b', '/a?b', '/a#b', '/a b', '/ä', '/a/../b', '/a/.', '/healthz', '/readyz'],
  ],
  ['httpEndpoint', ['/metric'], ['/metrics', '/status', 'http://h/mcp', '/a\tb', '/a\\b', '/a"b']],
  [
    'httpAllowedHosts',
    ['*', 'a', 'mcp.example.org:8443', '10.0.0.1', '[::1]', '[::1]:3000', 'a,b:1', '["a"]', '[]', 'my_host'],
    ['', 'http://a', 'a/b', 'a:', 'a:x', 'a:123456', '*.a', 'a b', '::1'],
  ],
  [
    'httpAllowedOrigins',
    ['https://a.b', 'http://localhost:5173', 'chrome-extension://abc', 'https://a,https://b'],
    ['', '*', 'null', 'a.b', 'https://', 'https://a/', 'https://a/b', 'https://a?b', 'https://u@a', 'https://*.a'],
  ],
  [
    'httpAuthToken',
    [sixteen, `${sixteen},${sixteen}8`, `["${sixteen}"]`, '[]', '!'.repeat(16), '~'.repeat(16)],
    ['', sixteen.slice(1), `${sixteen},x`, `${sixteen} ${sixteen}`, `${sixteen}ä`, `${sixteen},`, `${sixteen}\u007f`],
  ],
  ['httpAuthTokenFile', ['tokens', '/run/tokens'], ['', '~/tokens']],
  ['httpAllowUnauthenticated', ['true', 'false'], ['yes', '1', '']],
  ['httpSessionBackend', ['memory'], ['redis', '']],
  ['replicaId', ['a', 'A-1', 'x'.repeat(32)], ['', 'x'.repeat(33), 'a.b', 'a_b', 'ä', 'a b']],
  [
    'sessionSettings',
    ['headless', 'headless,locale', '[]', '["viewport"]', 'timezoneId,userAgent,extraHTTPHeaders,storageState'],
    ['', 'timezone', 'Headless', 'headless,proxy', 'userDataDir'],
  ],
  ['httpPassRoots', ['true', 'false'], ['yes', '']],
  ['httpFiles', ['true', 'false'], ['yes', '']],
];

describe('texts, lists and switches', () => {
  it.each(texts)('%s takes %j and refuses %j', (name, good, bad) => {
    for (const value of good) expect([value, problemsOf(name, value)]).toEqual([value, []]);
    for (const value of bad)
      expect([value, problemsOf(name, value)]).toEqual([value, [expect.stringMatching(`^${flagOf(name)}: must be `)]]);
  });

  it('have these values without being given', () => {
    const { settings } = resolveFrom({});
    expect(settings).toMatchObject({
      transport: 'stdio',
      httpProtocol: 'http',
      httpHost: '127.0.0.1',
      httpEndpoint: '/mcp',
      httpAllowedHosts: [],
      httpAllowedOrigins: [],
      httpAuthToken: [],
      httpAllowUnauthenticated: false,
      httpSessionBackend: 'memory',
      httpPassRoots: false,
      httpFiles: false,
    });
    expect(settings.sessionSettings).toEqual([
      'headless',
      'viewport',
      'locale',
      'timezoneId',
      'userAgent',
      'extraHTTPHeaders',
      'storageState',
    ]);
    for (const name of [
      'httpAuthTokenFile',
      'httpsCert',
      'httpsKey',
      'httpsPfx',
      'httpsPassphrase',
      'replicaId',
    ] as const)
      expect(settings[name]).toBeUndefined();
  });

  it('guesses what a misspelt session setting means', () => {
    expect(problemsOf('sessionSettings', 'headles')).toEqual([
      '--session-settings: must be a list out of headless, viewport, locale, timezoneId, userAgent, extraHTTPHeaders, storageState, cdp (a JSON array or separated by commas), got "headles"; did you mean headless?',
    ]);
  });

  it('makes the paths of certificates and tokens absolute', () => {
    const argv = ['--https-cert=c.pem', '--https-key=/k.pem', '--http-auth-token-file=t', '--https-pfx=p'];
    expect(resolveFrom({ argv }).settings).toMatchObject({
      httpsCert: '/srv/c.pem',
      httpsKey: '/k.pem',
      httpsPfx: '/srv/p',
      httpAuthTokenFile: '/srv/t',
    });
  });

  it('takes several pieces of a list', () => {
    expect(valueOf('httpAllowedHosts', 'a,b', '["c"]')).toEqual(['a', 'b', 'c']);
    expect(valueOf('httpAuthToken', sixteen, `${sixteen}x,${sixteen}y`)).toHaveLength(3);
  });

  it("takes upstream's spellings with its own separators", () => {
    const argv = ['--port', '8931', '--host', 'localhost', '--allowed-hosts', 'a,b', 'c'];
    expect(resolveFrom({ argv })).toMatchObject({
      problems: [],
      settings: { httpPort: 8931, httpHost: 'localhost', httpAllowedHosts: ['a', 'b', 'c'] },
      upstreamArgs: [],
    });
    const env = {
      PLAYWRIGHT_MCP_PORT: ' 8931 ',
      PLAYWRIGHT_MCP_HOST: 'localhost',
      PLAYWRIGHT_MCP_ALLOWED_HOSTS: 'a,b',
    };
    expect(resolveFrom({ argv: ['--transport', 'streamable-http'], env })).toMatchObject({
      problems: [],
      warnings: [],
      settings: { httpPort: 8931, httpHost: 'localhost', httpAllowedHosts: ['a', 'b'] },
    });
  });
});

describe('the descriptions', () => {
  const answers = options.flatMap(({ name, description }) =>
    [...description.matchAll(/\b([0-9]{3}) `([a-z_]+)`/g)].map(([, status, code]) => ({ name, status, code })),
  );

  it('tell the answer at each limit that has one', () => {
    expect(new Set(answers.map(({ code }) => code))).toEqual(
      new Set([
        'http_path',
        'host_refused',
        'origin_refused',
        'unauthorized',
        'sessions_full',
        'token_full',
        'session_unknown',
        'calls_full',
        'message_too_large',
        'headers_too_large',
        'request_timeout',
        'memory_low',
        'draining',
        'session_setting',
        'file_unknown',
      ]),
    );
  });

  it.each(answers)('of $name has the status of $code', ({ status, code }) => {
    expect(errorTable[code as ErrorCode].http).toBe(Number(status));
  });
});
