import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../support/client.ts';
import { initializeBody, postHeaders, send, type Answer, type StreamEvent } from '../support/http-exchange.ts';
import { HttpServer } from '../support/http-server.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let server: HttpServer;
/** Sends a comment every 100 ms on quiet streams. */
let lively: HttpServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  const quiet = { 'http-stream-keep-alive-ms': 0, 'http-session-max': 100 };
  server = await HttpServer.start(testbed, { settings: quiet });
  lively = await HttpServer.start(testbed, { settings: { 'http-stream-keep-alive-ms': 100 } });
});

afterAll(async () => {
  await testbed.close();
});

const isComment = (event: StreamEvent): boolean => Object.keys(event).length === 0;
const isPriming = ({ id, data }: StreamEvent): boolean => id !== undefined && data === '';

function changed(name: string, later = false): JsonObject {
  return { method: `notifications/${name}`, later };
}

async function sawOnly(stream: Answer, method: string): Promise<void> {
  await stream.gets(method, (message) => message.method === method);
  expect(stream.soFar.filter((message) => message.method === method)).toHaveLength(1);
}

describe('the first bytes of a stream', () => {
  test.each([
    ['2025-11-25', isPriming],
    ['2025-06-18', isComment],
    ['2025-03-26', isComment],
  ])('of a %s client come before the answer and before anything else', async (protocolVersion, isFirst) => {
    const client = await server.open({ protocolVersion });
    for (const stream of [await client.start('hold', { key: 'first' }), await client.listen()]) {
      await stream.sees('the first bytes', () => true);
      expect(stream.events).toHaveLength(1);
      expect(stream.events.every(isFirst)).toBe(true);
      expect(stream.headers).toMatchObject({
        'content-type': 'text/event-stream',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        'mcp-session-id': client.id,
      });
    }
    await client.end();
  });

  test('of a client that knows them tell when to come back, as the server is set', async () => {
    const client = await lively.open();
    const stream = await client.listen();
    expect(await stream.sees('priming', isPriming)).toMatchObject({ retry: '1000' });
    await client.end();
  });

  test('are in the answer to initialize too, since its version is in the body', async () => {
    for (const [version, count] of [
      ['2025-11-25', 1],
      ['2025-06-18', 0],
    ] as const) {
      const answer = await send(server.url, { headers: postHeaders, body: initializeBody(version) });
      await answer.ended();
      expect(answer.events.filter(isPriming)).toHaveLength(count);
    }
  });
});

test('quiet streams carry comments, in the middle of a call too, which clients pass over; 0 turns them off', async () => {
  const [client, quietClient] = await Promise.all([lively.open(), server.open()]);
  const streams = [await client.start('hold', { key: 'k' }, { id: 'held' }), await client.listen()];
  const quiet = [await quietClient.start('hold', { key: 'k' }, { id: 'held' }), await quietClient.listen()];
  for (const stream of streams) {
    await waitUntil('ten comments', () => (stream.events.filter(isComment).length >= 10 ? true : undefined));
  }
  for (const stream of quiet) expect(stream.events.filter(isComment)).toEqual([]);
  await client.call('release', { key: 'k' });
  const [held] = streams;
  await held?.ended();
  expect(held?.soFar).toMatchObject([{ id: 'held', result: { content: [{ text: 'x' }] } }]);
  await Promise.all([client.end(), quietClient.end()]);
});

// With one call under way, what a child says goes to that call's stream; with two it goes to the one to listen on.
describe('a second stream to listen on', () => {
  test('is the one that counts: the older one ends, and a call that runs goes on in the same child', async () => {
    const client = await server.open();
    const { pid } = structuredOf(await client.call('inspect'));
    const call = await client.start('hold', { key: 'two' }, { id: 'held' });
    await client.start('never', {}, { id: 'beside' });
    const first = await client.listen();
    await first.sees('the first bytes', () => true);
    const second = await client.listen();
    await first.ended();
    expect([first.isComplete, first.soFar]).toEqual([true, []]);
    await client.call('notify', changed('x', true));
    await sawOnly(second, 'notifications/x');
    await client.call('release', { key: 'two' });
    await call.ended();
    expect(call.soFar.at(-1)).toMatchObject({ id: 'held', result: { content: [{ text: 'x' }] } });
    expect(structuredOf(await client.call('inspect'))['pid']).toBe(pid);
    await client.end();
  });

  test('is served at once while the reader of the older one is stopped, whose socket stays open', async () => {
    const client = await server.open();
    await client.call('echo');
    const call = await client.start('hold', { key: 'stopped' }, { id: 'held' });
    await client.start('never', {}, { id: 'beside' });
    const program = join(import.meta.dirname, '../fixtures/listening-client.mjs');
    const reader = testbed.startProgram({ program, args: [client.url, client.id] });
    await waitUntil('the stream of the reader', () => (reader.strayLines.includes('open 200') ? true : undefined));
    reader.kill('SIGSTOP');
    const second = await client.listen();
    await client.call('notify', changed('x', true));
    await sawOnly(second, 'notifications/x');
    await client.call('release', { key: 'stopped' });
    await call.ended();
    expect(call.soFar.at(-1)).toMatchObject({ id: 'held' });
    reader.kill('SIGCONT');
    // Nothing else keeps it running, so it ends when its stream has ended.
    expect(await reader.exited).toEqual({ code: 0, signal: null });
    await client.end();
  });

  test('after fifty in a row there is one, and each of the others came to its regular end', async () => {
    const client = await server.open();
    const streams = await Promise.all(Array.from({ length: 50 }, () => client.listen()));
    const ended = (): Answer[] => streams.filter(({ isEnded }) => isEnded);
    await waitUntil('the end of 49', () => (ended().length === 49 ? true : undefined));
    expect(ended().every(({ isComplete }) => isComplete)).toBe(true);
    await client.end();
    await waitUntil('the end of the last', () => (ended().length === 50 ? true : undefined));
  });
});

