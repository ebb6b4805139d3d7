import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBrowserBridge } from '../support/browser-bed.ts';
import { findTestBrowser } from '../support/browser.ts';
import { complaintOf, runConformance, verdictsOf, type ConformanceRun } from '../support/conformance.ts';
import { waitForListening } from '../support/listening.ts';
import { Testbed } from '../support/testbed.ts';

/** Both servers start a browser in about 20 scenarios, because upstream looks for the tool's name only after that. */
const runMs = 240_000;

const expectedFailures = fileURLToPath(new URL('expected-failures.yml', import.meta.url));
const polling = 'server-sse-polling';

let testbed: Testbed;
let direct: ConformanceRun;
let bridged: ConformanceRun;

/** Upstream's own HTTP server. It admits only requests to `localhost`. */
function startUpstream() {
  const cli = join(dirname(createRequire(import.meta.url).resolve('@playwright/mcp/package.json')), 'cli.js');
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const browser = ['--headless', '--isolated', '--executable-path', findTestBrowser().path];
  return testbed.startProgram({ program: cli, args: ['--port', '0', ...browser, ...sandbox] });
}

beforeAll(async () => {
  testbed = await Testbed.make();
  const upstream = startUpstream();
  const bridge = startBrowserBridge(testbed, { args: ['--transport', 'streamable-http', '--http-port', '0'] });
  [direct, bridged] = await Promise.all([
    runConformance({
      url: new URL('/mcp', await waitForListening(upstream)).href,
      folder: join(testbed.folders.root, 'direct'),
      expectedFailures,
    }),
    runConformance({
      url: await waitForListening(bridge),
      folder: join(testbed.folders.root, 'bridged'),
      expectedFailures,
    }),
  ]);
}, runMs);

afterAll(async () => {
  await testbed.close();
});

/** The tool also lists each event it sees; how many there are depends on when its client opens the other stream. */
function judged(run: ConformanceRun): string[] {
  return verdictsOf(run).filter((line) => !line.endsWith(':incoming-sse-event INFO'));
}

/** What the tool only recommends and upstream does not do: a first event with an id, and the time to reconnect. */
const recommended = [`${polling}:server-sse-priming-event`, `${polling}:server-sse-retry-field`];

test('the conformance tool finds the same in the bridge as in the HTTP server of upstream, without its warnings', () => {
  expect(judged(direct).filter((line) => line.endsWith(' WARNING'))).toEqual(
    recommended.map((check) => `${check} WARNING`),
  );
  expect(judged(bridged)).toEqual(judged(direct).map((line) => line.replace(/ WARNING$/, ' SUCCESS')));
});

test('the tool fails exactly what is listed as expected, on both', () => {
  expect(complaintOf(bridged)).toBe('');
  expect(complaintOf(direct)).toBe('');
  const listed = [...readFileSync(expectedFailures, 'utf8').matchAll(/^ {2}- (\S+)$/gm)].map(([, check]) => check);
  const failed = (run: ConformanceRun) =>
    verdictsOf(run)
      .filter((line) => line.endsWith(' FAILURE'))
      .map((line) => line.slice(0, -' FAILURE'.length));
  expect(failed(direct)).toEqual(listed);
  expect(failed(bridged)).toEqual(listed);
});
