import { describe, expect, it } from 'vitest';
import { describeSettings } from '../../../src/config/resolve.ts';
import { type Given, messagesFrom, resolveFrom } from '../../support/settings.ts';

const wait = 'must be a whole number from 100 to 3600000, got';
const bool = 'must be true or false, got';
const levels = 'must be one of trace, debug, info, warn, error, fatal, silent, got';
const path = 'must be a path written out (no shell expands "~" here), got';
const proxy =
  'must be a proxy such as http://host:3128 or socks5://host:1080, with user:password@ before the host if it asks for them; the value is not shown';
const names = 'must be a list of variable names (a JSON array or separated by commas), got';
const chromiumArgs =
  'must be a list of Chromium arguments that start with "-" (a JSON array or separated by commas), got';
const prefix = 'CLOAK_PLAYWRIGHT_MCP_';

const badFlags: [argv: string[], line: string][] = [
  [['--start-timeout-ms', ''], `--start-timeout-ms: ${wait} an empty value`],
  [['--start-timeout-ms', 'yes'], `--start-timeout-ms: ${wait} "yes"`],
  [['--start-timeout-ms', '0'], `--start-timeout-ms: ${wait} 0`],
  [['--start-timeout-ms', '-1'], `--start-timeout-ms: ${wait} -1`],
  [['--start-timeout-ms=99'], `--start-timeout-ms: ${wait} 99`],
  [['--start-timeout-ms=3600001'], `--start-timeout-ms: ${wait} 3600001`],
  [['--start-timeout-ms', '1e9'], `--start-timeout-ms: ${wait} "1e9"`],
  [['--start-timeout-ms', '1000000000'], `--start-timeout-ms: ${wait} 1000000000`],
  [['--start-timeout-ms', 'NaN'], `--start-timeout-ms: ${wait} "NaN"`],
  [['--start-timeout-ms', ' 5000 '], `--start-timeout-ms: ${wait} " 5000 "`],
  [['--start-timeout-ms', '５０００'], `--start-timeout-ms: ${wait} "５０００"`],
  [['--start-timeout-ms', '٥٠٠٠'], `--start-timeout-ms: ${wait} "٥٠٠٠"`],
  [['--start-timeout-ms', '5000.0'], `--start-timeout-ms: ${wait} "5000.0"`],
  [['--start-timeout-ms', '0x1388'], `--start-timeout-ms: ${wait} "0x1388"`],
  [['--start-timeout-ms', '+5000'], `--start-timeout-ms: ${wait} "+5000"`],
  [['--start-timeout-ms', '5_000'], `--start-timeout-ms: ${wait} "5_000"`],
  [['--start-timeout-ms', '99999999999999999999'], `--start-timeout-ms: ${wait} "99999999999999999999"`],
  [['--restart-max', '0'], '--restart-max: must be a whole number from 1 to 1000, got 0'],
  [['--headless', 'yes'], `--headless: ${bool} "yes"`],
  [['--headless=1'], `--headless: ${bool} "1"`],
  [['--headless='], `--headless: ${bool} an empty value`],
  [['--isolated', 'off'], `--isolated: ${bool} "off"`],
  [['--log-level', 'verbose'], `--log-level: ${levels} "verbose"`],
  [['--log-level', 'inof'], `--log-level: ${levels} "inof"; did you mean info?`],
  [['--log-level', 'INFO '], `--log-level: ${levels} "INFO "; did you mean info?`],
  [
    ['--browser-engine', 'playwrite'],
    '--browser-engine: must be one of cloak, playwright, got "playwrite"; did you mean playwright?',
  ],
  [['--transport', 'http'], '--transport: must be one of stdio, streamable-http, got "http"'],
  [['--binary-path', ''], `--binary-path: ${path} an empty value`],
  [['--executable-path', '   '], `--executable-path: ${path} "   "`],
  [['--user-data-dir', '~/profile'], `--user-data-dir: ${path} "~/profile"`],
  [['--config-file', ''], `--config-file: ${path} an empty value`],
  [['--extra-args', 'no-dash'], `--extra-args: ${chromiumArgs} "no-dash"`],
  [['--extra-args', '["--a", 1]'], `--extra-args: ${chromiumArgs} 1`],
  [['--extra-args', '["--a"'], `--extra-args: ${chromiumArgs} "[\\"--a\\""`],
  [['--extra-args=--a', '--extra-args', ''], `--extra-args: ${chromiumArgs} an empty value`],
  [['--child-env', 'A,,B'], `--child-env: ${names} an empty value`],
  [['--child-env', 'A=1'], `--child-env: ${names} "A=1"`],
  [['--proxy-server', 'http://'], `--proxy-server: ${proxy}`],
  [['--proxy-server', 'ftp://h:1'], `--proxy-server: ${proxy}`],
  [
    ['--browser-version', '148'],
    '--browser-version: must be a full version number such as 148.0.7778.215.2, got "148"',
  ],
  [['--proxy-bypass', ' '], '--proxy-bypass: must be a list of domains such as .com,example.org, got " "'],
  [['--log-level'], '--log-level: needs a value'],
  [
    ['--log-level', '--headless'],
    '--log-level: needs a value, but --headless follows; write --log-level=--headless if that is meant',
  ],
  [['--headles'], '--headles: unknown flag; did you mean --headless?'],
  [['--startTimeoutMs', '5'], '--startTimeoutMs: unknown flag; did you mean --start-timeout-ms?'],
  [['--frobnicate=1'], '--frobnicate: unknown flag; a flag of another upstream version goes after "--"'],
  [
    ['--isolated', '--user-data-dir', '/p'],
    '--isolated: cannot be combined with --user-data-dir, since a profile in memory has no folder',
  ],
];

