import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Answer } from '../support/http-exchange.ts';
import { type HttpClient, HttpServer } from '../support/http-server.ts';
import { residentMebibytes } from '../support/processes.ts';
import { makeRandom } from '../support/random.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

/** A mistake of ours must end the program in these tests, so that it cannot be overlooked. */
const strict = { NODE_OPTIONS: '--unhandled-rejections=strict --trace-warnings' };
const writeTimeoutMs = 1000;

function expectUnharmed(server: HttpServer): void {
  for (const event of ['program failed', 'request failed', 'server failed']) expect(server.logged(event)).toEqual([]);
  expect(server.program.stderr).not.toMatch(/^\s+at /m);
}

interface RawCall {
  readonly id: number | string;
  readonly name: string;
  readonly args: object;
}

/** Sends a call on a connection of its own, which the test may stop reading. */
async function callRaw(client: HttpClient, { id, name, args }: RawCall): Promise<RawConnection> {
  const connection = await RawConnection.open(Number(new URL(client.url).port));
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } });
  const headers = { host: 'localhost', ...client.headers, 'content-length': body.length };
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`);
  return connection.send(`POST /mcp HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
}

describe('clients that go in the middle of a call', () => {
  test('twenty times at random moments: the program, the session and its child live on, and another session never notices', async () => {
    const server = await HttpServer.start(testbed, { env: strict });
    const [leaving, staying] = await Promise.all([server.open(), server.open()]);
    const pid = structuredOf(await leaving.call('inspect'))['pid'];
    const stayingPid = structuredOf(await staying.call('inspect'))['pid'];
    const random = makeRandom(29);
    let isOver = false;
    const calling = (async (): Promise<number> => {
      let count = 0;
      for (; !isOver; count += 1) {
        expect(structuredOf(await staying.call('inspect'))['pid']).toBe(stayingPid);
      }
      return count;
    })();
    const cuts = Array.from({ length: 20 }, async (_none, index) => {
      const ms = 100 + Math.floor(random() * 400);
      const connection = await callRaw(leaving, { id: `raw ${index}`, name: 'slow', args: { ms } });
      const way = random() < 0.5 ? 'destroy' : 'resetAndDestroy';
      await new Promise((resolve) => setTimeout(resolve, random() * 600));
      connection.socket[way]();
    });
    await Promise.all(cuts);
    await waitUntil('the end of the calls', async () =>
      (await server.status()).sessions.find(({ hash }) => hash === leaving.hash)?.inFlight === 0 ? true : undefined,
    );
    expect(testbed.eventsOf('answered', { tool: 'slow' }).length).toBeGreaterThan(10);
    isOver = true;
    expect(await calling).toBeGreaterThan(0);
    expect(structuredOf(await leaving.call('inspect'))['pid']).toBe(pid);
    await waitUntil('no call in flight', async () =>
      (await server.metric('calls_in_flight')) === 0 ? true : undefined,
    );
    expect(testbed.counts().started).toBe(2);
    expectUnharmed(server);
  });

  test('the answer is counted as one that could not be delivered', async () => {
    const server = await HttpServer.start(testbed, { env: strict });
    const client = await server.open();
    const call = await client.start('hold', { key: 'k' }, { id: 'left' });
    await testbed.waitForEvent('received', { tool: 'hold' });
    call.close();
    await server.waitForLog('request done', { method: 'POST' }, { count: 3 });
    await client.call('release', { key: 'k' });
    await waitUntil('the count', async () =>
      (await server.metric('calls_seconds_count', '"undelivered"')) === 1 ? true : undefined,
    );
    expectUnharmed(server);
  });

  test('streams to listen on that are cut are forgotten, and the next one is served', async () => {
    const server = await HttpServer.start(testbed, { env: strict });
    const client = await server.open();
    await client.call('echo');
    for (let round = 0; round < 30; round += 1) {
      const stream = await client.listen();
      await stream.sees('the first bytes', () => true);
      stream.close();
    }
    const stream = await client.listen();
    await client.call('notify', { method: 'notifications/x', later: true });
    await stream.gets('the notice', ({ method }) => method === 'notifications/x');
    expectUnharmed(server);
  });
});

