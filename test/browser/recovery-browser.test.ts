import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  browserMs,
  browserOf,
  callText,
  callTool,
  childOf,
  mustFind,
  resultText,
  startBrowserBridge,
} from '../support/browser-bed.ts';
import type { LineClient } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { isRunning, processesOf } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let server: PageServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  server = await startPageServer();
});

afterEach(async () => {
  await testbed.close();
  await server.close();
});

/** A bridge whose browser shows a page. */
async function startBrowsing(): Promise<LineClient> {
  const client = startBrowserBridge(testbed);
  await client.initialize();
  await callText(client, 'browser_navigate', { url: `${server.url}/home` });
  return client;
}

async function stateOf(client: LineClient): Promise<Record<string, unknown>> {
  return structuredOf(await client.call('cloakbrowser_bridge_info'));
}

function hitsOf(path: string): number {
  return server.hits.filter((hit) => hit === path).length;
}

/**
 * Waits until upstream knows that its browser is gone. For some milliseconds it still answers from that one; the list of
 * tabs shows the end of that without touching a page.
 */
function waitForTabs(client: LineClient): Promise<true> {
  return waitUntil(
    'upstream to notice',
    async () => ((await callTool(client, 'browser_tabs', { action: 'list' }))['isError'] === true ? undefined : true),
    browserMs,
  );
}

/** Kills the browser and waits until upstream knows it. */
async function killBrowser(client: LineClient): Promise<number> {
  const { pid } = await mustFind('the browser', () => browserOf(client));
  process.kill(pid, 'SIGKILL');
  await waitForTabs(client);
  return pid;
}

/** Kills the child and waits until the bridge knows it. */
async function killChild(client: LineClient): Promise<void> {
  const { pid } = await mustFind('the child', () => childOf(client));
  const before = JSON.stringify((await stateOf(client))['lastLoss']);
  process.kill(pid, 'SIGKILL');
  await waitUntil('the loss', async () =>
    JSON.stringify((await stateOf(client))['lastLoss']) === before ? undefined : true,
  );
}

/** Opens a page of its own, so that calls at the same time do not disturb one another. */
function visitInOwnPage(client: LineClient, path: string): Promise<string> {
  const code = `async (page) => {
    const own = await page.context().newPage();
    await own.goto('${server.url}${path}');
    return own.title();
  }`;
  return callText(client, 'browser_run_code_unsafe', { code });
}

describe('a browser that is killed', () => {
  test('the next call works in the same child, with a new browser', async () => {
    const client = await startBrowsing();
    const child = await mustFind('the child', () => childOf(client));
    const browser = await killBrowser(client);
    expect(await callText(client, 'browser_navigate', { url: `${server.url}/count` })).toContain('Page Title: Count');
    expect(hitsOf('/count')).toBe(1);
    expect(childOf(client)?.pid).toBe(child.pid);
    expect(browserOf(client)?.pid).not.toBe(browser);
    expect(await stateOf(client)).toMatchObject({ generation: { number: 1, state: 'ready' }, lastLoss: null });
    await client.close();
  });

  test('a call that was on its way is answered with the reason, and is not repeated', async () => {
    const client = await startBrowsing();
    const running = callTool(client, 'browser_navigate', { url: `${server.url}/hang` });
    await waitUntil('the request', () => (hitsOf('/hang') === 1 ? true : undefined));
    process.kill((await mustFind('the browser', () => browserOf(client))).pid, 'SIGKILL');
    const result = await running;
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toMatch(/closed|crashed|disconnected/i);
    await waitForTabs(client);
    expect(await callText(client, 'browser_navigate', { url: `${server.url}/count` })).toContain('Page Title: Count');
    expect([hitsOf('/hang'), hitsOf('/count')]).toEqual([1, 1]);
    await client.close();
  });
});

describe('a child that is killed', () => {
  test('in the middle of a navigation: the call is answered with the reason, the next one works, nothing old is left', async () => {
    const client = await startBrowsing();
    const [child, browser] = [
      await mustFind('the child', () => childOf(client)),
      await mustFind('the browser', () => browserOf(client)),
    ];
    const running = callTool(client, 'browser_navigate', { url: `${server.url}/hang` });
    await waitUntil('the request', () => (hitsOf('/hang') === 1 ? true : undefined));
    process.kill(child.pid, 'SIGKILL');
    const result = await running;
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toContain('SIGKILL');
    expect(resultText(result)).toMatch(/may have/);

    expect(await callText(client, 'browser_navigate', { url: `${server.url}/count` })).toContain('Page Title: Count');
    expect(isRunning(browser.pid)).toBe(false);
    expect(processesOf(`/${child.pid}/t1`)).toEqual([]);
    expect([hitsOf('/hang'), hitsOf('/count')]).toEqual([1, 1]);
    expect(await stateOf(client)).toMatchObject({
      generation: { number: 2, state: 'ready' },
      lastLoss: { generation: 1, reason: expect.stringContaining('SIGKILL') as unknown },
    });
    await client.close();
  });

  test('five calls at once share one replacement, and each reaches the page once', async () => {
    const client = await startBrowsing();
    await killChild(client);
    const titles = await Promise.all(Array.from({ length: 5 }, () => visitInOwnPage(client, '/count')));
    for (const title of titles) expect(title).toContain('"Count"');
    expect(hitsOf('/count')).toBe(5);
    expect(await stateOf(client)).toMatchObject({ generation: { number: 2, state: 'ready' } });
    const browsers = processesOf(testbed.folders.root).filter(
      ({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='),
    );
    expect(browsers).toHaveLength(1);
    expect(client.messagesOf('notifications/tools/list_changed').length).toBeGreaterThan(0);
    await client.close();
  });

  test('three times in a row, each time with the browser open', async () => {
    const client = await startBrowsing();
    for (let round = 1; round <= 3; round += 1) {
      await killChild(client);
      expect(await callText(client, 'browser_navigate', { url: `${server.url}/count` })).toContain(`Count`);
      expect(hitsOf('/count')).toBe(round);
    }
    expect(await stateOf(client)).toMatchObject({ generation: { number: 4 } });
    await client.close();
  });
});
