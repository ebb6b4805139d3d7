import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import { browserLeftovers, browsersOf, endCleanly, goodCall, greet, startFirstRun } from '../support/first-run.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
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

function start(): LineClient {
  return startFirstRun(testbed, { url: server.url });
}

/** Waits until a bridge is in the middle of a download, its own or another one's. */
function waitForDownload(client: LineClient): Promise<unknown> {
  return waitUntil('the download', async () => {
    const { download } = structuredOf(await client.call('cloakbrowser_binary_info'));
    return (download as { state: string }).state === 'downloading' ? true : undefined;
  });
}

async function infoOf(client: LineClient): Promise<unknown> {
  return structuredOf(await client.call('cloakbrowser_binary_info'));
}

/** Nothing but the installed browser is left. */
async function expectOneBrowser(): Promise<void> {
  expect(await browserLeftovers(testbed)).toEqual([expect.stringMatching(/^chromium-[\d.]+$/)]);
}

describe('two bridges with identical settings at once', () => {
  test('both list their tools, share one download that both tell of, and both work', async () => {
    const clients = [start(), start()];
    await Promise.all(clients.map(greet));
    const calls = clients.map(goodCall);
    await Promise.all(clients.map(waitForDownload));
    held.release();
    await Promise.all(calls);
    expect(server.archives).toHaveLength(1);
    const sources = (await Promise.all(clients.map(infoOf))) as { source: string }[];
    expect(sources.map(({ source }) => source).toSorted()).toEqual(['cache', 'downloaded']);
    await Promise.all(clients.map(endCleanly));
    await expectOneBrowser();
    expect(readdirSync(testbed.folders.tmp)).toEqual([]);
    const stored = readdirSync(testbed.folders.cache);
    expect(stored).toEqual([expect.stringMatching(/^catalog-\w+\.json$/)]);
  });

  test('with the browser installed, each has its own child and folder; the end of one does not touch the other', async () => {
    held.release();
    const first = start();
    await greet(first);
    await goodCall(first);
    const second = start();
    await greet(second);
    await goodCall(second);
    const folders = readdirSync(testbed.folders.tmp).filter((name) => name.startsWith('cbmcp-'));
    expect(folders).toHaveLength(2);
    await endCleanly(first);
    await goodCall(second);
    await endCleanly(second);
    expect(server.archives).toHaveLength(1);
  });
});

describe('a later start', () => {
  test('asks the server for nothing', async () => {
    held.release();
    for (const requests of [1, 0]) {
      server.archives.length = 0;
      server.requests.length = 0;
      const client = start();
      await greet(client);
      await goodCall(client);
      expect(server.archives).toHaveLength(requests);
      expect(await infoOf(client)).toMatchObject({
        source: requests === 1 ? 'downloaded' : 'cache',
        updatePolicy: 'off',
        download: { state: 'ready' },
      });
      await endCleanly(client);
    }
    expect(server.requests).toEqual([]);
    await expectOneBrowser();
  });

  test('takes nothing for a browser of one that was killed in its download, and works', async () => {
    const killed = start();
    await greet(killed);
    await waitForDownload(killed);
    killed.kill('SIGKILL');
    await killed.exited;
    expect((await browserLeftovers(testbed)).filter((name) => name.startsWith('chromium-'))).toEqual([]);

    held.release();
    const next = start();
    await greet(next);
    await goodCall(next);
    expect(server.archives).toHaveLength(2);
    const path = (await infoOf(next)) as { path: string };
    expect(path.path.startsWith(join(browsersOf(testbed), 'chromium-'))).toBe(true);
    await endCleanly(next);
    await expectOneBrowser();
    expect(readdirSync(testbed.folders.tmp)).toEqual([]);
  });

  test('goes on at once when the one whose download it waits for is killed', async () => {
    const killed = start();
    await greet(killed);
    await waitForDownload(killed);
    const waiting = start();
    await greet(waiting);
    const call = goodCall(waiting);
    await waitForDownload(waiting);
    expect(server.archives).toHaveLength(1);
    killed.kill('SIGKILL');
    await killed.exited;
    held.release();
    await call;
    expect(server.archives).toHaveLength(2);
    await endCleanly(waiting);
    await expectOneBrowser();
  });
});