describe('a client that does not read what it asked for', () => {
  const large = 67_000_000;

  test('is cut off after the write timeout, the session lives on, and the memory comes back', async () => {
    const server = await HttpServer.start(testbed, {
      env: strict,
      settings: { 'http-write-timeout-ms': writeTimeoutMs, 'max-message-bytes': 80_000_000 },
    });
    const client = await server.open();
    const { pid } = structuredOf(await client.call('inspect'));
    // The first large answer makes the heap as large as it gets.
    expect(JSON.stringify(await client.call('big', { bytes: large })).length).toBeGreaterThan(large);
    const before = await lowestMemory(client, server);
    const done = server.logged('request done', { method: 'POST' }).length;
    const connection = await callRaw(client, { id: 'raw', name: 'big', args: { bytes: large } });
    connection.socket.pause();
    await server.waitForLog('request done', { method: 'POST' }, { count: done + 1 });
    expect(structuredOf(await client.call('inspect'))).toMatchObject({ pid });
    const after = await lowestMemory(client, server);
    expect(after).toBeLessThan(before + 20);
    connection.close();
    expectUnharmed(server);
  });

  test('ten times over, one after the other: unread answers never add up', async () => {
    const server = await HttpServer.start(testbed, {
      env: strict,
      settings: { 'http-write-timeout-ms': 60_000, 'max-message-bytes': 80_000_000, 'http-replay-bytes': 0 },
    });
    const client = await server.open();
    await client.call('echo');
    const start = residentMebibytes(server.program.pid);
    const connections: RawConnection[] = [];
    for (let count = 0; count < 10; count += 1) {
      const connection = await callRaw(client, { id: `raw ${count}`, name: 'big', args: { bytes: 30_000_000 } });
      connection.socket.pause();
      connections.push(connection);
      await testbed.waitForEvent('answered', { tool: 'big' }, count + 1);
    }
    // 64 MiB may lie there, and the one that went over; the rest is what the machinery of one answer takes.
    await waitUntil('the client to be cut', () => server.logged('client cut off')[0]);
    expect((await client.call('echo', { alive: true })).result).toBeDefined();
    expect(residentMebibytes(server.program.pid) - start).toBeLessThan(220);
    for (const connection of connections) connection.close();
    expectUnharmed(server);
  });

  /** The least memory of the server while small calls give its garbage collector reason to work; MiB. */
  async function lowestMemory(client: HttpClient, server: HttpServer): Promise<number> {
    let least = Infinity;
    for (let count = 0; count < 60; count += 1) {
      await client.call('big', { bytes: 500_000 });
      least = Math.min(least, residentMebibytes(server.program.pid));
    }
    return least;
  }
});

describe('a client that stops in the middle', () => {
  test.each(['GET', 'POST'])('a stopped reader of a %s holds up nobody else', async (method) => {
    const server = await HttpServer.start(testbed, { env: strict, settings: { 'http-write-timeout-ms': 60_000 } });
    const [stuck, free] = await Promise.all([server.open(), server.open()]);
    await stuck.call('echo');
    let connection: RawConnection | undefined;
    let stream: Answer | undefined;
    if (method === 'POST') {
      connection = await callRaw(stuck, { id: 'raw', name: 'big', args: { bytes: 20_000_000 } });
      connection.socket.pause();
    } else {
      stream = await stuck.listen();
    }
    await testbed.waitForEvent('answered', { tool: method === 'POST' ? 'big' : 'echo' });
    for (const client of [free, stuck]) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => client.call('echo')));
      expect(answers.every(({ result }) => result !== undefined)).toBe(true);
    }
    connection?.close();
    stream?.close();
    expectUnharmed(server);
  });
});
