import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import {
  browserLeftovers,
  endCleanly,
  failedCall,
  type FirstRunOptions,
  goodCall,
  greet,
  startFirstRun,
} from '../support/first-run.ts';
import { listEntries } from '../support/folders.ts';
import { structuredOf, Testbed, textOf } from '../support/testbed.ts';
import { copyBridge, removePrograms, sendSlowly, startDownloadServer } from './binary-downloads.ts';
import type { DownloadServer } from './binary-downloads.ts';

let testbed: Testbed;
let server: DownloadServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  server = await startDownloadServer();
});

afterEach(async () => {
  await testbed.close();
  await server.close();
});

afterAll(removePrograms);

function startFirst(options: Partial<FirstRunOptions>): LineClient {
  return startFirstRun(testbed, { url: server.url, ...options });
}

describe('a first run', () => {
  test('with a file in place of the home folder, until it is one', async () => {
    const home = join(testbed.folders.root, 'file');
    writeFileSync(home, '');
    const env = { HOME: home, CLOAKBROWSER_CACHE_DIR: '' };
    const client = startFirst({ env, args: ['--cache-dir', join(home, '.cache', 'cloakbrowser-mcp')] });
    await greet(client);
    const text = await failedCall(client);
    expect(text).toContain(`The folder ${join(home, '.cloakbrowser')} cannot be written`);
    expect(text).toMatch(/CLOAKBROWSER_CACHE_DIR.*--binary-path.*--browser-engine playwright/);
    expect(server.archives).toEqual([]);
    rmSync(home);
    mkdirSync(home);
    await goodCall(client);
    await endCleanly(client);
  });

  test('with a home folder below /proc', async () => {
    const env = { HOME: '/proc/no-home', CLOAKBROWSER_CACHE_DIR: '' };
    const client = startFirst({ env, args: ['--cache-dir', '/proc/no-home/.cache/cloakbrowser-mcp'] });
    await greet(client);
    expect(await failedCall(client)).toContain('The folder /proc/no-home/.cloakbrowser cannot be written');
    await endCleanly(client);
  });

  test('in the root of the file system', async () => {
    const client = startFirst({ cwd: '/' });
    await greet(client);
    const { cwd } = structuredOf(await client.call('inspect', {}, { ms: 20_000 }));
    expect(String(cwd).startsWith(testbed.folders.home)).toBe(true);
    expect(client.stderr).toContain(`the working folder / is the root of the file system; files go to ${String(cwd)}`);
    await endCleanly(client);
  });

  test('on a platform without a build', async () => {
    const program = await copyBridge('platform', "Object.defineProperty(process, 'platform', { value: 'sunos' });");
    const client = startFirst({ program });
    await greet(client);
    const text = await failedCall(client);
    expect(text).toMatch(/^CloakBrowser has no build for this machine: .*sunos/);
    expect(text).toMatch(/--binary-path.*--browser-engine playwright/);
    expect(structuredOf(await client.call('cloakbrowser_binary_info'))).toMatchObject({
      installed: false,
      download: { state: 'failed', code: 'platform' },
    });
    expect(server.archives).toEqual([]);
    await endCleanly(client);
  });

  test('with a licence key that the licence server cannot be asked about', async () => {
    const program = await copyBridge(
      'licence',
      `const { fetch } = globalThis;
       globalThis.fetch = (input, init) =>
         fetch(String(input).replace(/^https:\\/\\/[^/]+/, ${JSON.stringify(server.url)}), init);`,
    );
    const env = { CLOAKBROWSER_LICENSE_KEY: 'licence-of-a-test', CLOAKBROWSER_DOWNLOAD_URL: '' };
    const client = startFirst({ program, env });
    await greet(client);
    const text = await failedCall(client);
    expect(text).toMatch(/license could not be validated/);
    expect(text).toMatch(/CLOAKBROWSER_LICENSE_KEY.*--binary-path.*--browser-engine playwright/);
    expect(structuredOf(await client.call('cloakbrowser_binary_info'))).toMatchObject({
      download: { state: 'failed', code: 'licence' },
    });
    const asked = server.requests.length;
    expect(asked).toBeGreaterThan(0);
    await failedCall(client);
    expect(server.requests.length).toBeGreaterThan(asked);
    await endCleanly(client);
    expect(client.stderr + client.lines.join('\n')).not.toContain('licence-of-a-test');
  });

  test('with a licence key and a download server of one’s own, which needs none', async () => {
    const client = startFirst({ env: { CLOAKBROWSER_LICENSE_KEY: 'licence-of-a-test' } });
    await greet(client);
    await goodCall(client);
    expect(server.archives).toHaveLength(1);
    await endCleanly(client);
    expect(client.stderr + client.lines.join('\n')).not.toContain('licence-of-a-test');
  });

  test('that ends in the middle of its download leaves nothing', async () => {
    server.answer = sendSlowly;
    const client = startFirst({});
    await greet(client);
    const waiting = client.call('echo');
    await client.seen('the request', () => server.archives.length > 0);
    client.endStdin();
    expect(textOf(await waiting)).toMatch(/session is ending/);
    await endCleanly(client);
    expect(await browserLeftovers(testbed)).toEqual([]);
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  });
});
