import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient, Message } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { initializeBody, postHeaders, send, type Answer } from '../support/http-exchange.ts';
import { type HttpClient, HttpServer, serverArgs } from '../support/http-server.ts';
import { descendantsOf, isRunning } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

const tokens = ['token-of-the-first-client', 'token-of-the-second-client'] as const;

function initialize(server: HttpServer, id: string | number, token?: string): Promise<Answer> {
  const headers = { ...postHeaders, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  return send(server.url, { headers, body: { ...initializeBody(), id } });
}

async function refusalOf(answer: Answer): Promise<{ status: number; retryAfter: number; message: Message }> {
  const message = JSON.parse(await answer.ended()) as Message;
  return { status: answer.status, retryAfter: Number(answer.headers['retry-after']), message };
}

/** Nothing is left of any session: only the server and its own folder. */
async function expectNothingLeft(server: HttpServer): Promise<void> {
  await waitUntil('no session', async () => ((await server.metric('sessions')) === 0 ? true : undefined), 30_000);
  expect(descendantsOf(server.program.pid)).toEqual([]);
  expect(await listEntries(testbed.folders.tmp)).toHaveLength(2);
}

async function isKnown(client: HttpClient): Promise<boolean> {
  return (await client.post({ method: 'notifications/x' })) === 202;
}

describe('a flood of initializes', () => {
  test('over the limit: 503 with Retry-After under the id of the request, nothing is started, and the others go on', async () => {
    const server = await HttpServer.start(testbed, { settings: { 'http-session-max': 5 } });
    const first = await server.open();
    const pid = structuredOf(await first.call('inspect'))['pid'];
    const answers = await Promise.all(Array.from({ length: 50 }, (_none, id) => initialize(server, id)));
    const refused = answers.filter(({ status }) => status === 503);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(4);
    expect(refused).toHaveLength(46);
    for (const answer of refused) {
      const { message, retryAfter } = await refusalOf(answer);
      expect(message).toMatchObject({
        id: answers.indexOf(answer),
        error: { code: -32016, data: { reason: 'sessions_full', hint: expect.stringContaining('--http-session-max') } },
      });
      expect(retryAfter).toBeGreaterThan(0);
    }
    expect(structuredOf(await first.call('inspect'))).toMatchObject({ pid, calls: 2 });
    expect(testbed.counts().started).toBe(1);
    expect(await server.metric('refusals_total', '"sessions_full"')).toBe(46);
    expect(await server.metric('sessions', '"open"')).toBe(5);

    expect(await first.end()).toBe(200);
    const next = await initialize(server, 'next');
    expect([next.status, (await initialize(server, 'one more')).status]).toEqual([200, 503]);
    const ready = await server.ask('/readyz');
    expect([ready.status, JSON.parse(await ready.text())]).toEqual([
      503,
      expect.objectContaining({ reason: 'sessions_full', sessions: { active: 5, pending: 0, max: 5, available: 0 } }),
    ]);
  });

  test('of one token: 429 for it, while another token is served', async () => {
    const server = await HttpServer.start(testbed, {
      settings: { 'http-session-max-per-token': 2 },
      env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: tokens.join(',') },
    });
    const answers = await Promise.all(Array.from({ length: 5 }, (_none, id) => initialize(server, id, tokens[0])));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    const { status, retryAfter, message } = await refusalOf(await initialize(server, 'over', tokens[0]));
    expect(status).toBe(429);
    expect(retryAfter).toBeGreaterThan(0);
    expect(message).toMatchObject({
      id: 'over',
      error: { data: { reason: 'token_full', hint: expect.stringContaining('--http-session-max-per-token') } },
    });
    expect((await initialize(server, 'other', tokens[1])).status).toBe(200);
  });

  test('on a computer without free memory: 503 memory_low, and not ready', async () => {
    const server = await HttpServer.start(testbed, { settings: { 'http-min-free-memory': 1_099_511_627_776 } });
    const { status, message } = await refusalOf(await initialize(server, 1));
    expect([status, message.error?.data?.['reason']]).toEqual([503, 'memory_low']);
    expect((await server.ask('/readyz')).status).toBe(503);
    expect((await server.ask('/healthz')).status).toBe(200);
  });

  test('of calls in one session: 429 for one more than allowed, none of them is lost, and a cancelled one makes room', async () => {
    const server = await HttpServer.start(testbed, { settings: { 'http-session-max-calls': 3 } });
    const client = await server.open();
    const calls = await Promise.all([1, 2, 3].map((id) => client.start('never', {}, { id })));
    const { status, retryAfter, message } = await refusalOf(await client.start('echo', {}, { id: 4 }));
    expect([status, message.id, message.error?.data?.['reason']]).toEqual([429, 4, 'calls_full']);
    expect(retryAfter).toBeGreaterThan(0);
    expect(await client.post({ method: 'notifications/cancelled', params: { requestId: 2 } })).toBe(202);
    expect(await calls[1]?.ended()).not.toContain('"id":2');
    expect((await client.call('echo', {}, { id: 5 })).result).toBeDefined();
    expect(calls.map(({ isEnded }) => isEnded)).toEqual([false, true, false]);
  });

  test('so many children boot at once as --http-starts-max says, and all get their turn', async () => {
    const server = await HttpServer.start(testbed, {
      child: 'slow-child',
      settings: { 'http-starts-max': 2, 'start-timeout-ms': 55_000 },
      fake: { INITIALIZE_MS: '300' },
    });
    const clients = await Promise.all(Array.from({ length: 6 }, () => server.open()));
    const calls = clients.map((client) => client.call('echo'));
    let most = 0;
    const watching = waitUntil(
      'six children',
      async () => {
        const { startQueue } = await server.status();
        most = Math.max(most, startQueue.running);
        expect(startQueue.running).toBeLessThanOrEqual(2);
        return testbed.eventsOf('received', { method: 'tools/call' }).length === 6 ? true : undefined;
      },
      50_000,
    );
    await Promise.all([...calls, watching]);
    expect(most).toBe(2);
    expect(testbed.counts()).toEqual({ started: 6, calls: 6, answered: 6 });
  });
});

