import { describe, expect, it } from 'vitest';

import { messagesFrom, resolveFrom } from '../../support/settings.ts';

function warningsFrom(argv: string[], env: Record<string, string> = {}): readonly string[] {
  return resolveFrom({ argv, env }).warnings;
}

const http = ['--transport', 'streamable-http'];

describe('managed CDP', () => {
  it('is off, and is switched by flag, variable and file, under the names of the project that had it first as well', () => {
    expect(resolveFrom({}).settings.cdp).toBe(false);
    for (const argv of [['--cdp'], ['--cdp', 'true'], ['--cdp-enabled'], ['--no-cdp', '--cdp']])
      expect([argv, resolveFrom({ argv }).settings.cdp]).toEqual([argv, true]);
    for (const argv of [['--no-cdp'], ['--cdp=false'], ['--no-cdp-enabled'], ['--cdp', '--no-cdp']])
      expect([argv, resolveFrom({ argv }).settings.cdp]).toEqual([argv, false]);
    for (const name of ['CLOAK_PLAYWRIGHT_MCP_CDP', 'CLOAK_PLAYWRIGHT_MCP_CDP_ENABLED'])
      expect(resolveFrom({ env: { [name]: 'true' } }).settings.cdp).toBe(true);
    expect(resolveFrom({ file: { cdp: true } }).settings.cdp).toBe(true);
  });

  it('has the limits of the contract', () => {
    expect(resolveFrom({}).settings).toMatchObject({
      cdpHost: '127.0.0.1',
      cdpMaxConnections: 16,
      cdpMaxRequestBytes: 100 * 1_048_576 - 65_536,
      cdpMaxAnswerBytes: 256 * 1_048_576,
      cdpStallTimeoutMs: 30_000,
      cdpPingIntervalMs: 30_000,
      cdpHttpMax: 16,
      cdpHttpMaxBytes: 8 * 1_048_576,
      cdpHttpTimeoutMs: 10_000,
      cdpHeartbeatMs: 5000,
      cdpLossTimeoutMs: 15_000,
      cdpIdleTtlMs: 0,
      cdpAllowOrigin: [],
      cdpAllow: [],
      cdpDeny: [],
    });
  });

  it.each([
    ['--cdp-port-range', '9400-9499'],
    ['--cdp-port-range', '9400'],
    ['--cdp-port-range', '1-65535'],
    ['--cdp-advertised-host', 'cdp.example.org'],
    ['--cdp-advertised-host', 'cdp.example.org:8443/agents/1'],
    ['--cdp-advertised-host', '[2001:db8::1]:9400'],
    ['--cdp-advertised-host', '192.0.2.1:65535'],
    ['--cdp-allow-origin', 'devtools://devtools,https://app.example.org:8443'],
    ['--cdp-allow', 'Page.navigate,DOM.*'],
    ['--cdp-deny', 'Browser.close'],
    ['--cdp-max-request-bytes', '104792064'],
    ['--cdp-max-answer-bytes', '268435456'],
    ['--cdp-idle-ttl-ms', '0'],
  ])('takes %s %s', (flag, value) => {
    expect(messagesFrom({ argv: ['--cdp', flag, value] })).toEqual([]);
  });

  it.each([
    ['--cdp-port-range', '0'],
    ['--cdp-port-range', '9499-9400'],
    ['--cdp-port-range', '1-65536'],
    ['--cdp-port-range', '9400-'],
    ['--cdp-advertised-host', 'https://cdp.example.org'],
    ['--cdp-advertised-host', '0.0.0.0'],
    ['--cdp-advertised-host', '[::]:1'],
    ['--cdp-advertised-host', 'a:0'],
    ['--cdp-advertised-host', 'a:65536'],
    ['--cdp-advertised-host', 'a/../b c'],
    ['--cdp-advertised-host', 'a?b'],
    ['--cdp-advertised-host', 'user@a'],
    ['--cdp-advertised-scheme', 'wss'],
    ['--cdp-allow-origin', '*'],
    ['--cdp-allow-origin', 'https://a/path'],
    ['--cdp-allow', '*'],
    ['--cdp-allow', 'Page'],
    ['--cdp-deny', 'Page.navi-gate'],
    ['--cdp-policy', 'open'],
    ['--cdp-host', '[::1]'],
    ['--cdp-max-request-bytes', '104792065'],
    ['--cdp-max-answer-bytes', '268435457'],
    ['--cdp-max-connections', '0'],
    ['--cdp-heartbeat-ms', '99'],
  ])('refuses %s %s, naming both', (flag, value) => {
    const [message, ...others] = messagesFrom({ argv: ['--cdp', flag, value] });
    expect(others).toEqual([]);
    expect(message).toMatch(new RegExp(`^${flag}: must be `));
    expect(message).toContain(/^\d+$/.test(value) && value !== '0' ? value : value.slice(0, 20));
  });
});

