import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import type { Answer, StreamEvent } from '../support/http-exchange.ts';
import { type HttpClient, HttpServer } from '../support/http-server.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** What a session of the server keeps, small enough to be filled exactly. */
const maxEvents = 5;
const maxBytes = 4000;

let testbed: Testbed;
let server: HttpServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  server = await HttpServer.start(testbed, {
    settings: {
      'http-replay-events': maxEvents,
      'http-replay-bytes': maxBytes,
      'http-retry-ms': 4321,
      'http-session-max': 100,
    },
  });
});

afterAll(async () => {
  await testbed.close();
});

/** A call that is held, on a stream that was cut; gives the id to go on from. */
async function cutCall(client: HttpClient, key: string, args: object = {}): Promise<string> {
  const stream = await client.start('hold', { key, ...args }, { id: key, meta: { progressToken: key } });
  const { id = '' } = await stream.sees('priming', ({ data }) => data === '');
  await testbed.waitForEvent('received', { tool: 'hold', id: key });
  stream.close();
  await stream.ended();
  return id;
}

/** Progress of the held call: it goes to that call's stream, whatever else is open. */
async function tellProgress(client: HttpClient, key: string, progress: number, message = ''): Promise<void> {
  const params = { progressToken: key, progress, message };
  await client.call('notify', { method: 'notifications/progress', params });
}

async function refusalOf(answer: Answer): Promise<Message> {
  expect([answer.status, answer.contentType]).toEqual([400, 'application/json']);
  return JSON.parse(await answer.ended()) as Message;
}

