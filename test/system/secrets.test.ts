import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

interface Inspected {
  readonly argv: string[];
  readonly env: Record<string, string>;
  readonly cwd: string;
}

async function inspect(client: LineClient): Promise<Inspected> {
  return structuredOf(await client.call('inspect')) as unknown as Inspected;
}

describe('the environment of the child', () => {
  test('has nothing of the host that is not on the list or named by --child-env', async () => {
    const client = testbed.start({
      env: {
        AWS_SECRET_ACCESS_KEY: 'aws-secret',
        GITHUB_TOKEN: 'gh-secret',
        NODE_OPTIONS: '',
        LC_ALL: 'C',
        WANTED: 'yes',
      },
      args: ['--child-env', 'WANTED'],
    });
    await client.initialize();
    const { env } = await inspect(client);
    expect(env).toMatchObject({ HOME: testbed.folders.home, LC_ALL: 'C', WANTED: 'yes' });
    expect(Object.keys(env)).not.toContain('AWS_SECRET_ACCESS_KEY');
    expect(Object.keys(env)).not.toContain('GITHUB_TOKEN');
    expect(JSON.stringify(env)).not.toMatch(/aws-secret|gh-secret/);
  });

  test('has a temporary folder of its own, below the one of the bridge and private', async () => {
    const client = testbed.start();
    await client.initialize();
    const { env, cwd } = await inspect(client);
    const own = env['TMPDIR'] ?? '';
    expect(own.startsWith(`${testbed.folders.tmp}/`)).toBe(true);
    expect(own.length).toBeLessThanOrEqual(62);
    expect(statSync(own).mode & 0o777).toBe(0o700);
    expect(cwd).toBe(testbed.folders.cwd);
  });

  test('upstream settings that the bridge owns do not reach it, the others do', async () => {
    const client = testbed.start({
      env: {
        PLAYWRIGHT_MCP_PORT: '9',
        PLAYWRIGHT_MCP_CDP_ENDPOINT: 'http://127.0.0.1:9',
        PLAYWRIGHT_MCP_ISOLATED: 'true',
        PLAYWRIGHT_MCP_TIMEOUT_ACTION: '1234',
      },
    });
    await client.initialize();
    const { env, argv } = await inspect(client);
    const passed = Object.keys(env).filter((name) => name.startsWith('PLAYWRIGHT_MCP_'));
    expect(passed).toEqual(['PLAYWRIGHT_MCP_TIMEOUT_ACTION']);
    expect(argv).toContain('--isolated');
    expect(client.stderr).toContain('PLAYWRIGHT_MCP_PORT');
    expect(client.stderr).toContain('PLAYWRIGHT_MCP_CDP_ENDPOINT');
    expect(client.stderr).not.toContain('PLAYWRIGHT_MCP_ISOLATED');
  });

  test('flags of upstream and what follows -- are passed on', async () => {
    const client = testbed.start({ args: ['--caps', 'pdf,vision', '--save-session', '--', '--later-flag', 'x'] });
    await client.initialize();
    const { argv } = await inspect(client);
    expect(argv).toContain('--save-session');
    expect(argv.join(' ')).toMatch(/--caps[= ]pdf,vision/);
    expect(argv.slice(argv.indexOf('--later-flag'))).toContain('x');
  });
});

describe('secrets', () => {
  const secret = 'pass-w0rd%21';
  const proxy = `http://proxy-user:${secret}@127.0.0.1:9`;

  test('a proxy password is in a file that only the owner can read, and nowhere else', async () => {
    const client = testbed.start({
      args: ['--log-level', 'trace'],
      env: { PLAYWRIGHT_MCP_PROXY_SERVER: proxy },
    });
    await client.initialize();
    const { argv, env } = await inspect(client);
    const path = argv[argv.indexOf('--config') + 1] ?? '';
    expect(readFileSync(path, 'utf8')).toContain('pass-w0rd!');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    expect(JSON.stringify({ argv, env })).not.toMatch(/pass-w0rd/);
    await client.call('stderr', { text: `launching with --proxy ${proxy} and pass-w0rd! inside` });
    const info = JSON.stringify(await client.call('cloakbrowser_bridge_info'));
    const failure = JSON.stringify(await client.call('exit', { reason: `failed: ${proxy} pass-w0rd!` }));
    await client.close();
    for (const text of [info, failure, client.stderr]) expect(text).not.toMatch(/pass-w0rd/);
    expect(() => statSync(path)).toThrow('ENOENT');
  });
});

describe('a password that is also an ordinary word or number', () => {
  test.each(['0000', 'true', 'name', 'state'])('%s leaves the answers and the log whole', async (password) => {
    const client = testbed.start({
      args: ['--proxy-server', `http://someone:${password}@127.0.0.1:9`, '--log-level', 'debug'],
    });
    await client.initialize();
    const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
    expect(info).toMatchObject({ name: 'cloakbrowser-mcp', session: { state: 'open', uptimeMs: expect.any(Number) } });
    const shown = (info['settings'] as { name: string; value: unknown }[]).find(({ name }) => name === 'proxyServer');
    expect(shown?.value).toBe('http://[redacted]@127.0.0.1:9');
    const lines = client.stderr.split('\n').filter((line) => line.startsWith('{'));
    for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
  });
});

describe("a password in the user's own upstream configuration", () => {
  test('is not in the log', async () => {
    const config = join(testbed.folders.root, 'upstream.json');
    writeFileSync(
      config,
      JSON.stringify({ browser: { launchOptions: { proxy: { server: 'http://h:1', password: 'fi1e-passw0rd' } } } }),
    );
    const client = testbed.start({
      args: ['--config', config, '--log-level', 'debug'],
      fake: { SAY: 'fi1e-passw0rd' },
    });
    await client.initialize();
    await client.call('echo', { text: 'fi1e-passw0rd' });
    client.endStdin();
    await client.exited;
    expect(client.stderr).not.toContain('fi1e-passw0rd');
  });
});