const badVariables: [env: Record<string, string>, line: string][] = [
  [{ [`${prefix}HEADLESS`]: '' }, `${prefix}HEADLESS: ${bool} an empty value`],
  [{ [`${prefix}HEADLESS`]: 'yes' }, `${prefix}HEADLESS: ${bool} "yes"`],
  [{ [`${prefix}HEADLESS`]: '1' }, `${prefix}HEADLESS: ${bool} "1"`],
  [{ [`${prefix}HEADLESS`]: ' true' }, `${prefix}HEADLESS: ${bool} " true"`],
  [{ [`${prefix}NO_SANDBOX`]: '0' }, `${prefix}NO_SANDBOX: ${bool} "0"`],
  [{ PLAYWRIGHT_MCP_HEADLESS: 'yes' }, `PLAYWRIGHT_MCP_HEADLESS: ${bool} "yes"`],
  [{ CLOAKBROWSER_AUTO_UPDATE: '2' }, `CLOAKBROWSER_AUTO_UPDATE: ${bool} "2"`],
  [{ [`${prefix}CLOSE_GRACE_MS`]: 'NaN' }, `${prefix}CLOSE_GRACE_MS: ${wait} "NaN"`],
  [{ [`${prefix}CLOSE_GRACE_MS`]: '-1' }, `${prefix}CLOSE_GRACE_MS: ${wait} -1`],
  [
    { [`${prefix}MAX_MESSAGE_BYTES`]: '1000000000' },
    `${prefix}MAX_MESSAGE_BYTES: must be a whole number from 1024 to 536870000, got 1000000000`,
  ],
  [{ [`${prefix}LOG_LEVEL`]: 'Info' }, `${prefix}LOG_LEVEL: ${levels} "Info"; did you mean info?`],
  [
    { CLOAKBROWSER_RELEASE_CHANNEL: 'beta' },
    'CLOAKBROWSER_RELEASE_CHANNEL: must be one of stable, preview, got "beta"',
  ],
  [{ CLOAKBROWSER_BINARY_PATH: '~' }, `CLOAKBROWSER_BINARY_PATH: ${path} "~"`],
  [{ [`${prefix}CACHE_DIR`]: 'a\0b' }, `${prefix}CACHE_DIR: ${path} "a\\u0000b"`],
  [{ [`${prefix}LOG_LEVEL`]: 'a\nb' }, `${prefix}LOG_LEVEL: ${levels} "a\\nb"`],
  [
    { [`${prefix}HIDE_TOOLS`]: 'a b' },
    `${prefix}HIDE_TOOLS: must be a list of tool names (a JSON array or separated by commas), got "a b"`,
  ],
  [{ PLAYWRIGHT_MCP_PROXY_SERVER: 'h:x' }, `PLAYWRIGHT_MCP_PROXY_SERVER: ${proxy}`],
  [{ [`${prefix}CONFIG_FILE`]: 'missing.json' }, 'config file /srv/missing.json: cannot be read (ENOENT)'],
];

