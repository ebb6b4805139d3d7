import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { plainInitialize, type LineClient } from '../support/client.ts';
import { bridgeProgram, Testbed, textOf } from '../support/testbed.ts';
import { withDeadline } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

function startPlain(args: readonly string[], env: Readonly<Record<string, string>> = {}): LineClient {
  return testbed.startProgram({ program: bridgeProgram, args: ['--cache-dir', testbed.folders.cache, ...args], env });
}

describe('stdout carries JSON-RPC and nothing else', () => {
  test('in a normal run, at the most talkative log level', async () => {
    const client = testbed.start({ args: ['--log-level', 'trace'] });
    await client.initialize();
    await client.request('tools/list');
    await client.call('echo');
    await client.call('cloakbrowser_binary_info');
    await client.call('cloakbrowser_bridge_info');
    await client.close();
    expect(client.strayLines).toEqual([]);
    expect(client.lines.length).toBeGreaterThan(4);
    expect(client.stderr).not.toBe('');
  });

  test.each(ends())('when it is ended by %s in the middle of a call', async (signal) => {
    const client = testbed.start();
    await client.initialize();
    client.send({ id: 'hangs', method: 'tools/call', params: { name: 'never', arguments: {} } });
    await testbed.waitForEvent('received', { tool: 'never' });
    client.kill(signal);
    await withDeadline('the end', client.exited);
    expect(client.strayLines).toEqual([]);
  });

  test('with a browser path that does not exist: the first call tells it', async () => {
    const client = startPlain(['--executable-path', '/no/such/browser']);
    await client.initialize();
    const { result } = await client.request('tools/list', {}, { ms: 30_000 });
    expect(JSON.stringify(result)).toContain('browser_navigate');
    const answer = await client.call('browser_navigate', { url: 'about:blank' }, { ms: 30_000 });
    expect(answer.result?.['isError']).toBe(true);
    expect(textOf(answer)).toContain('/no/such/browser');
    await client.close();
    expect(client.strayLines).toEqual([]);
  });

  test('with a setting in the environment that is wrong: tools are listed, the first call tells it', async () => {
    const client = testbed.start({ env: { CLOAK_PLAYWRIGHT_MCP_START_TIMEOUT_MS: 'soon' } });
    await client.initialize();
    expect(JSON.stringify((await client.request('tools/list')).result)).toContain('"echo"');
    const answer = await client.call('echo');
    expect(answer.result?.['isError']).toBe(true);
    expect(textOf(answer)).toContain('CLOAK_PLAYWRIGHT_MCP_START_TIMEOUT_MS');
    expect(testbed.eventsOf('received', { tool: 'echo' })).toEqual([]);
    await client.close();
    expect(client.strayLines).toEqual([]);
  });

  test('with an upstream program that does not exist: initialize is answered, the first call tells it', async () => {
    const client = startPlain(['--browser-engine', 'playwright', '--upstream-cli', '/no/such/cli.js']);
    await client.initialize();
    expect(JSON.stringify((await client.request('tools/list')).result)).toContain('cloakbrowser_bridge_info');
    expect(textOf(await client.call('browser_navigate'))).toContain('/no/such/cli.js');
    await client.close();
    expect(client.strayLines).toEqual([]);
  });
});

function ends(): NodeJS.Signals[] {
  return ['SIGTERM', 'SIGINT', 'SIGHUP'];
}

describe('stdout stays empty', () => {
  test.each([[['--no-such-flag']], [['--start-timeout-ms', 'soon']], [['--log-level', 'loud']], [['--port', 'soon']]])(
    'on a command line that cannot be used: %s ends with exit code 2 and a reason on stderr',
    async (args) => {
      const client = startPlain(args);
      client.send({ id: 1, method: 'initialize', params: plainInitialize });
      expect(await withDeadline('the end', client.exited)).toEqual({ code: 2, signal: null });
      expect(client.lines).toEqual([]);
      expect(client.strayLines).toEqual([]);
      expect(client.stderr).toContain(args[0]);
    },
  );

  test('--help with a client on stdin prints on stderr', async () => {
    const client = startPlain(['--help']);
    client.send({ id: 1, method: 'initialize', params: plainInitialize });
    expect(await withDeadline('the end', client.exited)).toEqual({ code: 0, signal: null });
    expect(client.lines).toEqual([]);
    expect(client.strayLines).toEqual([]);
    expect(client.stderr).toMatch(/--browser-engine/);
  });
});
