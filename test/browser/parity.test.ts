import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  argumentsOf,
  browserMs,
  browserOf,
  callText,
  childOf,
  environmentOf,
  mustFind,
  startBrowserBridge,
} from '../support/browser-bed.ts';
import type { JsonObject, LineClient, Message } from '../support/client.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { listEntries } from '../support/folders.ts';
import { Testbed } from '../support/testbed.ts';
import { capabilityTour, closingTour, pageTour, prepareRoot, unvisited, type TourStep } from './tour.ts';
import { steady, steadyValue, writtenFiles, type Side } from './volatile.ts';

const allCapabilities = 'vision,pdf,devtools,storage,network,testing,config';

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

interface Runner extends Side {
  readonly client: LineClient;
}

async function shakeHands(client: LineClient, root: string): Promise<Message> {
  client.onRequest('roots/list', () => ({ result: { roots: [{ uri: pathToFileURL(root).href, name: 'root' }] } }));
  return client.initialize({
    protocolVersion: '2025-11-25',
    capabilities: { roots: { listChanged: true } },
    clientInfo: { name: 'tourist', version: '1.0.0' },
  });
}

function makeRoot(name: string): string {
  const root = join(testbed.folders.root, name);
  mkdirSync(root);
  prepareRoot(root);
  return root;
}

/** The bridge, and upstream without it, started with the very arguments that the bridge gives its child. */
async function startBoth(name: string, args: readonly string[]): Promise<{ bridge: Runner; direct: Runner }> {
  const bridgeRoot = makeRoot(`${name}-bridge`);
  const bridge = startBrowserBridge(testbed, { args: ['--stealth-args', 'false', ...args] });
  await shakeHands(bridge, bridgeRoot);
  const child = await mustFind('the child of the bridge', () => childOf(bridge));
  const [, cli = '', ...childArgs] = argumentsOf(child.pid);
  const config = childArgs[childArgs.indexOf('--config') + 1] ?? '';
  const copy = join(testbed.folders.root, `${name}.json`);
  copyFileSync(config, copy);
  const directRoot = makeRoot(`${name}-direct`);
  const directTmp = join(testbed.folders.root, `${name}-tmp`);
  mkdirSync(directTmp);
  const direct = testbed.startProgram({
    program: cli,
    args: childArgs.map((arg) => (arg === config ? copy : arg)),
    env: { TMPDIR: directTmp },
  });
  await shakeHands(direct, directRoot);
  const bridgeTmp = environmentOf(child.pid)['TMPDIR'] ?? '';
  return {
    bridge: { name: 'bridge', client: bridge, root: bridgeRoot, tmp: bridgeTmp, config },
    direct: { name: 'direct', client: direct, root: directRoot, tmp: directTmp, config: copy },
  };
}

async function toolsOf({ client }: Runner): Promise<JsonObject[]> {
  const answer = await client.request('tools/list', {}, { ms: browserMs });
  return answer.result?.['tools'] as JsonObject[];
}

async function browserArguments(runner: Runner): Promise<string[]> {
  const browser = await mustFind(`the browser of ${runner.name}`, () => browserOf(runner.client));
  const isOwn = (arg: string): boolean => arg.startsWith('--user-data-dir=');
  return argumentsOf(browser.pid).map((arg) => (isOwn(arg) ? '--user-data-dir=<own>' : steady(arg, runner)));
}

async function take(step: TourStep, runner: Runner): Promise<string> {
  const args = step.args({ url: server.url, root: runner.root });
  const answer = await runner.client.call(step.tool, args, { ms: browserMs });
  const { id: _id, ...rest } = JSON.parse(runner.client.lineOf(answer)) as JsonObject;
  // As text, so that the order of the fields is compared too.
  return JSON.stringify(steadyValue(rest, runner), undefined, 1);
}

