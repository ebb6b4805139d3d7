import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import { endCleanly, failedCall, goodCall, greet, startFirstRun } from '../support/first-run.ts';
import { descendantsOf } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { withDeadline } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

/** Four mistakes in two places. */
function wrongSettings(): { file: string; env: Record<string, string> } {
  const file = join(testbed.folders.root, 'settings.json');
  writeFileSync(file, JSON.stringify({ restartMax: 'many', headles: true }));
  const env = { CLOAK_PLAYWRIGHT_MCP_CONFIG_FILE: file, CLOAK_PLAYWRIGHT_MCP_START_TIMEOUT_MS: 'soon' };
  return { file, env: { ...env, CLOAKBROWSER_RELEASE_CHANNEL: 'nightly' } };
}

function expectAllNamed(text: string, file: string): void {
  expect(text).toMatch(/CLOAK_PLAYWRIGHT_MCP_START_TIMEOUT_MS.*soon/);
  expect(text).toMatch(/CLOAKBROWSER_RELEASE_CHANNEL.*nightly/);
  expect(text).toContain(`config file ${file}: restartMax`);
  expect(text).toMatch(/headles.*unknown setting.*headless/);
}

describe('settings that are wrong', () => {
  test('in the environment and the config file: the server stays, the call names each with its source', async () => {
    const { file, env } = wrongSettings();
    const client = startFirstRun(testbed, { url: 'http://127.0.0.1:9', env });
    await greet(client);
    expectAllNamed(await failedCall(client), file);
    const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
    expect(info['problems']).toHaveLength(4);
    expectAllNamed((info['problems'] as string[]).join('\n'), file);
    expect(info['startFailure']).toMatchObject({ code: 'config', hint: expect.stringContaining('doctor') });
    // Not the storm guard's text, however often it is tried: a setting does not mend itself within a minute.
    for (let n = 0; n < 6; n += 1) expectAllNamed(await failedCall(client), file);
    expectAllNamed(client.stderr, file);
    expect(testbed.counts().calls).toBe(0);
    await endCleanly(client);
  });

  test('on the command line: the program ends with 2 and all problems on stderr, and starts nothing', async () => {
    const { file, env } = wrongSettings();
    const args = ['--headles', '--log-level', 'loud'];
    const client = startFirstRun(testbed, { url: 'http://127.0.0.1:9', env, args });
    client.send({ id: 1, method: 'initialize', params: {} });
    expect(await withDeadline('the end', client.exited)).toEqual({ code: 2, signal: null });
    expect(client.lines).toEqual([]);
    expectAllNamed(client.stderr, file);
    expect(client.stderr).toMatch(/--headles.*--headless/);
    expect(client.stderr).toMatch(/--log-level.*loud/);
    expect(testbed.events()).toEqual([]);
    expect(descendantsOf(client.pid)).toEqual([]);
    expect(readdirSync(testbed.folders.tmp)).toEqual([]);
  });
});

describe('a stored catalog', () => {
  async function tools(client: LineClient): Promise<string[]> {
    const { result } = await client.request('tools/list');
    return ((result ?? {})['tools'] as { name: string }[]).map(({ name }) => name);
  }

  function storedFile(): string {
    const names = readdirSync(testbed.folders.cache);
    expect(names).toHaveLength(1);
    return join(testbed.folders.cache, names[0] ?? '');
  }

  function change(edit: (stored: { key: string; catalog: Record<string, unknown> }) => void): string {
    const path = storedFile();
    const stored = JSON.parse(readFileSync(path, 'utf8')) as { key: string; catalog: Record<string, unknown> };
    edit(stored);
    return JSON.stringify(stored);
  }

  const broken: { name: string; content: () => string | Buffer }[] = [
    { name: 'of random bytes', content: () => Buffer.from([0, 255, 1, 254]) },
    { name: 'that is empty', content: () => '' },
    { name: 'with the key of another version', content: () => change((stored) => (stored.key = 'f'.repeat(64))) },
    { name: 'without tools', content: () => change((stored) => delete stored.catalog['tools']) },
    {
      name: 'with a tool that is no JSON',
      content: () =>
        change((stored) => {
          stored.catalog['tools'] = [{ name: 'echo', text: '{"name":"echo"' }];
        }),
    },
    {
      name: 'with a tool of another name',
      content: () =>
        change((stored) => {
          stored.catalog['tools'] = [{ name: 'echo', text: '{"name":"other"}' }];
        }),
    },
    { name: 'that is null', content: () => 'null' },
  ];

  test.each(broken)('$name is dropped and learned again, and the client gets the right list', async ({ content }) => {
    await testbed.learnCatalog();
    const path = storedFile();
    const good = readFileSync(path, 'utf8');
    writeFileSync(path, content());
    const client = testbed.start();
    await client.initialize();
    expect(await tools(client)).toContain('inspect');
    expect(readFileSync(path, 'utf8')).toBe(good);
    expect(client.stderr).toContain('stored catalog dropped');
    await goodCall(client);
    expect(client.messagesOf('notifications/tools/list_changed')).toEqual([]);
    await endCleanly(client);
  });

  test('that is older than the real list: the client is told once, and the file is written anew', async () => {
    await testbed.learnCatalog();
    const path = storedFile();
    const good = readFileSync(path, 'utf8');
    const older = change(({ catalog }) => {
      catalog['tools'] = (catalog['tools'] as unknown[]).slice(2);
    });
    writeFileSync(path, older);
    const client = testbed.start();
    await client.initialize();
    expect(await tools(client)).not.toContain('echo');
    await client.seen('the change', ({ method }) => method === 'notifications/tools/list_changed');
    expect(await tools(client)).toContain('echo');
    expect(readFileSync(path, 'utf8')).toBe(good);
    await goodCall(client);
    expect(client.messagesOf('notifications/tools/list_changed')).toHaveLength(1);
    await endCleanly(client);
  });
});
