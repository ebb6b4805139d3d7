import { afterAll, beforeAll, expect, test } from 'vitest';
import { callText, childOf, mustFind, startBrowserBridge } from '../support/browser-bed.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';

let testbed: Testbed;
let server: PageServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  server = await startPageServer();
});

afterAll(async () => {
  await testbed.close();
  await server.close();
});

test('a page that logs, warns, throws and rejects a lot does not end upstream, and all of it can be read', async () => {
  const client = startBrowserBridge(testbed);
  await client.initialize();
  await callText(client, 'browser_navigate', { url: `${server.url}/home` });
  const child = await mustFind('the child', () => childOf(client));
  for (let round = 1; round <= 3; round += 1) {
    await callText(client, 'browser_navigate', { url: `${server.url}/console` });
    await callText(client, 'browser_wait_for', { text: 'done' });
  }
  const all = await callText(client, 'browser_console_messages', { level: 'debug', filename: 'console.log' });
  expect(all).toContain('console.log');
  const last = await callText(client, 'browser_console_messages', { level: 'debug' });
  expect(last).toContain('line 199');
  const errors = await callText(client, 'browser_console_messages', { level: 'error' });
  expect(errors).toContain('uncaught error');
  expect(errors).toContain('unhandled rejection');

  // Cyclic, deep and strange values, one message each, so that none is pushed out by the many lines above.
  const strange = `() => {
    const cycle = { name: 'cycle' };
    cycle.self = cycle;
    const values = [cycle, [cycle], new Map([[cycle, cycle]]), Symbol('symbol'), 10n, document, window, () => cycle, NaN];
    for (const value of values) console.log('strange', value);
    console.log('%s and %d and %o and %c', 'text', 1, cycle, 'color: red');
    console.log('\\u0000 \\u2028 \\ud800 end');
    console.group('group');
    console.trace('trace');
    console.assert(false, 'asserted', cycle);
    console.dir(cycle);
    console.count();
    console.time();
    console.timeEnd();
    console.clear();
    return 'survived';
  }`;
  expect(await callText(client, 'browser_evaluate', { function: strange })).toContain('survived');
  expect(await callText(client, 'browser_console_messages', { level: 'debug', all: true })).toContain('strange');
  expect((await mustFind('the child', () => childOf(client))).pid).toBe(child.pid);

  // What a person needs to report a broken version, or to leave it.
  const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
  expect(info).toMatchObject({
    generation: { number: 1, state: 'ready' },
    lastLoss: null,
    version: expect.stringMatching(/^\d+\.\d+\.\d+/) as unknown,
    upstream: {
      package: '@playwright/mcp',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as unknown,
      core: expect.stringMatching(/^\d+\.\d+\.\d+/) as unknown,
      cliPath: expect.stringContaining('@playwright/mcp') as unknown,
      overridden: false,
    },
  });
  await client.close();
});
