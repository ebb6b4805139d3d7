import { describe, expect, it } from 'vitest';
import { describeSettings, secretValues } from '../../../src/config/resolve.ts';
import { type Given, messagesFrom, resolveFrom } from '../../support/settings.ts';

const http = '--transport=streamable-http';
const token = 'token-of-16-char';
const at = 'config file /etc/bridge.json';
const variable = 'CLOAK_PLAYWRIGHT_MCP_TRANSPORT';

describe('the transport', () => {
  it.each<[given: Given, transport: string, source: string]>([
    [{}, 'stdio', 'default'],
    [{ argv: ['--transport', 'stdio'] }, 'stdio', '--transport'],
    [{ argv: ['--transport', 'streamable-http'] }, 'streamable-http', '--transport'],
    [{ env: { [variable]: 'streamable-http' } }, 'streamable-http', variable],
    [{ file: { transport: 'streamable-http' } }, 'streamable-http', `${at}: transport`],
    [{ argv: ['--port', '3000'] }, 'streamable-http', '--port'],
    [{ argv: ['--host=localhost'] }, 'streamable-http', '--host'],
    [{ argv: ['--port=1', '--http-port=2'] }, 'streamable-http', '--port'],
    [{ argv: ['--port=1', '--transport=streamable-http'] }, 'streamable-http', '--transport'],
    [{ argv: ['--port=1'], env: { [variable]: 'stdio' } }, 'stdio', variable],
    [{ argv: ['--host=localhost'], file: { transport: 'stdio' } }, 'stdio', `${at}: transport`],
    [{ argv: ['--http-port=1'] }, 'stdio', 'default'],
    [{ argv: ['--http-host=localhost'] }, 'stdio', 'default'],
    [{ argv: ['--allowed-hosts', 'a'] }, 'stdio', 'default'],
    [{ env: { PLAYWRIGHT_MCP_PORT: '3000', PLAYWRIGHT_MCP_HOST: 'localhost' } }, 'stdio', 'default'],
    [{ env: { CLOAK_PLAYWRIGHT_MCP_HTTP_PORT: '3000' } }, 'stdio', 'default'],
  ])('of %j is %s, because of %s', (given, transport, source) => {
    const { settings, sources, problems } = resolveFrom(given);
    expect([settings.transport, sources.transport.name, problems]).toEqual([transport, source, []]);
  });

  it.each(['--port=1', '--host=localhost'])('is not both stdio and what %s asks for', (flag) => {
    const { problems } = resolveFrom({ argv: ['--transport', 'stdio', flag] });
    const name = flag.replace(/=.*/, '');
    const message = `${name}: cannot be combined with --transport stdio, which listens on no port`;
    expect(problems).toEqual([{ kind: 'flag', source: name, message }]);
  });
});

describe('over stdio', () => {
  it('settings of the HTTP server are told of in one warning', () => {
    const env = { PLAYWRIGHT_MCP_PORT: '3000', CLOAK_PLAYWRIGHT_MCP_HTTP_FILES: 'false' };
    expect(resolveFrom({ env, argv: ['--replica-id', 'a'], file: { httpSessionMax: 3 } })).toMatchObject({
      problems: [],
      warnings: [
        `PLAYWRIGHT_MCP_PORT: has no effect over stdio (also ${at}: httpSessionMax, --replica-id, CLOAK_PLAYWRIGHT_MCP_HTTP_FILES); --transport streamable-http serves HTTP`,
      ],
    });
    expect(resolveFrom({ argv: ['--drain-delay-ms=1'] }).warnings).toEqual([
      '--drain-delay-ms: has no effect over stdio; --transport streamable-http serves HTTP',
    ]);
  });

  it.each([{ transport: 'stdio' }, { headless: false }, { userDataDir: '/p', isolated: false }])(
    '%j is no reason for a warning',
    (file) => {
      expect(resolveFrom({ file })).toMatchObject({ warnings: [], problems: [] });
    },
  );

  it('a wrong variable or setting of the HTTP server keeps nothing from working', () => {
    const env = { PLAYWRIGHT_MCP_PORT: 'tcp://10.0.0.1:8931' };
    expect(resolveFrom({ env, file: { httpReplayEvents: -1 } })).toMatchObject({
      problems: [],
      settings: { httpPort: 3000, httpReplayEvents: 256 },
      warnings: [
        'PLAYWRIGHT_MCP_PORT: must be a whole number from 0 to 65535, got "tcp://10.0.0.1:8931"; ignored over stdio',
        `${at}: httpReplayEvents: must be a whole number from 0 to 100000, got -1; ignored over stdio`,
      ],
    });
    expect(messagesFrom({ env, argv: [http] })).toHaveLength(1);
    expect(messagesFrom({ argv: ['--http-replay-events', '-1'] })).toHaveLength(1);
  });

  it('an address that others can reach is nothing to refuse', () => {
    expect(messagesFrom({ env: { PLAYWRIGHT_MCP_HOST: '0.0.0.0' } })).toEqual([]);
    expect(messagesFrom({ argv: ['--http-protocol=https', '--https-cert=c'] })).toEqual([]);
  });
});

