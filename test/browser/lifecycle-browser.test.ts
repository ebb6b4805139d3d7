import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  argumentsOf,
  browserMs,
  browserOf,
  callText,
  callTool,
  mustFind,
  resultText,
  sessionFolders,
  startBrowserBridge,
  toolNames,
} from '../support/browser-bed.ts';
import type { LineClient } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

let testbed: Testbed;
let server: PageServer;

beforeAll(async () => {
  server = await startPageServer();
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

function visit(client: LineClient, page: string): Promise<string> {
  return callText(client, 'browser_navigate', { url: `${server.url}/${page}` });
}

/** A bridge with upstream's default profile, below the test's home, whose browser shows a page. */
async function startBrowsing(page = 'home'): Promise<LineClient> {
  const client = startBrowserBridge(testbed, { isPersistent: true });
  await client.initialize();
  await visit(client, page);
  return client;
}

/** The locks of all profiles; Chromium's is a symbolic link to no file. */
async function profileLocks(): Promise<string[]> {
  const entries = await listEntries(testbed.folders.home);
  return entries.filter((entry) => /Singleton(Lock|Socket|Cookie)$/.test(entry));
}

/** Expects that nothing of any bridge of this test is left: no process, no folder, no lock of the profile. */
async function expectNothingLeft(): Promise<void> {
  await waitForNoProcess(testbed.folders.root);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  expect(await profileLocks()).toEqual([]);
}

describe('an end with the browser open', () => {
  const ways = ['stdin end', 'SIGTERM', 'SIGINT', 'SIGHUP'] as const;

  test.each(ways)('by %s: nothing is left', async (way) => {
    const client = await startBrowsing();
    if (way === 'stdin end') client.endStdin();
    else client.kill(way);
    const exit = await withDeadline('the end of the bridge', client.exited, browserMs);
    expect(exit.signal).toBeNull();
    await expectNothingLeft();
    expect(client.strayLines).toEqual([]);
  });

  test.each(ways)('by %s while a page never answers: nothing is left', async (way) => {
    const client = await startBrowsing();
    const hangs = server.hits.length;
    client.send({
      id: 'hangs',
      method: 'tools/call',
      params: { name: 'browser_navigate', arguments: { url: `${server.url}/hang` } },
    });
    await waitUntil('the request', () => server.hits.slice(hangs).includes('/hang') || undefined);
    if (way === 'stdin end') client.endStdin();
    else client.kill(way);
    const exit = await withDeadline('the end of the bridge', client.exited, browserMs);
    expect(exit.signal).toBeNull();
    await expectNothingLeft();
    expect(client.strayLines).toEqual([]);
  });
});

describe('a bridge that is killed', () => {
  test('five times in a row: each next start works with the same profile, and in the end nothing is left', async () => {
    for (let round = 1; round <= 5; round += 1) {
      const client = await startBrowsing('storage');
      client.kill('SIGKILL');
      await client.exited;
    }
    const last = await startBrowsing();
    await waitUntil('the sweep', () => (sessionFolders(testbed).length === 1 ? true : undefined));
    await last.close();
    await expectNothingLeft();
  });
});

describe('the profile', () => {
  test('survives an orderly end: a cookie and an entry of the local storage are there after the next start', async () => {
    const first = await startBrowsing('storage');
    await callText(first, 'browser_evaluate', {
      function: '() => { document.cookie = "lasting=yes; max-age=3600; path=/"; }',
    });
    await first.close();
    const second = await startBrowsing('storage');
    const page = await callText(second, 'browser_snapshot');
    expect(page).toContain('visits 2');
    expect(page).toContain('lasting=yes');
    await second.close();
    expect(existsSync(join(testbed.folders.home, '.cache', 'ms-playwright-mcp'))).toBe(true);
    await expectNothingLeft();
  });

  test('is told by --user-data-dir and by the bridge', async () => {
    const profile = join(testbed.folders.root, 'own');
    const client = startBrowserBridge(testbed, { isPersistent: true, args: ['--user-data-dir', profile] });
    await client.initialize();
    await visit(client, 'home');
    const browser = await mustFind('the browser', () => browserOf(client));
    expect(argumentsOf(browser.pid)).toContain(`--user-data-dir=${profile}`);
    expect(await listEntries(profile)).not.toEqual([]);
    const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
    expect(info).toMatchObject({ session: { profile } });
    await client.close();
    await expectNothingLeft();
  });

  test('in use by another bridge: the answer tells it, and the same bridge works once the other has ended', async () => {
    const [winner, loser] = [await startBrowsing(), startBrowserBridge(testbed, { isPersistent: true })];
    await loser.initialize();
    expect(await toolNames(loser)).toContain('browser_navigate');
    // Chromium's headless shell locks no profile; there the second one simply works.
    const isLocked = (await profileLocks()).length > 0;
    const second = await callTool(loser, 'browser_navigate', { url: `${server.url}/home` });
    expect(second['isError'] ?? false).toBe(isLocked);
    expect(resultText(second)).toMatch(isLocked ? /already in use.*--isolated/s : /Page Title: Home/);
    expect(await visit(winner, 'form')).toContain('Page Title: Form');

    await winner.close();
    expect(await visit(loser, 'title')).toContain('Page Title: Title');
    const info = structuredOf(await loser.call('cloakbrowser_bridge_info'));
    expect(info).toMatchObject({ generation: { number: 1 }, lastLoss: null });
    await mustFind('the browser of the second bridge', () => browserOf(loser));
    await loser.close();
    await expectNothingLeft();
  });
});