describe('a call whose stream was cut', () => {
  test('is answered on the stream that goes on with it, which ends with the answer', async () => {
    const client = await server.open();
    const from = await cutCall(client, 'after');
    const resumed = await client.listen(from);
    await client.call('release', { key: 'after' });
    await resumed.ended();
    expect(resumed.isComplete).toBe(true);
    expect(resumed.soFar).toMatchObject([{ id: 'after', result: { content: [{ text: 'x' }] } }]);
    await client.end();
  });

  test('and that was answered meanwhile is answered there at once', async () => {
    const client = await server.open();
    const from = await cutCall(client, 'before');
    await client.call('release', { key: 'before' });
    await testbed.waitForEvent('answered', { tool: 'hold', id: 'before' });
    // Lines of a child come in order: this answer is behind the held one.
    await client.call('echo');
    const resumed = await client.listen(from);
    await resumed.ended();
    expect(resumed.soFar.filter(({ id }) => id === 'before')).toHaveLength(1);
    expect(await server.metric('calls_seconds_count', '"undelivered"')).toBeGreaterThanOrEqual(1);
    // Whoever comes again with the last event has missed nothing, and whoever comes with the first gets it again.
    const last = resumed.events.at(-1)?.id ?? '';
    const nothing = await client.listen(last);
    expect([nothing.status, await nothing.ended()]).toEqual([204, '']);
    expect(await (await client.listen(from)).ended()).toBe(resumed.received);
    await client.end();
  });

  test('gets each event once, in order, across several cuts', async () => {
    const client = await server.open();
    const got: StreamEvent[] = [];
    let stream = await client.listen(await cutCall(client, 'cuts'));
    for (const step of [1, 2, 3, 4]) {
      await tellProgress(client, 'cuts', step);
      await stream.gets(`step ${step}`, ({ params }) => params?.['progress'] === step);
      got.push(...stream.events.filter(({ data = '' }) => data !== ''));
      stream.close();
      await stream.ended();
      stream = await client.listen(got.at(-1)?.id);
    }
    await client.call('release', { key: 'cuts' });
    await stream.ended();
    got.push(...stream.events.filter(({ data = '' }) => data !== ''));
    const ids = got.map(({ id }) => id);
    expect(new Set(ids).size).toBe(5);
    const messages = got.map(({ data = '' }) => JSON.parse(data) as Message);
    expect(messages.map(({ params, id }) => params?.['progress'] ?? id)).toEqual([1, 2, 3, 4, 'cuts']);
    await client.end();
  });

  test.each([0, 2])(
    'and that the client cancelled, after %i steps of progress, has nothing more: 204, which clients do not ask again after',
    async (steps) => {
      const client = await server.open();
      const key = `cancelled ${steps}`;
      const from = await cutCall(client, key);
      for (let step = 1; step <= steps; step += 1) await tellProgress(client, key, step);
      await client.post({ method: 'notifications/cancelled', params: { requestId: key } });
      for (let round = 0; round < 2; round += 1) {
        const resumed = await client.listen(from);
        expect([resumed.status, await resumed.ended()]).toEqual([204, '']);
      }
      await client.end();
    },
  );

  test('and whose next stream was cut too before anything came is told again where it stands', async () => {
    const client = await server.open();
    const from = await cutCall(client, 'cut twice');
    for (let round = 0; round < 3; round += 1) {
      const stream = await client.listen(from);
      expect(await stream.sees('priming', () => true)).toEqual({ id: from, retry: '4321', data: '' });
      stream.close();
      await stream.ended();
    }
    const last = await client.listen(from);
    await client.call('release', { key: 'cut twice' });
    await last.ended();
    expect(last.soFar).toMatchObject([{ id: 'cut twice' }]);
    await client.end();
  });

  test('of a client that does not know events without a message begins with a comment, at once', async () => {
    const client = await server.open({ protocolVersion: '2025-06-18' });
    const call = await client.start(
      'hold',
      { key: 'older', steps: 1 },
      { id: 'older', meta: { progressToken: 'older' } },
    );
    await testbed.waitForEvent('received', { tool: 'hold', id: 'older' });
    await tellProgress(client, 'older', 0);
    const { id } = await call.sees('progress', ({ data }) => data !== undefined);
    call.close();
    await call.ended();
    const resumed = await client.listen(id);
    expect(await resumed.sees('the first bytes', () => true)).toEqual({});
    await client.call('release', { key: 'older' });
    await resumed.ended();
    expect(resumed.soFar.map(({ params, id: answered }) => params?.['progress'] ?? answered)).toEqual([1, 'older']);
    await client.end();
  });

  test('is taken over by the newest of two streams that go on with it', async () => {
    const client = await server.open();
    const from = await cutCall(client, 'twice');
    const first = await client.listen(from);
    const second = await client.listen(from);
    await first.ended();
    expect([first.isComplete, first.soFar]).toEqual([true, []]);
    await client.call('release', { key: 'twice' });
    await second.ended();
    expect(second.soFar).toMatchObject([{ id: 'twice' }]);
    await client.end();
  });

  test('does not hold up the calls of the session meanwhile, nor change its child', async () => {
    const client = await server.open();
    const { pid } = structuredOf(await client.call('inspect'));
    await cutCall(client, 'left');
    expect(structuredOf(await client.call('inspect'))).toMatchObject({ pid, calls: 3 });
    expect((await client.send({ body: held('left') })).status).toBe(400);
    await client.end();
  });

  function held(id: string): object {
    return { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'hold', arguments: { key: id } } };
  }
});

describe('the stream to listen on', () => {
  test('goes on where it was cut, with what came meanwhile', async () => {
    const client = await server.open();
    const stream = await client.listen();
    const { id } = await stream.sees('priming', ({ data }) => data === '');
    await client.call('notify', { method: 'notifications/x', params: { n: 1 }, later: true });
    await stream.gets('the first notice', ({ method }) => method === 'notifications/x');
    const last = stream.events.at(-1)?.id;
    stream.close();
    await stream.ended();
    await client.call('notify', { method: 'notifications/x', params: { n: 'second' }, later: true });
    // No call meanwhile: a notice that comes during one goes to its stream.
    await waitUntil('the second notice', () =>
      testbed.sent().some((line) => line.includes('"n":"second"') && line.includes('notifications/x'))
        ? true
        : undefined,
    );
    const two = await client.listen(last);
    await two.gets('the second notice', ({ params }) => params?.['n'] === 'second');
    expect(two.soFar.map(({ params }) => params?.['n'])).toEqual(['second']);
    const both = await client.listen(id);
    await both.gets('the second notice', ({ params }) => params?.['n'] === 'second');
    expect(both.soFar.map(({ params }) => params?.['n'])).toEqual([1, 'second']);
    await two.ended();
    expect(two.isComplete).toBe(true);
    await client.end();
  });

  test('tells when to come back as the server is set', async () => {
    const client = await server.open();
    const stream = await client.listen();
    expect(await stream.sees('priming', ({ data }) => data === '')).toMatchObject({ retry: '4321' });
    await client.end();
  });
});

