import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { type Endpoint, openEndpoint } from '../../src/cdp/endpoint.ts';
import { removePortFile } from '../../src/cdp/port-file.ts';
import { findMarked, type Marked } from '../../src/cdp/proof.ts';
import { callText } from '../support/browser-bed.ts';
import { DebuggedUpstream, type ProfileKind } from '../support/debugged-upstream.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;
const opened: Endpoint[] = [];

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  for (const endpoint of opened.splice(0)) endpoint.close();
  await testbed.close();
});

/** Starts the browser of an upstream and proves it as the bridge does. */
async function prove(upstream: DebuggedUpstream): Promise<{ endpoint: Endpoint; marked: Marked; port: number }> {
  const mark = await upstream.mark();
  const address = await upstream.address();
  const endpoint = await openEndpoint(address, 5000, new AbortController().signal);
  opened.push(endpoint);
  const marked = await findMarked(endpoint, mark, 10_000);
  await upstream.forgets(mark);
  return { endpoint, marked, port: address.port };
}

/** The addresses on which something of this machine listens at a port, as the kernel writes them. */
function listenersAt(port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local = '', , state]) => local.endsWith(suffix) && state === '0A')
      .map(([, local = '']) => local.slice(0, -suffix.length)),
  );
}

describe.each<[kind: ProfileKind, isDefaultContext: boolean]>([
  ['folder', true],
  ['memory', false],
  ['default', true],
])('a browser with its profile kept in: %s', (kind, isDefaultContext) => {
  test('is found by its port file and proven, and another one after it too', async () => {
    const first = await DebuggedUpstream.start(testbed, kind);
    const one = await prove(first);
    expect(one.marked.isDefaultContext).toBe(isDefaultContext);
    expect(one.marked.browserContextId).toMatch(/^[\dA-F]{32}$/);
    // 127.0.0.1 and nothing else.
    expect(listenersAt(one.port)).toEqual(['0100007F']);
    // MCP works on as if nothing had been.
    await callText(first.client, 'browser_navigate', { url: 'data:text/html,<title>Still here</title>' });
    expect(await first.tabs()).toContain('Still here');
    const { targetInfos } = await one.endpoint.request('Target.getTargets');
    expect(JSON.stringify(targetInfos)).toContain('Still here');
    await first.close();
    await one.endpoint.closed;

    if (first.place.userDataDir !== undefined) removePortFile(first.place.userDataDir);
    const second = await DebuggedUpstream.start(testbed, kind);
    const two = await prove(second);
    expect(two.port).not.toBe(one.port);
    expect(two.marked.isDefaultContext).toBe(isDefaultContext);
    await second.close();
    await waitForNoProcess(testbed.folders.root);
  });
});

// How the default profile is found: @playwright/mcp 0.0.83 (playwright-core 1.64) writes it into its registry.
test('upstream tells its default profile in one description of its browser, while that runs', async () => {
  const upstream = await DebuggedUpstream.start(testbed, 'default');
  const { registry } = upstream.place;
  await upstream.mark();
  const names = readdirSync(registry);
  expect(names).toHaveLength(1);
  const described: unknown = JSON.parse(readFileSync(join(registry, names[0] ?? ''), 'utf8'));
  const userDataDir: unknown = expect.stringMatching(
    new RegExp(`^${testbed.folders.home}/.cache/ms-playwright-mcp/mcp-chromium-`),
  );
  expect(described).toMatchObject({ browser: { browserName: 'chromium', userDataDir } });
  await upstream.close();
});

test('a profile in memory is gone from the temporary folder of the child when the child has ended', async () => {
  const upstream = await DebuggedUpstream.start(testbed, 'memory');
  await upstream.mark();
  const profiles = (): string[] =>
    readdirSync(upstream.place.tempDir).filter((name) => name.startsWith('playwright_chromiumdev_profile-'));
  expect(profiles()).toHaveLength(1);
  await upstream.close();
  expect(profiles()).toEqual([]);
});