async function expectSameTour(tour: readonly TourStep[], bridge: Runner, direct: Runner): Promise<void> {
  for (const [index, step] of tour.entries()) {
    const [actual, expected] = await Promise.all([take(step, bridge), take(step, direct)]);
    expect(actual, `step ${index}: ${step.tool}`).toBe(expected);
  }
}

/** What the server sent of its own accord, in order. */
function unasked({ client }: Runner): unknown[] {
  return client.messages.filter(({ method }) => method !== undefined);
}

function traceFiles(entries: readonly string[]): (string | undefined)[] {
  return entries.map((entry) => /traces\/[^/]*\.(\w+)$/.exec(entry)?.[1]).filter((kind) => kind !== undefined);
}

describe.each([
  ['the default capabilities', [], pageTour],
  ['all capabilities', ['--caps', allCapabilities], capabilityTour],
] as const)('%s', (name, args, tour) => {
  let bridge: Runner;
  let direct: Runner;

  beforeAll(async () => {
    ({ bridge, direct } = await startBoth(name.replaceAll(' ', '-'), args));
  });

  test('every tool is listed as upstream lists it, in its order, before the two of the bridge', async () => {
    const [actual, expected] = await Promise.all([toolsOf(bridge), toolsOf(direct)]);
    const local = actual.splice(-2).map((tool) => tool['name']);
    expect(local).toEqual(['cloakbrowser_binary_info', 'cloakbrowser_bridge_info']);
    expect(actual.map((tool) => tool['name'])).toEqual(expected.map((tool) => tool['name']));
    for (const [index, tool] of expected.entries()) expect(JSON.stringify(actual[index])).toBe(JSON.stringify(tool));
  });

  test('the tour leaves out no tool of the list', async () => {
    const visited = new Set([...pageTour, ...tour, ...closingTour].map((step) => step.tool));
    const names = (await toolsOf(direct)).map((tool) => String(tool['name']));
    expect(names.filter((tool) => !visited.has(tool) && !(tool in unvisited))).toEqual([]);
  });

  test('every result of the tour is that of upstream', { timeout: 240_000 }, async () => {
    await expectSameTour(tour, bridge, direct);
  });

  test('both browsers were started with the same arguments', async () => {
    const [actual, expected] = await Promise.all([bridge, direct].map((runner) => browserArguments(runner)));
    expect(actual).toEqual(expected);
  });

  test("files that the tools wrote lie in the client's root and are those of upstream", async () => {
    const [actual, expected] = await Promise.all([writtenFiles(bridge), writtenFiles(direct)]);
    expect(actual).toEqual(expected);
    const [actualTraces, expectedTraces] = await Promise.all([bridge, direct].map(({ root }) => listEntries(root)));
    expect(traceFiles(actualTraces ?? [])).toEqual(traceFiles(expectedTraces ?? []));
    expect(await listEntries(testbed.folders.cwd)).toEqual([]);
  });

  test('results after browser_close and from the next browser are those of upstream', async () => {
    await expectSameTour(closingTour, bridge, direct);
  });

  test('what the server asked and told of its own accord is what upstream did', () => {
    expect(unasked(direct)).toContainEqual(expect.objectContaining({ method: 'roots/list', id: 0 }));
    expect(unasked(bridge)).toEqual(unasked(direct));
  });
});

test('the stealth arguments of CloakBrowser work with all of this', async () => {
  const client = startBrowserBridge(testbed);
  await client.initialize();
  await callText(client, 'browser_navigate', { url: `${server.url}/form` });
  expect(await callText(client, 'browser_snapshot')).toContain('button "Send"');
  const [, ...args] = argumentsOf((await mustFind('the browser', () => browserOf(client))).pid);
  expect(args).toContainEqual(expect.stringMatching(/^--fingerprint=\d+$/));
  expect(args).not.toContain('--enable-automation');
  expect(await callText(client, 'browser_evaluate', { function: '() => navigator.webdriver' })).toContain('false');
  await client.close();
});