describe('what is kept for a client that comes back', () => {
  let rounds = 100;

  /** What is left of a call that was cut before so many steps of progress and an answer of so many bytes. */
  async function leftOf(steps: number, bytes: number): Promise<Answer> {
    const client = await server.open();
    rounds += 1;
    const key = `full ${rounds}`;
    const from = await cutCall(client, key, { steps, bytes });
    await client.call('release', { key });
    await waitUntil('the answer', async () => {
      const status = (await server.status()).sessions.find(({ hash }) => hash === client.hash);
      return status?.inFlight === 0 ? true : undefined;
    });
    const left = await client.listen(from);
    await left.ended();
    await client.end();
    return left;
  }

  function contentOf(stream: Answer): unknown[] {
    return stream.soFar.map(({ params, id }) => params?.['progress'] ?? typeof id);
  }

  test('is so many events, in full up to the limit, and refused one past it', async () => {
    const full = await leftOf(maxEvents - 1, 1);
    expect(contentOf(full)).toEqual([1, 2, 3, 4, 'string']);
    expect((await refusalOf(await leftOf(maxEvents, 1))).error?.data?.['reason']).toBe('replay_gone');
  });

  test('is so many bytes, in full up to the limit, and refused one past it', async () => {
    const bytesOf = ({ received }: Answer): number => received.length - received.indexOf('event: message');
    const exact = maxBytes - bytesOf(await leftOf(1, 1)) + 1;
    const full = await leftOf(1, exact);
    expect(bytesOf(full)).toBe(maxBytes);
    expect(contentOf(full)).toEqual([1, 'string']);
    expect((await refusalOf(await leftOf(1, exact + 1))).error?.data?.['reason']).toBe('replay_gone');
  });

  test.each(['x', '99-1', '1-999999', '-1', '0-0', '1-1-1', '1e1-1', '9'.repeat(400)])(
    'has nothing for the event id "%s": 400 as JSON, and the session lives on',
    async (eventId) => {
      const client = await server.open();
      const message = await refusalOf(await client.listen(eventId));
      expect(message.error?.data).toMatchObject({
        reason: 'replay_gone',
        hint: expect.stringContaining('--http-replay-events'),
      });
      expect((await client.call('echo')).result).toBeDefined();
      await client.end();
    },
  );

  test('of one session is not for another one, whose event ids may look the same', async () => {
    const [one, other] = await Promise.all([server.open(), server.open()]);
    const from = await cutCall(one, 'secret-of-one');
    await one.call('release', { key: 'secret-of-one' });
    await testbed.waitForEvent('answered', { id: 'secret-of-one' });
    await one.call('echo');
    expect((await refusalOf(await other.listen(from))).error?.data?.['reason']).toBe('replay_gone');
    const own = await cutCall(other, 'of-the-other');
    expect(own).toBe(from);
    await other.call('release', { key: 'of-the-other' });
    const resumed = await other.listen(from);
    await resumed.ended();
    expect(resumed.received).toContain('of-the-other');
    expect(resumed.received).not.toContain('secret-of-one');
    await Promise.all([one.end(), other.end()]);
  });

  test('is not an answer larger than all of it: an error under the id of the call stands for that', async () => {
    const client = await server.open();
    const whole = await client.call('big', { bytes: 100_000 });
    expect(JSON.stringify(whole)).toContain('x'.repeat(100_000));
    const from = await cutCall(client, 'large', { bytes: 100_000 });
    await client.call('release', { key: 'large' });
    await testbed.waitForEvent('answered', { tool: 'hold', id: 'large' });
    await client.call('echo');
    const resumed = await client.listen(from);
    await resumed.ended();
    expect(resumed.soFar).toMatchObject([{ id: 'large', error: { data: { reason: 'replay_gone' } } }]);
    expect(resumed.soFar[0]?.error?.data?.['hint']).toContain('--http-replay-bytes');
    await client.end();
  });

  test('is gone with the session', async () => {
    const client = await server.open();
    const from = await cutCall(client, 'gone');
    await client.end();
    expect((await client.listen(from)).status).toBe(404);
  });
});
