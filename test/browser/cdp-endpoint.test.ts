import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { type Endpoint, openEndpoint } from '../../src/cdp/endpoint.ts';
import type { BrowserAddress } from '../../src/cdp/port-file.ts';
import { findMarked, makeMark } from '../../src/cdp/proof.ts';
import { type BrowserLoss, watchBrowser } from '../../src/cdp/sentinel.ts';
import { callText } from '../support/browser-bed.ts';
import { DebuggedUpstream, type ProfileKind } from '../support/debugged-upstream.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** Short, so that a test need not wait; the limit is far above what an answer takes on a busy machine. */
const [intervalMs, limitMs] = [200, 5000];

let testbed: Testbed;
const opened: { close(): void }[] = [];

async function connect(address: BrowserAddress): Promise<Endpoint> {
  const endpoint = await openEndpoint(address, 5000, new AbortController().signal);
  opened.push(endpoint);
  return endpoint;
}

interface Page {
  readonly targetId: string;
  readonly url: string;
}

async function pagesOf(endpoint: Endpoint): Promise<Page[]> {
  const { targetInfos } = await endpoint.request('Target.getTargets');
  return (targetInfos as (Page & { type: string })[]).filter(({ type }) => type === 'page');
}

async function closeAll(): Promise<void> {
  for (const thing of opened.splice(0).toReversed()) thing.close();
  await testbed.close();
}

describe('the proof', () => {
  let own: DebuggedUpstream;
  let endpoint: Endpoint;

  beforeAll(async () => {
    testbed = await Testbed.make();
    own = await DebuggedUpstream.start(testbed, 'memory');
    await callText(own.client, 'browser_tabs', { action: 'list' });
    endpoint = await connect(await own.address());
  });

  afterAll(closeAll);

  test('succeeds each time that a page is opened for it, and leaves the other pages alone', async () => {
    await callText(own.client, 'browser_navigate', { url: 'data:text/html,<title>Kept</title>' });
    const before = (await pagesOf(endpoint)).map(({ targetId }) => targetId);
    for (let round = 0; round < 5; round += 1) {
      const mark = await own.mark();
      expect(await findMarked(endpoint, mark, 10_000)).toMatchObject({ isDefaultContext: false });
      await own.forgets(mark);
      expect((await pagesOf(endpoint)).map(({ targetId }) => targetId)).toEqual(before);
    }
    expect(await own.tabs()).toContain('Kept');
  });

  test('fails without such a page', async () => {
    const before = await pagesOf(endpoint);
    await expect(findMarked(endpoint, makeMark(), 10_000)).rejects.toThrow('not the one that upstream drives');
    expect(await pagesOf(endpoint)).toEqual(before);
  });

  test('fails with two pages of the same mark, and with a mark that was used already', async () => {
    const mark = await own.mark();
    await own.mark(mark);
    await expect(findMarked(endpoint, mark, 10_000)).rejects.toThrow('has 2 pages with the mark');
    const [one] = (await pagesOf(endpoint)).filter(({ url }) => url === mark);
    await endpoint.request('Target.closeTarget', { targetId: one?.targetId });
    await waitUntil('one page to go', async () =>
      (await pagesOf(endpoint)).some(({ targetId }) => targetId === one?.targetId) ? undefined : true,
    );
    await findMarked(endpoint, mark, 10_000);
    await expect(findMarked(endpoint, mark, 10_000)).rejects.toThrow('not the one that upstream drives');
    await own.forgets(mark);
  });

  test('is not passed by pages that only look like it', async () => {
    const mark = makeMark();
    const fragment = mark.slice('about:blank'.length);
    for (const url of [`data:text/html,x${fragment}`, `${mark}x`, `about:blank?${fragment}`, mark.replace('#', '#%20')])
      await endpoint.request('Target.createTarget', { url });
    await expect(findMarked(endpoint, mark, 10_000)).rejects.toThrow('not the one that upstream drives');
  });

  test('never takes a foreign browser behind the port, and closes nothing in it', async () => {
    const foreign = await DebuggedUpstream.start(testbed, 'folder');
    const mark = await own.mark();
    await callText(foreign.client, 'browser_navigate', { url: 'data:text/html,<title>Foreign</title>' });
    const [mine, theirs] = [await own.address(), await foreign.address()];
    // Another browser on the port: its id is another one, and it refuses.
    const swapped = connect({ port: theirs.port, browserId: mine.browserId });
    await expect(swapped).rejects.toMatchObject({ code: 'cdp_start_failed', message: expect.stringContaining('404') });
    // Somebody wrote its address into the profile: then the mark is not in it.
    const folder = foreign.place.userDataDir ?? '';
    writeFileSync(join(folder, 'DevToolsActivePort'), `${theirs.port}\n/devtools/browser/${theirs.browserId}`);
    const stranger = await connect(await foreign.address());
    const before = await pagesOf(stranger);
    await expect(findMarked(stranger, mark, 10_000)).rejects.toThrow('not the one that upstream drives');
    expect(await pagesOf(stranger)).toEqual(before);
    // The right browser still passes.
    await findMarked(endpoint, mark, 10_000);
    await foreign.close();
  });
});

