import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Abuse, abuses, type Target } from '../support/abuse.ts';
import { listEntries } from '../support/folders.ts';
import { HeapMeter } from '../support/heap.ts';
import { type HttpClient, HttpServer } from '../support/http-server.ts';
import { descendantsOf } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** Bound of the issue for the memory at the end, against the start. */
const memoryGrowth = 1.1;

let testbed: Testbed;
let meter: HeapMeter;
let server: HttpServer;
let good: GoodClient;

/** Calls all the time, and must be answered by the same child all the time. */
class GoodClient {
  readonly #client: HttpClient;
  readonly #ended: Promise<void>;
  #pid: unknown;
  #isOver = false;
  #calledAt = 0;
  answered = 0;
  failure: Error | undefined;

  constructor(client: HttpClient) {
    this.#client = client;
    this.#ended = this.#call().catch((cause: unknown) => {
      const waitedMs = Math.round(performance.now() - this.#calledAt);
      this.failure = new Error(`The good client was not served (after ${waitedMs} ms)`, { cause });
    });
  }

  /** Waits for an answer to a call that began after this. */
  async isServed(): Promise<void> {
    const before = this.answered;
    await waitUntil('an answer to the good client', () => {
      if (this.failure !== undefined) throw this.failure;
      return this.answered >= before + 2 ? true : undefined;
    });
  }

  async end(): Promise<number> {
    this.#isOver = true;
    await this.#ended;
    return this.#client.end();
  }

  async #call(): Promise<void> {
    for (; !this.#isOver; this.answered += 1) {
      this.#calledAt = performance.now();
      const { pid, calls } = structuredOf(await this.#client.call('inspect'));
      this.#pid ??= pid;
      if (pid !== this.#pid || calls !== this.answered + 1) throw new Error(`Call ${String(calls)} to ${String(pid)}`);
    }
  }
}

beforeAll(async () => {
  testbed = await Testbed.make();
  meter = new HeapMeter(testbed);
  server = await HttpServer.start(testbed, {
    settings: {
      // Short, but not so short that a good request on a busy computer needs it.
      'http-header-timeout-ms': 4000,
      'http-body-timeout-ms': 5000,
      'http-session-max': 1000,
      'http-session-max-calls': 1000,
      'http-session-unused-ttl-ms': 6000,
      'log-level': 'warn',
    },
    env: meter.env,
    fake: { EVENTS: '/dev/null', RECORD: '/dev/null', SENT: '/dev/null' },
  });
});

afterAll(async () => {
  await testbed.close();
});

async function openTarget(): Promise<Target> {
  const client = await server.open();
  // A session that has called is not an unused one.
  await client.call('echo');
  return { server, client };
}

/** Does it so many times, some at once, with the good client being served all the while. */
async function suffer({ name, act, times }: Abuse, target: Target): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < times; index = next++) {
      await act(target, index).catch((cause: unknown) => {
        throw new Error(`${name}, number ${index}: ${String(cause)}`, { cause });
      });
    }
  };
  await Promise.all([good.isServed(), ...Array.from({ length: 50 }, lane)]);
}

async function refusals(): Promise<Map<string, number>> {
  const text = await (await server.ask('/metrics')).ended();
  const lines = text.matchAll(/^cloakbrowser_mcp_refusals_total\{reason="(\w+)"\} (\d+)$/gm);
  return new Map([...lines].map(([, reason = '', count]) => [reason, Number(count)]));
}

test('whatever its clients do, a server answers a good one throughout, and keeps nothing of it', async () => {
  good = new GoodClient(await server.open());
  const first = await openTarget();
  // The first time is the warm-up: code is compiled and buffers have their size.
  for (const abuse of abuses) await suffer(abuse, first);
  await first.client.end();
  await waitUntil(
    'the end of the sessions of the first part',
    async () => ((await server.metric('sessions')) === 1 ? true : undefined),
    30_000,
  );
  const [before, descriptors] = [await meter.measure(server), openDescriptors()];

  const target = await openTarget();
  for (const abuse of abuses) {
    const counted = await refusals();
    await suffer(abuse, target);
    await good.isServed();
    const after = await refusals();
    const differences = Object.fromEntries(
      [...after]
        .map(([reason, count]) => [reason, count - (counted.get(reason) ?? 0)] as const)
        .filter(([, difference]) => difference !== 0),
    );
    expect(differences).not.toHaveProperty('internal');
    const expected = abuse.refusals === undefined ? differences : multiply(abuse.refusals, abuse.times);
    expect([abuse.name, differences]).toEqual([abuse.name, expected]);
  }
  expect(structuredOf(await target.client.call('inspect'))).toMatchObject({ pid: expect.any(Number) });
  expect(await target.client.end()).toBe(200);
  await waitUntil(
    'the end of all other sessions',
    async () => ((await server.metric('sessions')) === 1 ? true : undefined),
    30_000,
  );

  let least = await meter.measure(server);
  await waitUntil('the memory of the start', async () => {
    const now = await meter.measure(server);
    least = { ...now, rss: Math.min(now.rss, least.rss) };
    return least.rss <= before.rss * memoryGrowth ? true : undefined;
  }).catch(() => undefined);
  expect(least.heapUsed + least.external).toBeLessThan((before.heapUsed + before.external) * memoryGrowth);
  expect(least.rss).toBeLessThan(before.rss * memoryGrowth);
  await waitUntil('closed connections', () => (openDescriptors() <= descriptors ? true : undefined));

  expect(await good.end()).toBe(200);
  expect(good.failure).toBeUndefined();
  expect(await server.metric('sessions')).toBe(0);
  expect(await server.metric('calls_in_flight')).toBe(0);
  expect(await server.status()).toMatchObject({
    sessions: [],
    startQueue: { running: 0, waiting: 0 },
    draining: false,
  });
  expect(descendantsOf(server.program.pid)).toEqual([]);
  // A look at the processes is good for ten seconds, or fifty times as long as it took.
  await waitUntil('no child', async () => ((await server.metric('children')) === 0 ? true : undefined), 60_000);
  expect(await listEntries(testbed.folders.tmp)).toHaveLength(2);
  const opened = await server.metric('sessions_opened_total');
  expect(await server.metric('sessions_ended_total')).toBe(opened);
  for (const event of ['program failed', 'request failed', 'server failed', 'session not closed']) {
    expect(server.logged(event)).toEqual([]);
  }
  expect(server.program.stderr).not.toMatch(/^\s+at |MaxListeners/m);
  server.program.kill('SIGTERM');
  expect(await server.program.exited).toEqual({ code: 0, signal: null });
}, 180_000);

function multiply(counts: Readonly<Record<string, number>>, times: number): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count * times]));
}

function openDescriptors(): number {
  return readdirSync(`/proc/${server.program.pid}/fd`).length;
}