describe('a client that goes before it has the answer to initialize', () => {
  test('leaves no session', async () => {
    // Without a catalog initialize waits for a child that lists its tools; this one never does.
    await testbed.learnCatalog('slow-child');
    await testbed.damageCatalog();
    const program = testbed.start({
      child: 'slow-child',
      args: serverArgs(),
      fake: { INITIALIZE_MS: 'never' },
    });
    const server = await HttpServer.attach(program);
    const body = JSON.stringify(initializeBody());
    const head = Object.entries({ host: 'localhost', ...postHeaders, 'content-length': body.length });
    const text = `POST /mcp HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
    for (const [index, how] of (['end', 'resetAndDestroy'] as const).entries()) {
      const connection = await RawConnection.open(server.port);
      connection.send(text);
      await server.waitForLog('session opened', {}, { count: index + 1 });
      connection.socket[how]();
      await server.waitForLog('session ended', { reason: 'abandoned' }, { count: index + 1 });
      connection.close();
    }
    expect((await server.status()).sessions).toEqual([]);
    expect(await server.metric('sessions_ended_total', '"abandoned"')).toBe(2);
  });
});

describe('sessions that nobody uses', () => {
  const listener = join(import.meta.dirname, '../fixtures/listening-client.mjs');

  /** A program that listens on the session's stream and answers pings. */
  async function listenApart(client: HttpClient): Promise<LineClient> {
    const program = testbed.startProgram({ program: listener, args: [client.url, client.id] });
    await waitUntil('the stream of the other program', () =>
      program.strayLines.includes('open 200') ? true : undefined,
    );
    return program;
  }

  async function openUsed(server: HttpServer): Promise<{ client: HttpClient; pid: number }> {
    const client = await server.open();
    return { client, pid: Number(structuredOf(await client.call('inspect'))['pid']) };
  }

  async function expectUnknown(client: HttpClient): Promise<void> {
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo' } };
    for (const sent of [{ method: 'GET' }, { method: 'DELETE' }, { body: call }]) {
      const answer = await client.send(sent);
      expect([answer.status, answer.contentType]).toEqual([404, 'application/json']);
      expect(JSON.parse(await answer.ended())).toMatchObject({ error: { data: { reason: 'session_unknown' } } });
    }
  }

  test('end after their limits, and those that are used in whatever way do not', async () => {
    const server = await HttpServer.start(testbed, {
      settings: { 'http-session-idle-ttl-ms': 6000, 'http-session-unused-ttl-ms': 4000 },
    });
    const unused = await server.open();
    const idle = await openUsed(server);
    const silent = await openUsed(server);
    const stopped = await openUsed(server);
    const answering = await openUsed(server);
    const calling = await openUsed(server);
    const busy = await openUsed(server);
    const long = await busy.client.start('slow', { ms: 15_000 }, { id: 'long' });
    const stream = await silent.client.listen();
    await listenApart(answering.client);
    (await listenApart(stopped.client)).kill('SIGSTOP');

    const isOver = ({ client }: { client: HttpClient }): boolean =>
      server.logged('session ended', { sessionId: client.hash, reason: 'idle', count: 1 }).length === 1;
    const until = async (what: string, isReached: () => boolean): Promise<void> => {
      const look = async (): Promise<true | undefined> => {
        expect((await calling.client.call('echo')).result).toBeDefined();
        return isReached() ? true : undefined;
      };
      await waitUntil(what, look, 30_000);
    };
    await until('the end of the idle ones', () => [idle, silent, stopped].every(isOver));
    expect(server.logged('session ended', { sessionId: unused.hash, reason: 'unused', count: 0 })).toHaveLength(1);
    // The ping asked the one that did not answer; it was the last thing before the stream's regular end.
    await stream.ended();
    expect([stream.soFar.at(-1)?.method, stream.isComplete]).toEqual(['ping', true]);
    for (const { pid } of [idle, silent, stopped]) expect(isRunning(pid)).toBe(false);

    await until('the answer to the long call', () => long.isEnded);
    expect(JSON.stringify(long.soFar)).toContain('late');
    for (const { client, pid } of [answering, calling, busy]) {
      expect(structuredOf(await client.call('inspect'))['pid']).toBe(pid);
    }
    for (const client of [unused, idle.client, silent.client, stopped.client]) await expectUnknown(client);
    expect(testbed.counts().started).toBe(6);
    expect(await server.metric('sessions_ended_total', '"idle"')).toBe(3);
    expect(await server.metric('sessions_ended_total', '"unused"')).toBe(1);
  });

  test('fifty that are opened and left end by themselves, and nothing of them is left', async () => {
    const server = await HttpServer.start(testbed, {
      settings: { 'http-session-max': 50, 'http-session-unused-ttl-ms': 1000 },
    });
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(Array.from({ length: 10 }, (_none, id) => initialize(server, id)));
    }
    await server.waitForLog('session ended', { reason: 'unused' }, { count: 50 });
    await expectNothingLeft(server);
    expect(testbed.counts().started).toBe(0);
    expect((await server.ask('/readyz')).status).toBe(200);
  });

  test('end at their greatest age even in use, and the client is told the same as of any other end', async () => {
    const server = await HttpServer.start(testbed, { settings: { 'http-session-max-age-ms': 2500 } });
    const client = await server.open();
    await client.call('echo');
    await waitUntil('the end', async () => ((await isKnown(client)) ? undefined : true), 20_000);
    await server.waitForLog('session ended', { reason: 'age' });
    await expectNothingLeft(server);
  });

  test('a client that only posts keeps its child and what it holds, whether or not it opens a stream and answers pings', async () => {
    // The limit is far off, so pings are never answered and yet never end it: what counts is the limit alone.
    const server = await HttpServer.start(testbed, { settings: { 'http-session-idle-ttl-ms': 8000 } });
    const [posting, deaf] = await Promise.all([server.open(), server.open()]);
    const pids = await Promise.all([posting, deaf].map(async (one) => structuredOf(await one.call('inspect'))['pid']));
    const stream = await deaf.listen();
    await stream.gets('a ping', ({ method }) => method === 'ping', 20_000);
    const again = await Promise.all([posting, deaf].map(async (one) => structuredOf(await one.call('inspect'))['pid']));
    expect(again).toEqual(pids);
  });
});