describe('what contradicts managed CDP', () => {
  it.each([
    '--remote-debugging-port=1',
    '--remote-debugging-pipe',
    '--remote-debugging-address=0.0.0.0',
    '--user-data-dir=/x',
    '--remote-allow-origins=*',
  ])('is the argument %s of the browser, told without its value', (argument) => {
    const name = argument.split('=', 1)[0];
    expect(messagesFrom({ argv: ['--cdp', `--extra-args=${argument}`] })).toEqual([
      `--extra-args: ${name} cannot be combined with --cdp, which decides it; remove the argument`,
    ]);
    expect(messagesFrom({ argv: [`--extra-args=${argument}`] })).toEqual([]);
    // Where a session may switch it on it is as wrong.
    expect(messagesFrom({ argv: [...http, '--session-settings', 'cdp', `--extra-args=${argument}`] })).toHaveLength(1);
  });

  it('is a browser that has no CDP', () => {
    for (const browser of [['--browser', 'firefox'], ['--browser=webkit']])
      expect(messagesFrom({ argv: ['--cdp', '--browser-engine', 'playwright', ...browser] })).toEqual([
        `--cdp: ${browser.join('=').split('=')[1]} has no CDP; choose a Chromium by --browser, or leave --cdp away`,
      ]);
    const env = { PLAYWRIGHT_MCP_BROWSER: 'firefox' };
    expect(messagesFrom({ argv: ['--cdp', '--browser-engine', 'playwright'], env })).toHaveLength(1);
    expect(messagesFrom({ argv: ['--cdp', '--browser-engine', 'playwright', '--browser', 'msedge'] })).toEqual([]);
  });

  it('is an address that others reach, unless that is meant and has a name', () => {
    const remote = ['--cdp', '--cdp-host', '0.0.0.0', '--cdp-port-range', '9400'];
    expect(messagesFrom({ argv: remote })).toEqual([
      '--cdp-host: others can reach "0.0.0.0", and with it the browser of --cdp by its address alone; give --cdp-allow-remote if that is meant',
    ]);
    expect(messagesFrom({ argv: [...remote, '--cdp-allow-remote'] })).toEqual([
      '--cdp-host: with "0.0.0.0" --cdp needs --cdp-advertised-host: the host that clients reach it by',
    ]);
    expect(messagesFrom({ argv: [...remote, '--cdp-allow-remote', '--cdp-advertised-host', 'a'] })).toEqual([]);
  });

  it('is the same over HTTP for the address that counts there', () => {
    const remote = [...http, '--http-host', '0.0.0.0', '--http-auth-token', 'a-token-of-length-twenty', '--cdp'];
    expect(messagesFrom({ argv: remote })).toEqual([expect.stringMatching(/^--http-host: others can reach/)]);
    // Each session has a port on loopback then.
    expect(messagesFrom({ argv: [...remote, '--cdp-port-range', '9400-9500'] })).toEqual([]);
    const open = [...remote, '--cdp-allow-remote', '--cdp-advertised-host', 'a.example.org'];
    expect(messagesFrom({ argv: open })).toEqual([]);
    expect(messagesFrom({ argv: [...http, '--cdp', '--cdp-host', '0.0.0.0'] })).toEqual([]);
  });
});

describe('a warning', () => {
  it("tells that upstream's idle limit has no effect", () => {
    const text =
      'has no effect with --cdp: upstream would not see that CDP clients use the browser; --cdp-idle-ttl-ms does';
    expect(warningsFrom(['--cdp', '--idle-timeout', '5'])).toEqual([`--idle-timeout: ${text}`]);
    const env = { PLAYWRIGHT_MCP_IDLE_TIMEOUT: '5' };
    expect(warningsFrom(['--cdp'], env)).toEqual([`PLAYWRIGHT_MCP_IDLE_TIMEOUT: ${text}`]);
    expect(warningsFrom(['--idle-timeout', '5'], env)).toEqual([]);
  });

  it('tells once what is given for managed CDP while there is none', () => {
    expect(warningsFrom(['--cdp-policy', 'full', '--cdp-eager'])).toEqual([
      '--cdp-policy: has no effect without --cdp (also --cdp-eager)',
    ]);
    expect(warningsFrom(['--cdp', '--cdp-policy', 'full'])).toEqual([]);
    expect(warningsFrom([...http, '--session-settings', 'cdp', '--cdp-policy', 'full'])).toEqual([]);
    expect(warningsFrom(['--no-cdp'])).toEqual([]);
  });
});