const at = 'config file /etc/bridge.json';
const badFiles: [file: unknown, line: string][] = [
  ['', `${at}: is not valid JSON`],
  ['{"headless": true,\n "isolated": false,\n}', `${at}: is not valid JSON (line 3)`],
  ['[]', `${at}: must hold one JSON object`],
  ['null', `${at}: must hold one JSON object`],
  ['"headless"', `${at}: must hold one JSON object`],
  [{ headless: 'true' }, `${at}: headless: ${bool} "true"`],
  [{ headless: 1 }, `${at}: headless: ${bool} 1`],
  [{ headless: null }, `${at}: headless: ${bool} null`],
  [{ startTimeoutMs: '5000' }, `${at}: startTimeoutMs: ${wait} "5000"`],
  [{ startTimeoutMs: 1e9 }, `${at}: startTimeoutMs: ${wait} 1000000000`],
  [{ startTimeoutMs: 500.5 }, `${at}: startTimeoutMs: ${wait} 500.5`],
  [{ startTimeoutMs: {} }, `${at}: startTimeoutMs: ${wait} {}`],
  [{ extraArgs: '--a' }, `${at}: extraArgs: ${chromiumArgs} "--a"`],
  [{ extraArgs: ['a', 'b'] }, `${at}: extraArgs: ${chromiumArgs} "a"`],
  [{ configFile: '/x' }, `${at}: configFile: a config file cannot set this`],
  [{ headles: true }, `${at}: headles: unknown setting; did you mean headless?`],
  [{ 'start-timeout-ms': 500 }, `${at}: start-timeout-ms: unknown setting; did you mean startTimeoutMs?`],
  [
    { browser: { isolated: true } },
    `${at}: browser: unknown setting; settings in upstream's own format belong into the file of --config`,
  ],
  [
    '{"__proto__": {"headless": false}}',
    `${at}: __proto__: unknown setting; settings in upstream's own format belong into the file of --config`,
  ],
  [{ logLevel: 'x'.repeat(100) }, `${at}: logLevel: ${levels} "${'x'.repeat(59)}...`],
];

describe('a bad setting is told in one exact line', () => {
  it.each(badFlags)('flags %j', (argv, line) => {
    expect(messagesFrom({ argv })).toEqual([line]);
    expect(resolveFrom({ argv }).problems[0]?.kind).toBe('flag');
  });

  it.each(badVariables)('variables %j', (env, line) => {
    expect(messagesFrom({ env })).toEqual([line]);
    expect(resolveFrom({ env }).problems[0]?.kind).not.toBe('flag');
  });

  it.each(badFiles)('file %j', (file, line) => {
    expect(messagesFrom({ file })).toEqual([line]);
    expect(resolveFrom({ file }).problems[0]?.kind).toBe('file');
  });

  it('reports the problems of all sources at once and keeps what is valid', () => {
    const { problems, settings, sources } = resolveFrom({
      argv: ['--bogus', '--headless', 'maybe', '--restart-max', 'x'],
      env: { CLOAK_PLAYWRIGHT_MCP_LOG_LEVEL: 'loud', CLOAK_PLAYWRIGHT_MCP_ISOLATED: 'true' },
      file: { stealthArgs: 'no', closeGraceMs: 700, nonsense: 1 },
    });
    expect(problems.map(({ source }) => source)).toEqual([
      '--bogus',
      'command line',
      'CLOAK_PLAYWRIGHT_MCP_LOG_LEVEL',
      '--restart-max',
      `${at}: stealthArgs`,
      `${at}: nonsense`,
    ]);
    expect(settings).toMatchObject({
      isolated: true,
      closeGraceMs: 700,
      logLevel: 'info',
      restartMax: 5,
      stealthArgs: true,
    });
    expect(sources.logLevel).toEqual({ kind: 'default', name: 'default' });
  });

  it('names what lies outside the command line when a flag and a variable exclude each other', () => {
    const { problems } = resolveFrom({ argv: ['--isolated'], env: { PLAYWRIGHT_MCP_USER_DATA_DIR: '/p' } });
    expect(problems).toEqual([
      {
        kind: 'env',
        source: 'PLAYWRIGHT_MCP_USER_DATA_DIR',
        message:
          'PLAYWRIGHT_MCP_USER_DATA_DIR: cannot be combined with --isolated, since a profile in memory has no folder',
      },
    ]);
  });
});