const plain = 'needs --http-protocol https; plain HTTP would be served';
const beside = 'cannot be combined with --https-pfx, which holds certificate and key';

describe('the certificate', () => {
  it.each<[argv: string[], lines: string[]]>([
    [['--http-protocol=https', '--https-cert=c', '--https-key=k'], []],
    [['--http-protocol=https', '--https-cert=c', '--https-key=k', '--https-passphrase=x'], []],
    [['--http-protocol=https', '--https-pfx=p'], []],
    [['--http-protocol=https', '--https-pfx=p', '--https-passphrase=x'], []],
    [['--http-protocol=https'], ['--http-protocol: https needs --https-cert with --https-key, or --https-pfx']],
    [
      ['--http-protocol=https', '--https-passphrase=x'],
      ['--http-protocol: https needs --https-cert with --https-key, or --https-pfx'],
    ],
    [['--http-protocol=https', '--https-cert=c'], ['--https-cert: needs --https-key beside it']],
    [['--http-protocol=https', '--https-key=k'], ['--https-key: needs --https-cert beside it']],
    [['--http-protocol=https', '--https-pfx=p', '--https-key=k'], [`--https-key: ${beside}`]],
    [
      ['--http-protocol=https', '--https-pfx=p', '--https-cert=c', '--https-key=k'],
      [`--https-cert: ${beside}`, `--https-key: ${beside}`],
    ],
    [
      ['--https-cert=c', '--https-key=k'],
      [`--https-cert: ${plain}`, `--https-key: ${plain}`],
    ],
    [['--https-pfx=p'], [`--https-pfx: ${plain}`]],
    [['--http-protocol=http', '--https-passphrase=x'], [`--https-passphrase: ${plain}`]],
  ])('of %j', (argv, lines) => {
    expect(messagesFrom({ argv: [http, ...argv] })).toEqual(lines);
  });

  it('is told of by where it was set', () => {
    const env = { CLOAK_PLAYWRIGHT_MCP_HTTPS_CERT: 'c', CLOAK_PLAYWRIGHT_MCP_HTTP_PROTOCOL: 'https' };
    const { problems } = resolveFrom({ argv: [http], env });
    expect(problems.map(({ kind, source }) => [kind, source])).toEqual([['env', 'CLOAK_PLAYWRIGHT_MCP_HTTPS_CERT']]);
  });
});

describe('an address that others can reach', () => {
  const open = (host: string): string =>
    `--http-host: ${JSON.stringify(host)} can be reached by others, who could then use the browser without a token; give --http-auth-token or --http-auth-token-file, or --http-allow-unauthenticated if that is meant`;

  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.org', '127.example.org', '128.0.0.1', '127.1', '::2', 'localhost.a'])(
    'such as %s needs a token',
    (host) => {
      expect(messagesFrom({ argv: [http, '--http-host', host] })).toEqual([open(host)]);
    },
  );

  it.each(['127.0.0.1', '127.255.255.254', '::1', 'localhost', 'LocalHost'])('is not %s', (host) => {
    expect(messagesFrom({ argv: [http, '--http-host', host] })).toEqual([]);
  });

  it.each<Given>([
    { argv: ['--http-auth-token', token] },
    { argv: ['--http-auth-token-file', 't'] },
    { argv: ['--http-allow-unauthenticated'] },
    { env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: token } },
    { file: { httpAuthToken: [token] } },
  ])('is served with %j', ({ argv = [], ...others }) => {
    expect(resolveFrom({ ...others, argv: ['--host=0.0.0.0', ...argv] })).toMatchObject({ problems: [], warnings: [] });
  });

  it('is refused by where it was set, also with an empty list of tokens', () => {
    const env = { PLAYWRIGHT_MCP_HOST: '::', CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: '[]' };
    const { problems } = resolveFrom({ argv: [http], env });
    expect(problems.map(({ kind, source }) => [kind, source])).toEqual([['env', 'PLAYWRIGHT_MCP_HOST']]);
  });

  it('is refused when its token is wrong, and twice when both are', () => {
    expect(messagesFrom({ argv: [http, '--http-auth-token='] })).toHaveLength(1);
    expect(messagesFrom({ argv: ['--host=::', '--http-auth-token', 'short'] })).toHaveLength(2);
  });
});

