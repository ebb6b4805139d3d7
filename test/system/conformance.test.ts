import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  checksWith,
  complaintOf,
  runConformance,
  scenarioCount,
  scenariosOf,
  type ConformanceRun,
} from '../support/conformance.ts';
import { waitForListening } from '../support/listening.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';

/** 13 s of it is one call that outlasts the stream it was made on; the rest takes 3 s on a free machine. */
const runMs = 120_000;

let testbed: Testbed;
let run: ConformanceRun;

beforeAll(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
  const server = testbed.start({ args: ['--transport', 'streamable-http', '--http-port', '0'] });
  run = await runConformance({ url: await waitForListening(server), folder: join(testbed.folders.root, 'results') });
  server.kill('SIGTERM');
  await server.exited;
}, runMs);

afterAll(async () => {
  await testbed.close();
});

test('every scenario of the 2025-11-25 requirements passes, without a failed check or a warning', () => {
  expect({ failures: checksWith(run, 'FAILURE'), warnings: checksWith(run, 'WARNING') }).toEqual({
    failures: [],
    warnings: [],
  });
  expect(scenariosOf(run)).toHaveLength(scenarioCount);
  expect(complaintOf(run)).toBe('');
});

test('the answer to a call whose stream was left is fetched by Last-Event-ID', () => {
  expect(checksWith(run, 'SUCCESS')).toContain('server-sse-polling:server-sse-disconnect-resume: ');
});

test('nothing is left of the sessions that the tool opened', async () => {
  await waitForNoProcess(testbed.folders.root);
});