describe('precedence', () => {
  const file = { logLevel: 'error' };
  const alias = { CLOAKBROWSER_VERSION: '1.2.3.4' };

  it('takes a flag over the environment, that over the file, that over the default', () => {
    const env = { CLOAK_PLAYWRIGHT_MCP_LOG_LEVEL: 'warn' };
    const levelOf = (given: Given): unknown[] => {
      const { settings, sources } = resolveFrom(given);
      return [settings.logLevel, sources.logLevel.kind, sources.logLevel.name];
    };
    expect(levelOf({ argv: ['--log-level', 'debug'], env, file })).toEqual(['debug', 'flag', '--log-level']);
    expect(levelOf({ env, file })).toEqual(['warn', 'env', 'CLOAK_PLAYWRIGHT_MCP_LOG_LEVEL']);
    expect(levelOf({ file })).toEqual(['error', 'file', `${at}: logLevel`]);
    expect(levelOf({})).toEqual(['info', 'default', 'default']);
  });

  it("takes the bridge's variable over the one it shares a meaning with", () => {
    expect(resolveFrom({ env: alias }).settings.browserVersion).toBe('1.2.3.4');
    const both = resolveFrom({ env: { ...alias, CLOAK_PLAYWRIGHT_MCP_BROWSER_VERSION: '5.6.7.8' } });
    expect(both.settings.browserVersion).toBe('5.6.7.8');
    expect(both.sources.browserVersion.name).toBe('CLOAK_PLAYWRIGHT_MCP_BROWSER_VERSION');
  });

  it('takes the last of a repeated flag and collects repeated lists', () => {
    const { settings } = resolveFrom({
      argv: ['--headless', '--no-headless', '--child-env', 'A,B', '--child-env', '["C"]'],
    });
    expect(settings.headless).toBe(false);
    expect(settings.childEnv).toEqual(['A', 'B', 'C']);
  });

  it('does not tell of a bad value that a stronger source covers', () => {
    expect(messagesFrom({ argv: ['--headless'], env: { PLAYWRIGHT_MCP_HEADLESS: 'yes' } })).toEqual([]);
  });
});

describe('reading', () => {
  it.each([
    ['true', true],
    ['TRUE', true],
    ['1', true],
    ['false', false],
    ['0', false],
    [' 0 ', false],
    ['', true],
  ])("reads upstream's variable %j as upstream does", (value, headless) => {
    const { settings, problems } = resolveFrom({ env: { PLAYWRIGHT_MCP_HEADLESS: value } });
    expect([settings.headless, problems]).toEqual([headless, []]);
  });

  it.each([
    [{ CLOAK_PLAYWRIGHT_MCP_NO_SANDBOX: 'true' }, false],
    [{ CLOAK_PLAYWRIGHT_MCP_NO_SANDBOX: 'False' }, true],
    [{ CLOAK_PLAYWRIGHT_MCP_NO_SANDBOX: 'true', PLAYWRIGHT_MCP_SANDBOX: 'true' }, false],
    [{ CLOAK_PLAYWRIGHT_MCP_NO_SANDBOX: 'true', CLOAK_PLAYWRIGHT_MCP_SANDBOX: 'true' }, true],
    [{}, undefined],
  ])('reads the sandbox from %j', (env, sandbox) => {
    expect(resolveFrom({ env }).settings.sandbox).toBe(sandbox);
  });

  it.each([
    ['--window-size=1,2,--lang=de, -x', ['--window-size=1,2', '--lang=de', '-x']],
    ['["--a=1,--b"]', ['--a=1,--b']],
    ['[]', []],
  ])('reads the Chromium arguments %j', (value, extraArgs) => {
    expect(resolveFrom({ env: { CLOAK_PLAYWRIGHT_MCP_EXTRA_ARGS: value } }).settings.extraArgs).toEqual(extraArgs);
  });

  it.each(['http://host:3128', 'socks5://u:p%40w@host:1080', 'host:3128', 'user:pw@host', 'HTTPS://[::1]:1'])(
    'takes the proxy %s',
    (value) => {
      expect(resolveFrom({ argv: ['--proxy-server', value] }).settings.proxyServer).toBe(value);
    },
  );

  it('takes both ends of a range', () => {
    expect(resolveFrom({ argv: ['--close-grace-ms', '100'] }).settings.closeGraceMs).toBe(100);
    expect(resolveFrom({ argv: ['--close-grace-ms', '3600000'] }).settings.closeGraceMs).toBe(3_600_000);
  });

  it('makes paths absolute, from a file against its own folder', () => {
    const { settings } = resolveFrom({
      argv: ['--output-dir', 'out'],
      env: { PLAYWRIGHT_MCP_CONFIG: '../up.json' },
      file: { userDataDir: 'profile', binaryPath: '/b' },
    });
    expect(settings).toMatchObject({
      outputDir: '/srv/out',
      config: '/up.json',
      userDataDir: '/etc/profile',
      binaryPath: '/b',
    });
  });

  it('reads a file with a byte order mark and a schema line', () => {
    const { settings, problems } = resolveFrom({ file: '\uFEFF{"$schema": "x", "headless": false}' });
    expect([settings.headless, problems]).toEqual([false, []]);
  });
});

