import { describe, expect, it } from 'vitest';

import { readStatus, statusToken, statusUrl } from '../../../src/cli/status.ts';
import type { StatusQuery } from '../../../src/cli/status-query.ts';
import type { Settings } from '../../../src/config/options.ts';
import type { BridgeError } from '../../../src/core/errors.ts';
import { resolveFrom } from '../../support/settings.ts';

function settingsOf(...argv: string[]): Settings {
  const { settings, problems } = resolveFrom({ argv: ['status', ...argv] });
  expect(problems).toEqual([]);
  return settings;
}

function failureOf(work: () => unknown): BridgeError {
  try {
    work();
  } catch (failure) {
    return failure as BridgeError;
  }
  throw new Error('nothing was thrown');
}

describe('the address that is asked', () => {
  it.each([
    [[], 'http://127.0.0.1:3000/status'],
    [['--http-port', '8080', '--http-host', 'box'], 'http://box:8080/status'],
    [['--http-host', '::1'], 'http://[::1]:3000/status'],
    [['--http-host', '0.0.0.0'], 'http://127.0.0.1:3000/status'],
    [['--http-host', '::'], 'http://[::1]:3000/status'],
    [['--http-protocol', 'https'], 'https://127.0.0.1:3000/status'],
  ])('with the settings %j is %s', (argv, url) => {
    expect(statusUrl(undefined, settingsOf(...argv)).href).toBe(url);
  });

  it.each([
    ['https://mcp.example.org', 'https://mcp.example.org/status'],
    ['http://10.0.0.1:3000/mcp?x=1#y', 'http://10.0.0.1:3000/status'],
    ['http://user:word@box:1', 'http://box:1/status'],
  ])('given as %s is %s', (given, url) => {
    expect(statusUrl(given, settingsOf('--http-port', '0')).href).toBe(url);
  });

  it('must be given when the system chose the port', () => {
    const error = failureOf(() => statusUrl(undefined, settingsOf('--http-port', '0')));
    expect(error).toMatchObject({ code: 'usage', message: expect.stringContaining('--http-port 0') });
  });

  it('is told as wrong without its credentials', () => {
    const error = failureOf(() => statusUrl('http://user:word@box:99999999', settingsOf()));
    expect(error.code).toBe('usage');
    expect(error.message).not.toContain('word');
  });
});

describe('the token that is shown to the server', () => {
  const first = 'first-token-of-them';
  const second = 'second-token-of-them';
  const noFile = (): string => {
    throw new Error('ENOENT: no such file');
  };

  it('is the first of the setting', () => {
    const settings = settingsOf('--http-auth-token', `${first},${second}`, '--http-auth-token-file', '/t');
    expect(statusToken(settings, noFile)).toBe(first);
  });

  it('is the first of the file, comments and empty lines left out', () => {
    const settings = settingsOf('--http-auth-token-file', '/t');
    expect(statusToken(settings, () => `# mine\r\n\r\n  ${second}\r\n${first}\n`)).toBe(second);
  });

  it('is none without a setting', () => {
    expect(statusToken(settingsOf(), noFile)).toBeUndefined();
  });

  it.each([
    ['cannot be read', noFile],
    ['holds no token', (): string => '# nothing\n'],
    ['holds no token', (): string => 'two words of token\n'],
  ])('of a file that %s is an error naming the setting', (words, readFile) => {
    const error = failureOf(() => statusToken(settingsOf('--http-auth-token-file', '/t'), readFile));
    expect(error.code).toBe('config');
    expect(error.message).toContain(`--http-auth-token-file ${words}`);
  });
});

describe('the answer of a server', () => {
  const query: StatusQuery = { url: new URL('http://box:1/status'), token: undefined, certificate: undefined };
  const told = { name: 'cloakbrowser-mcp', sessions: [], limits: {}, startQueue: {}, spares: {} };

  function refusal(status: number, reason: string): { readonly status: number; readonly text: string } {
    const error = {
      code: -32600,
      message: 'Host box is not allowed.',
      data: { reason, hint: 'Set --http-allowed-hosts.' },
    };
    return { status, text: JSON.stringify({ jsonrpc: '2.0', id: null, error }) };
  }

  it('is a status when our server gave it', () => {
    expect(readStatus(query, { status: 200, text: JSON.stringify(told) })).toEqual(told);
  });

  it.each([
    [200, '<html>'],
    [200, 'null'],
    [200, '[]'],
    [200, JSON.stringify({ ...told, name: 'other' })],
    [200, JSON.stringify({ ...told, spares: undefined })],
    [200, JSON.stringify({ ...told, sessions: null })],
    [404, 'not found'],
    [302, ''],
    [500, '{"error":"x"}'],
    [404, refusal(404, 'http_path').text],
  ])('%d %s comes from another program', (status, text) => {
    const error = failureOf(() => readStatus(query, { status, text }));
    expect(error).toMatchObject({ code: 'server_unreachable', hint: expect.stringContaining('--http-port') });
    expect(error.message).toContain('http://box:1/status: what answers there is no cloakbrowser-mcp server');
  });

  it('401 names the settings that hold a token', () => {
    const answer = refusal(401, 'unauthorized');
    const without = failureOf(() => readStatus(query, answer));
    expect(without.message).toBe('http://box:1/status: the server asks for a token.');
    expect(without.hint).toMatch(/--http-auth-token-file.*CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN/);
    const wrong = failureOf(() => readStatus({ ...query, token: 'some-wrong-token-of-ours' }, answer));
    expect(wrong.message).toContain('the server does not know the token');
    expect(`${wrong.message}${wrong.hint}`).not.toContain('some-wrong-token-of-ours');
  });

  it('of refusal is passed on with what the server says against it', () => {
    expect(failureOf(() => readStatus(query, refusal(403, 'host_refused')))).toMatchObject({
      code: 'server_unreachable',
      message: 'http://box:1/status: the server refuses with 403: Host box is not allowed.',
      hint: 'Set --http-allowed-hosts.',
    });
  });
});
