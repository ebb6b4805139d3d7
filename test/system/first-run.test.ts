import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findTestBrowser } from '../support/browser.ts';
import { callText } from '../support/browser-bed.ts';
import type { JsonObject, LineClient } from '../support/client.ts';
import { browsersOf, startFirstRun } from '../support/first-run.ts';
import { startPageServer } from '../support/page-server.ts';
import { bridgeProgram, structuredOf, Testbed, textOf } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';
import { holdBack, startDownloadServer } from './binary-downloads.ts';
import type { DownloadServer, HeldArchive } from './binary-downloads.ts';

let testbed: Testbed;
let held: HeldArchive;
let server: DownloadServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  held = holdBack();
  server = await startDownloadServer(held.answer);
});

afterEach(async () => {
  await testbed.close();
  await server.close();
});

/** Starts with nothing stored; gives the time from the start to the tool list. */
async function timeToList(run: string, env: Record<string, string> = {}): Promise<number> {
  const args = ['--cache-dir', join(testbed.folders.root, run)];
  const client = startFirstRun(testbed, { url: server.url, args, env });
  const started = performance.now();
  await client.initialize();
  expect(JSON.stringify((await client.request('tools/list')).result)).toContain('"echo"');
  const took = performance.now() - started;
  await client.close();
  return took;
}

/** A browser that is installed, for a bridge that never launches it. */
function installedBrowser(): string {
  const path = join(testbed.folders.root, 'chrome');
  writeFileSync(path, '#!/bin/sh\n');
  chmodSync(path, 0o755);
  return path;
}

async function stateOf(client: LineClient): Promise<JsonObject> {
  return structuredOf(await client.call('cloakbrowser_binary_info'));
}

describe('a first run whose download brings one byte a second', () => {
  test('initialize and tools/list take no longer than with the browser installed', async () => {
    const present: number[] = [];
    const missing: number[] = [];
    for (let run = 0; run < 2; run += 1) {
      present.push(await timeToList(`present-${run}`, { CLOAKBROWSER_BINARY_PATH: installedBrowser() }));
      missing.push(await timeToList(`missing-${run}`));
    }
    expect(Math.min(...missing)).toBeLessThan(4 * Math.min(...present));
  });

  test('an early call ends with how far the download is, and a later one works after one download', async () => {
    const client = startFirstRun(testbed, { url: server.url, args: ['--start-timeout-ms', '5000'] });
    await client.initialize();
    client.send({ id: 'level', method: 'logging/setLevel', params: { level: 'info' } });
    const early = client.answerTo('early');
    const params = { name: 'inspect', arguments: {}, _meta: { progressToken: 'token' } };
    client.send({ id: 'early', method: 'tools/call', params });

    const told = await client.seen('progress', ({ method }) => method === 'notifications/progress');
    expect(told.params).toMatchObject({
      progressToken: 'token',
      progress: expect.any(Number),
      total: expect.any(Number),
    });
    const words = /^downloading CloakBrowser \d+ %, \d+ of \d+ MB$/;
    expect(told.params?.['message']).toMatch(words);
    expect((await client.request('ping')).result).toEqual({});
    expect(await stateOf(client)).toMatchObject({
      installed: false,
      download: { state: 'downloading', host: server.host, receivedBytes: expect.any(Number) },
    });
    const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
    expect(info).toMatchObject({ generation: { number: 1, state: 'starting' }, startFailure: null });
    expect(client.countAnswers('early')).toBe(0);

    const answer = await early;
    expect(answer.result?.['isError']).toBe(true);
    expect(textOf(answer)).toMatch(/not ready yet after 5000 ms: downloading CloakBrowser \d+ %, \d+ of \d+ MB/);
    expect(textOf(answer)).toMatch(/Try the call again/);
    const message = client.messagesOf('notifications/message')[0]?.params;
    expect(message).toMatchObject({ level: 'info', logger: 'cloakbrowser-mcp', data: expect.stringMatching(words) });
    const amounts = client.messagesOf('notifications/progress').map(({ params: told }) => Number(told?.['progress']));
    expect(amounts.every((amount, index) => index === 0 || amount > Number(amounts[index - 1]))).toBe(true);

    held.release();
    const { argv } = structuredOf(await client.call('inspect')) as { argv: string[] };
    const path = argv[argv.indexOf('--executable-path') + 1];
    expect(path).toMatch(new RegExp(`^${browsersOf(testbed)}/chromium-[\\d.]+/chrome$`));
    expect(await stateOf(client)).toMatchObject({
      installed: true,
      path,
      source: 'downloaded',
      download: { state: 'ready' },
    });
    expect(server.archives).toHaveLength(1);
    expect(testbed.counts()).toMatchObject({ calls: 1, answered: expect.any(Number) });
    expect(await client.close()).toEqual({ code: 0, signal: null });
    expect(client.stderr).toMatch(/\d+ %, \d+ of \d+ MB from 127\.0\.0\.1/);
    expect(client.strayLines).toEqual([]);
  });

  test('a call that still waits when the browser arrives opens its page', async () => {
    const program = `#!/bin/sh\nexec "${findTestBrowser().path}" "$@"\n`;
    const site = await startPageServer();
    const source = await startDownloadServer(held.answer, { program });
    const client = testbed.startProgram({
      program: bridgeProgram,
      args: ['--cache-dir', testbed.folders.cache, '--isolated'],
      env: { CLOAKBROWSER_CACHE_DIR: browsersOf(testbed), CLOAKBROWSER_DOWNLOAD_URL: source.url },
    });
    await client.initialize();
    expect(JSON.stringify((await client.request('tools/list')).result)).toContain('"browser_navigate"');
    const page = callText(client, 'browser_navigate', { url: `${site.url}/home` });
    await waitUntil('bytes', async () => {
      const { download } = await stateOf(client);
      return (download as JsonObject)['state'] === 'downloading' ? true : undefined;
    });
    held.release();
    expect(await page).toContain('/home');
    expect(site.hits).toContain('/home');
    expect(source.archives).toHaveLength(1);
    await client.close();
    expect(client.strayLines).toEqual([]);
    await source.close();
    await site.close();
  });
});
