import { Agent } from 'node:http';
import { readdirSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listEntries } from '../support/folders.ts';
import { HeapMeter } from '../support/heap.ts';
import { HttpServer } from '../support/http-server.ts';
import { descendantsOf } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** Bounds of the issue: growth for each session that was opened and ended, and what an idle one may take. */
const bytesPerEndedSession = 30_000;
const bytesPerIdleSession = 1_048_576;
/** So much of a heap comes and goes by itself: 140 kB at most between two looks 2000 calls apart. */
const heapNoise = 500_000;

let testbed: Testbed;
let meter: HeapMeter;
const agents: Agent[] = [];

beforeEach(async () => {
  testbed = await Testbed.make();
  meter = new HeapMeter(testbed);
});

afterEach(async () => {
  for (const agent of agents.splice(0)) agent.destroy();
  await testbed.close();
});

function keepAlive(): Agent {
  const agent = new Agent({ keepAlive: true });
  agents.push(agent);
  return agent;
}

function start(settings = {}): Promise<HttpServer> {
  return HttpServer.start(testbed, {
    settings: { 'log-level': 'warn', ...settings },
    env: meter.env,
    // The logs of the child would make the test slower with each call.
    fake: { EVENTS: '/dev/null', RECORD: '/dev/null', SENT: '/dev/null' },
  });
}

/** Sockets and files of the server that are open, whatever they are. */
function openDescriptors(server: HttpServer): number {
  return readdirSync(`/proc/${server.program.pid}/fd`).length;
}

/** Opens and ends so many sessions one after the other: some with a call, a stream and a cut connection. */
async function liveThrough(server: HttpServer, count: number): Promise<void> {
  const agent = keepAlive();
  for (let index = 0; index < count; index += 1) {
    const client = await server.open({ agent });
    const answer = await client.call('echo', { index });
    expect(answer.result).toBeDefined();
    if (index % 10 === 0) await client.listen();
    if (index % 10 === 5) (await client.start('never', {})).close();
    expect(await client.end()).toBe(200);
  }
  agent.destroy();
}

test('300 sessions with a child each, one after the other, leave no process, folder, descriptor or memory behind', async () => {
  const server = await start();
  await liveThrough(server, 30);
  const descriptors = await waitUntil('closed connections', () => settledDescriptors(server));
  const before = await meter.measure(server);
  await liveThrough(server, 300);
  await waitUntil('closed connections', () => (openDescriptors(server) <= descriptors ? true : undefined));
  const after = await meter.measure(server);
  const perSession = (after.heapUsed + after.external - before.heapUsed - before.external) / 300;
  expect(perSession).toBeLessThan(bytesPerEndedSession);
  expect(descendantsOf(server.program.pid)).toEqual([]);
  expect(await listEntries(testbed.folders.tmp)).toHaveLength(2);
  expect(await server.metric('sessions')).toBe(0);
  expect(await server.metric('sessions_opened_total')).toBe(330);
  expect(await server.metric('sessions_ended_total', '"deleted"')).toBe(330);
  // Node warns on standard error of listeners that add up.
  expect(server.program.stderr).not.toMatch(/MaxListeners|Warning/);
}, 240_000);

function settledDescriptors(server: HttpServer): number | undefined {
  const count = openDescriptors(server);
  return count < 40 ? count : undefined;
}

test('an idle session that never called a tool takes less than a megabyte and no process', async () => {
  const server = await start({ 'http-session-max': 400 });
  const agent = keepAlive();
  for (let index = 0; index < 20; index += 1) await (await server.open({ agent })).end();
  const before = await meter.measure(server);
  const clients = [];
  for (let index = 0; index < 300; index += 1) clients.push(await server.open({ agent }));
  const after = await meter.measure(server);
  expect((after.heapUsed + after.external - before.heapUsed - before.external) / 300).toBeLessThan(100_000);
  expect((after.rss - before.rss) / 300).toBeLessThan(bytesPerIdleSession);
  expect(descendantsOf(server.program.pid)).toEqual([]);
  expect(await server.metric('sessions', '"open"')).toBe(300);
  for (const client of clients) expect(await client.end()).toBe(200);
}, 120_000);

test('2000 calls in one session leave the heap as it was, and what is kept for a broken stream within its bounds', async () => {
  const server = await start({ 'http-replay-events': 256, 'http-replay-bytes': 1_000_000 });
  const client = await server.open({ agent: keepAlive() });
  const stream = await client.listen();
  const call = async (count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1) {
      const answer = await client.call('big', { bytes: 2000 }, { meta: { progressToken: index } });
      expect(answer.result).toBeDefined();
    }
  };
  // Until all code is compiled and what is kept is full.
  await call(2000);
  const before = await meter.measure(server);
  await call(2000);
  const after = await meter.measure(server);
  expect(after.heapUsed - before.heapUsed).toBeLessThan(heapNoise);
  expect(after.external - before.external).toBeLessThan(heapNoise);
  expect((await server.status()).sessions).toMatchObject([{ calls: 4000, inFlight: 0, generation: 1 }]);
  stream.close();
  await client.end();
}, 120_000);
