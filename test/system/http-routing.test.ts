import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import type { Answer } from '../support/http-exchange.ts';
import { type HttpClient, HttpServer } from '../support/http-server.ts';
import { Testbed, textOf } from '../support/testbed.ts';

let testbed: Testbed;
let server: HttpServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  server = await HttpServer.start(testbed, { settings: { 'http-session-max': 100 } });
});

afterAll(async () => {
  await testbed.close();
});

const questions = [
  ['sampling/createMessage', { messages: [], maxTokens: 5 }, { role: 'assistant', model: 'm' }],
  [
    'elicitation/create',
    { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
    { action: 'decline' },
  ],
  ['roots/list', {}, { roots: [{ uri: 'file:///client' }] }],
] as const;

function isQuestion(method: string): (message: Message) => boolean {
  return (message) => message.method === method && message.id !== undefined;
}

/** Messages on a stream besides the answer of its own call. */
function others(stream: Answer): Message[] {
  return stream.soFar.filter(({ method }) => method !== undefined);
}

async function answerQuestion(client: HttpClient, stream: Answer, method: string, result: object): Promise<void> {
  const { id } = await stream.gets(method, isQuestion(method));
  expect(await client.post({ id, result })).toBe(202);
}

/** What the child got as the answer to its question. */
async function childGot(call: Answer): Promise<Message> {
  await call.ended();
  const answer = call.soFar.at(-1);
  if (answer?.result === undefined) throw new Error(`No result: ${call.received}`);
  return JSON.parse(textOf(answer)) as Message;
}

/** Waits until a call is with the child, of which there may be several of the same name. */
async function begin(client: HttpClient, name: string, args: object, id: string): Promise<Answer> {
  const call = await client.start(name, { ...args }, { id, meta: { progressToken: `token of ${id}` } });
  await testbed.waitForEvent('received', { tool: name, id });
  return call;
}

describe('progress', () => {
  test('of each of two calls goes to the stream of its own, whoever listens', async () => {
    const client = await server.open();
    const stream = await client.listen();
    const one = await begin(client, 'hold', { key: 'a', steps: 3 }, 'a');
    const other = await begin(client, 'hold', { key: 'b', steps: 2 }, 'b');
    await client.call('release', { key: 'b' });
    await other.ended();
    await client.call('release', { key: 'a' });
    await one.ended();
    expect(others(one).map(({ params }) => [params?.['progressToken'], params?.['progress']])).toEqual(
      [1, 2, 3].map((step) => ['token of a', step]),
    );
    expect(others(other).map(({ params }) => [params?.['progressToken'], params?.['progress']])).toEqual(
      [1, 2].map((step) => ['token of b', step]),
    );
    expect(stream.soFar).toEqual([]);
    await client.end();
  });

  test('comes before the answer, each step as an event of its own', async () => {
    const client = await server.open({ protocolVersion: '2025-06-18' });
    const call = await client.start('progress', { steps: 20 }, { id: 1, meta: { progressToken: 0 } });
    await call.ended();
    expect(call.soFar.map(({ params, id }) => params?.['progress'] ?? `answer ${id}`)).toEqual([
      ...Array.from({ length: 20 }, (_none, index) => index + 1),
      'answer 1',
    ]);
    await client.end();
  });
});

describe('log messages', () => {
  test('of a call come on its stream while nobody listens and on one stream only while somebody does', async () => {
    const client = await server.open();
    const alone = await client.start('log', { n: 1 });
    await alone.ended();
    expect(others(alone)).toMatchObject([{ method: 'notifications/message', params: { data: { n: 1 } } }]);
    const stream = await client.listen();
    const beside = await client.start('log', { n: 2 });
    await beside.ended();
    expect([...others(beside), ...stream.soFar]).toMatchObject([{ params: { data: { n: 2 } } }]);
    await client.end();
  });
});

describe.each(questions)('%s', (method, params, result) => {
  test('without a stream to listen on comes on the stream of the call, and its answer reaches the child', async () => {
    const client = await server.open();
    const call = await begin(client, 'ask', { method, params }, `${method} alone`);
    await answerQuestion(client, call, method, result);
    expect(await childGot(call)).toMatchObject({ result });
    await client.end();
  });

  test('of a call comes once, also with a stream to listen on', async () => {
    const client = await server.open();
    const stream = await client.listen();
    const call = await begin(client, 'ask', { method, params }, `${method} once`);
    await answerQuestion(client, call, method, result);
    expect(await childGot(call)).toMatchObject({ result });
    expect(stream.soFar).toEqual([]);
    await client.end();
  });

  test('of a call whose connection is gone comes on the stream to listen on', async () => {
    const client = await server.open();
    const stream = await client.listen();
    const call = await begin(client, 'ask', { method, params, key: method }, `${method} gone`);
    const { id } = await call.sees('priming', ({ data }) => data === '');
    call.close();
    await call.ended();
    await client.call('release', { key: method });
    await answerQuestion(client, stream, method, result);
    expect(await childGot(await client.listen(id))).toMatchObject({ result });
    await client.end();
  });

  test('with nobody to ask is answered with an error at once', async () => {
    const client = await server.open();
    const call = await begin(client, 'ask', { method, params, key: method }, `${method} nobody`);
    const { id } = await call.sees('priming', ({ data }) => data === '');
    call.close();
    await call.ended();
    await client.call('release', { key: method });
    await testbed.waitForEvent('answered', { tool: 'ask', id: `${method} nobody` });
    await client.call('echo');
    const { error } = await childGot(await client.listen(id));
    expect(error?.data).toMatchObject({ reason: 'no_answer' });
    expect(error?.message).toContain(method);
    await client.end();
  });
});

describe('an answer of the client', () => {
  test('to a question of another session reaches nobody, and is not told to be wrong', async () => {
    const [one, other] = await Promise.all([server.open(), server.open()]);
    const [method, params, result] = questions[0];
    const call = await begin(one, 'ask', { method, params }, 'mine');
    const { id } = await call.gets(method, isQuestion(method));
    await other.call('echo');
    expect(await other.post({ id, result: { from: 'the other' } })).toBe(202);
    expect(await one.post({ id, result })).toBe(202);
    expect((await childGot(call)).result).toEqual(result);
    expect(await one.post({ id, result: { again: true } })).toBe(202);
    await Promise.all([one.end(), other.end()]);
  });
});

describe('roots', () => {
  const withRoots = { capabilities: { roots: { listChanged: true }, sampling: {} } };

  /** What the last child of a session was told of its client. */
  function lastInitialize(bed: Testbed): Record<string, unknown> {
    const line = bed.received().findLast((text) => text.includes('"initialize"')) ?? '';
    const { params } = JSON.parse(line) as Message;
    return params?.['capabilities'] as Record<string, unknown>;
  }

  test('of a client are not told to the child: they would open folders of the server', async () => {
    const client = await server.open({ params: withRoots });
    await client.call('echo');
    expect(lastInitialize(testbed)).toEqual({ sampling: {} });
    const count = testbed.received().length;
    expect(await client.post({ method: 'notifications/roots/list_changed' })).toBe(202);
    await client.call('echo');
    expect(testbed.received().slice(count).join('\n')).not.toContain('roots');
    await client.end();
  });

  test('in the middle of a batch are left out of it, and the rest is passed on', async () => {
    const client = await server.open({ params: withRoots, protocolVersion: '2025-03-26' });
    await client.call('echo');
    const count = testbed.received().length;
    const messages = ['notifications/x/one', 'notifications/roots/list_changed', 'notifications/x/two'];
    const answer = await client.send({ body: messages.map((method) => ({ jsonrpc: '2.0', method })) });
    expect([answer.status, await answer.ended()]).toEqual([202, '']);
    await client.call('echo');
    const passed = testbed
      .received()
      .slice(count)
      .map((line) => (JSON.parse(line) as Message).method);
    expect(passed).toEqual(['notifications/x/one', 'notifications/x/two', 'tools/call']);
    await client.end();
  });

  test('are passed on where the server is set to', async () => {
    const other = await Testbed.make();
    try {
      const passing = await HttpServer.start(other, { settings: { 'http-pass-roots': 'true' }, fake: { ROOTS: '1' } });
      const client = await passing.open({ params: withRoots });
      const call = await client.start('echo');
      await answerQuestion(client, call, 'roots/list', questions[2][2]);
      await call.ended();
      expect(lastInitialize(other)).toEqual(withRoots.capabilities);
      expect(other.eventsOf('roots')).toMatchObject([{ answer: { result: questions[2][2] } }]);
    } finally {
      await other.close();
    }
  });
});