describe('the watch', () => {
  beforeEach(async () => {
    testbed = await Testbed.make();
  });

  afterEach(closeAll);

  /** A browser that was started, proven and is watched. */
  async function watched(kind: ProfileKind): Promise<{
    upstream: DebuggedUpstream;
    endpoint: Endpoint;
    contextId: string | undefined;
    losses: BrowserLoss[];
    first: () => Promise<BrowserLoss>;
  }> {
    const upstream = await DebuggedUpstream.start(testbed, kind);
    const mark = await upstream.mark();
    const endpoint = await connect(await upstream.address());
    const { isDefaultContext, browserContextId } = await findMarked(endpoint, mark, 10_000);
    await upstream.forgets(mark);
    const contextId = isDefaultContext ? undefined : browserContextId;
    const losses: BrowserLoss[] = [];
    const onLost = (loss: BrowserLoss): void => void losses.push(loss);
    opened.push(watchBrowser({ endpoint, contextId, intervalMs, limitMs, onLost }));
    return { upstream, endpoint, contextId, losses, first: () => waitUntil('a loss', () => losses[0], 30_000) };
  }

  /** Long enough for some heartbeats to be answered. */
  async function someHeartbeats(endpoint: Endpoint): Promise<void> {
    for (let count = 0; count < 5; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, intervalMs));
      await endpoint.request('Browser.getVersion');
    }
  }

  test('tells at once of a browser that is killed', async () => {
    const { upstream, losses, first, endpoint } = await watched('folder');
    process.kill(upstream.browserPid, 'SIGKILL');
    expect(await first()).toBe('sentinel_closed');
    await endpoint.closed;
    await expect(endpoint.request('Browser.getVersion')).rejects.toMatchObject({ code: 'cdp_start_failed' });
    expect(losses).toEqual(['sentinel_closed']);
  });

  test('tells of a browser that is stopped, and not when it goes on within the limit', async () => {
    const { upstream, losses, first, endpoint } = await watched('folder');
    const pid = upstream.browserPid;
    process.kill(pid, 'SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    process.kill(pid, 'SIGCONT');
    await someHeartbeats(endpoint);
    expect(losses).toEqual([]);
    process.kill(pid, 'SIGSTOP');
    const stoppedAt = performance.now();
    expect(await first()).toBe('heartbeat_timeout');
    expect(performance.now() - stoppedAt).toBeGreaterThanOrEqual(limitMs - 50);
    // It is not mistaken for one that has gone: the connection is still there.
    expect(endpoint.isOpen).toBe(true);
    process.kill(pid, 'SIGKILL');
    await endpoint.closed;
    expect(losses).toEqual(['heartbeat_timeout']);
  });

  test("tells when MCP's context is disposed of while the browser lives", async () => {
    const { losses, first, endpoint, contextId } = await watched('memory');
    await endpoint.request('Target.createBrowserContext');
    await someHeartbeats(endpoint);
    expect(losses).toEqual([]);
    await endpoint.request('Target.disposeBrowserContext', { browserContextId: contextId });
    expect(await first()).toBe('mcp_context_gone');
    expect(endpoint.isOpen).toBe(true);
  });

  test('tells of a browser that is closed over MCP, and of one that is closed over CDP', async () => {
    const one = await watched('memory');
    await callText(one.upstream.client, 'browser_close');
    // Upstream closes the context first, and the browser after it.
    expect(['sentinel_closed', 'mcp_context_gone']).toContain(await one.first());
    const two = await watched('folder');
    await two.endpoint.request('Browser.close');
    expect(await two.first()).toBe('sentinel_closed');
  });

  test.each<ProfileKind>(['folder', 'memory'])(
    'takes neither a crashed page nor the last closed tab for a loss (profile: %s)',
    async (kind) => {
      const { upstream, losses, endpoint } = await watched(kind);
      await callText(upstream.client, 'browser_navigate', { url: 'data:text/html,<title>Before</title>' });
      const page = (await pagesOf(endpoint)).find(({ url }) => url.includes('Before'));
      const { sessionId } = await endpoint.request('Target.attachToTarget', {
        targetId: page?.targetId,
        flatten: true,
      });
      // It takes the renderer along that would have answered.
      endpoint.request('Page.crash', {}, { sessionId: String(sessionId), timeoutMs: 1000 }).catch(() => undefined);
      await someHeartbeats(endpoint);
      expect(losses).toEqual([]);

      for (const { targetId } of await pagesOf(endpoint)) await endpoint.request('Target.closeTarget', { targetId });
      await someHeartbeats(endpoint);
      expect(losses).toEqual([]);
      await callText(upstream.client, 'browser_navigate', { url: 'data:text/html,<title>After</title>' });
      // In the same browser: upstream has not started another one.
      const urls = (await pagesOf(endpoint)).map(({ url }) => url);
      expect(urls).toContain('data:text/html,<title>After</title>');
      expect(losses).toEqual([]);
      await upstream.close();
      await waitForNoProcess(testbed.folders.root);
    },
  );
});