describe('over HTTP', () => {
  const ignored = 'ignored: over HTTP each session has a temporary profile of its own';

  it.each<[given: Given, warnings: string[]]>([
    [{}, []],
    [{ argv: ['--isolated'] }, []],
    [{ argv: ['--no-isolated'] }, [`--no-isolated: ${ignored}`]],
    [{ argv: ['--user-data-dir=/p'] }, [`--user-data-dir: ${ignored}`]],
    [{ env: { PLAYWRIGHT_MCP_ISOLATED: 'false' } }, [`PLAYWRIGHT_MCP_ISOLATED: ${ignored}`]],
    [{ env: { PLAYWRIGHT_MCP_USER_DATA_DIR: '/p' } }, [`PLAYWRIGHT_MCP_USER_DATA_DIR: ${ignored}`]],
    [
      { argv: ['--http-allow-unauthenticated', `--http-auth-token=${token}`] },
      ['--http-allow-unauthenticated: has no effect, a token is given and asked for'],
    ],
    [
      { argv: ['--drain-delay-ms=20001'] },
      ['--drain-delay-ms: ends after 20000 ms already, since --drain-timeout-ms is shorter'],
    ],
    [{ argv: ['--drain-delay-ms=20000'] }, []],
    [{ env: { PLAYWRIGHT_MCP_PORT: '3000', PLAYWRIGHT_MCP_HOST: '::1' } }, []],
  ])('%j warns %j', ({ argv = [], ...others }, warnings) => {
    expect(resolveFrom({ ...others, argv: [http, ...argv] })).toMatchObject({ problems: [], warnings });
  });
});

describe('tokens and passphrase', () => {
  const secret = 'hunter2hunter2hunter2';

  it.each<Given>([
    { argv: ['--http-auth-token', `${secret},short`] },
    { argv: [`--http-auth-token=${secret} x`] },
    { argv: [`--http-auth-token=["${secret}", 1]`] },
    { argv: [`--http-auth-token=["${secret}"`] },
    { argv: ['--http-auth-tokens', secret] },
    { argv: [`--http-auth-tokens=${secret}`] },
    { argv: [`--https-passphrase=${secret}`] },
    { env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: `${secret} ` + `x` } },
    { env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKENS: secret } },
    { env: { CLOAK_PLAYWRIGHT_MCP_HTTPS_PASSPHRASE: secret } },
    { file: { httpAuthToken: secret } },
    { file: { httpAuthToken: [[secret]] } },
    { file: { httpsPassphrase: [secret] } },
    { file: { httpAuthTokens: secret } },
  ])('never show in what is told of %j', (given) => {
    for (const argv of [[http], ['--transport=stdio']]) {
      const { problems, warnings } = resolveFrom({ ...given, argv: [...argv, ...(given.argv ?? [])] });
      expect([...problems, ...warnings].length).toBeGreaterThan(0);
      expect(JSON.stringify([problems, warnings])).not.toContain('hunter2');
    }
  });

  it('are described as given and nothing more, and known to whoever masks texts', () => {
    const argv = [http, `--http-auth-token=${secret},${token}`, '--http-protocol=https', '--https-pfx=p'];
    const resolved = resolveFrom({ argv, env: { CLOAK_PLAYWRIGHT_MCP_HTTPS_PASSPHRASE: 'open sesame' } });
    const described = describeSettings(resolved);
    expect(JSON.stringify(described)).not.toMatch(/hunter2|token-of|sesame/);
    expect(described).toContainEqual({
      name: 'httpAuthToken',
      value: ['[redacted]', '[redacted]'],
      source: '--http-auth-token',
    });
    expect(described).toContainEqual({
      name: 'httpsPassphrase',
      value: '[redacted]',
      source: 'CLOAK_PLAYWRIGHT_MCP_HTTPS_PASSPHRASE',
    });
    expect(secretValues(resolved.settings)).toEqual([secret, token, 'open sesame']);
  });

  it('are described as missing when nobody gave them', () => {
    const resolved = resolveFrom({});
    expect(describeSettings(resolved)).toContainEqual({ name: 'httpAuthToken', value: [], source: 'default' });
    expect(describeSettings(resolved)).toContainEqual({ name: 'httpsPassphrase', value: null, source: 'default' });
    expect(secretValues(resolved.settings)).toEqual([]);
  });
});