describe('warnings', () => {
  it('tells of an unknown variable of the bridge without refusing it', () => {
    const { warnings, problems } = resolveFrom({
      env: { CLOAK_PLAYWRIGHT_MCP_LOGLEVEL: 'x', CLOAK_PLAYWRIGHT_MCP_HUMANIZE: 'hidden' },
    });
    expect(problems).toEqual([]);
    expect(warnings).toEqual([
      'CLOAK_PLAYWRIGHT_MCP_HUMANIZE: ignored, this version knows no such setting',
      'CLOAK_PLAYWRIGHT_MCP_LOGLEVEL: ignored, this version knows no such setting; did you mean CLOAK_PLAYWRIGHT_MCP_LOG_LEVEL?',
    ]);
  });

  it('tells of a bypass without a proxy', () => {
    expect(resolveFrom({ argv: ['--proxy-bypass', '.com'] }).warnings).toEqual([
      '--proxy-bypass: has no effect without a proxy server',
    ]);
    expect(resolveFrom({ argv: ['--proxy-bypass', '.com', '--proxy-server', 'h:1'] }).warnings).toEqual([]);
  });
});

describe('secrets', () => {
  const secret = 'hunter2secret';

  it.each<Given>([
    { argv: ['--proxy-server', `ftp://u:${secret}@h`] },
    { argv: ['--proxy-server', `http://u:${secret}@h:port`] },
    { argv: ['--proxy-sever', `http://u:${secret}@h`] },
    { argv: [`--proxy-sever=http://u:${secret}@h`] },
    { argv: ['--headless', `http://u:${secret}@h`] },
    { argv: ['--extra-args', `proxy,http://u:${secret}@h`] },
    { argv: ['demo', `u:${secret}@h`] },
    { env: { PLAYWRIGHT_MCP_PROXY_SERVER: `http://u:${secret}%zz@h` } },
    { env: { CLOAK_PLAYWRIGHT_MCP_PROXY: `http://u:${secret}@h` } },
    { env: { PLAYWRIGHT_MCP_EXTENSION_TOKEN: secret } },
    { file: { proxyServer: { server: 'h', password: secret } } },
    { file: `{"proxyServer": "http://u:${secret}@h"; }` },
    { file: `{"proxyServer": "http://u:${secret}@h" x }` },
    { file: { extraArgs: [[`--proxy-server=http://u:${secret}@h`]] } },
  ])('never show in what is told of %j', (given) => {
    const { problems, warnings } = resolveFrom(given);
    expect([...problems, ...warnings].length).toBeGreaterThan(0);
    expect(JSON.stringify([problems, warnings])).not.toContain(secret);
  });

  it.each([
    [`http://u:${secret}@h:1`, 'http://[redacted]@h:1'],
    [`u:${secret}@h:1`, '[redacted]@h:1'],
    [`http://${secret}@h`, 'http://[redacted]@h'],
    ['http://h:1', 'http://h:1'],
  ])('are masked in the description of the settings', (proxyServer, shown) => {
    const described = describeSettings(
      resolveFrom({ argv: ['--proxy-server', proxyServer, `--extra-args=--proxy-server=${proxyServer}`] }),
    );
    expect(described).toContainEqual({ name: 'proxyServer', value: shown, source: '--proxy-server' });
    expect(described).toContainEqual({ name: 'extraArgs', value: [`--proxy-server=${shown}`], source: '--extra-args' });
    expect(described).toContainEqual({ name: 'binaryPath', value: null, source: 'default' });
    expect(described).toContainEqual({ name: 'headless', value: true, source: 'default' });
  });
});