describe('a change of the lists that nobody could be told of', () => {
  test('is told to the next stream to listen on, once', async () => {
    const client = await server.open();
    await client.call('notify', changed('resources/list_changed', true));
    await waitUntil('the notice', () =>
      testbed.sent().some((line) => line.includes('notifications/resources/list_changed')) ? true : undefined,
    );
    await sawOnly(await client.listen(), 'notifications/resources/list_changed');
    const next = await client.listen();
    await next.sees('the first bytes', () => true);
    await client.call('notify', changed('y', true));
    await sawOnly(next, 'notifications/y');
    expect(next.soFar).toHaveLength(1);
    await client.end();
  });

  test('a new child after a loss is one: the client is told to list the tools again', async () => {
    const client = await server.open();
    const stream = await client.listen();
    await client.call('exit');
    // Told while this call is under way it comes on its stream, and after it on the other.
    const call = await client.start('echo');
    await call.ended();
    const told = await waitUntil('the notice', () => {
      const all = [...call.soFar, ...stream.soFar].filter(
        ({ method }) => method === 'notifications/tools/list_changed',
      );
      return all.length > 0 ? all : undefined;
    });
    expect(told).toHaveLength(1);
    await client.end();
  });
});

describe('a call that the client cancels', () => {
  test('closes its stream without an answer, and its id is free again', async () => {
    const client = await server.open();
    const call = await client.start('slow', { ms: 60_000 }, { id: 7 });
    await testbed.waitForEvent('received', { tool: 'slow' });
    expect(await client.post({ method: 'notifications/cancelled', params: { requestId: 7 } })).toBe(202);
    await call.ended();
    expect([call.isComplete, call.soFar]).toEqual([true, []]);
    await testbed.waitForEvent('cancelled');
    expect((await client.call('echo', { again: 1 }, { id: 7 })).result).toBeDefined();
    expect((await server.status()).sessions.find(({ hash }) => hash === client.hash)?.inFlight).toBe(0);
    await client.end();
  });

  test('and that the child answers all the same is told to nobody', async () => {
    const client = await server.open();
    const stream = await client.listen();
    const call = await client.start('hold', { key: 'late' }, { id: 8 });
    await testbed.waitForEvent('received', { tool: 'hold', id: 8 });
    await client.post({ method: 'notifications/cancelled', params: { requestId: 8 } });
    await call.ended();
    await client.call('release', { key: 'late' });
    await testbed.waitForEvent('answered', { tool: 'hold', id: 8 });
    await client.call('notify', changed('z', true));
    await sawOnly(stream, 'notifications/z');
    expect([...stream.soFar, ...call.soFar].filter(({ id }) => id !== undefined)).toEqual([]);
    await client.end();
  });
});

test('a batch is answered on one stream, which ends with its last answer', async () => {
  const client = await server.open({ protocolVersion: '2025-03-26' });
  const call = (id: number, name: string, args: object): object => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: args },
  });
  const body = [
    call(1, 'hold', { key: 'b' }),
    call(2, 'echo', {}),
    { jsonrpc: '2.0', method: 'notifications/x/batch' },
  ];
  const answer = await client.send({ body });
  await answer.gets('the quick one', ({ id }) => id === 2);
  expect(answer.isEnded).toBe(false);
  await client.call('release', { key: 'b' }, { id: 3 });
  await answer.ended();
  expect(answer.soFar.filter(({ method }) => method === undefined).map(({ id }) => id)).toEqual([2, 1]);
  await client.end();
});
