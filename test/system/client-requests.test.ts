import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject, LineClient, Message } from '../support/client.ts';
import { Testbed, textOf } from '../support/testbed.ts';

const capable = {
  protocolVersion: '2025-11-25',
  capabilities: { roots: {}, sampling: {}, elicitation: {} },
  clientInfo: { name: 'test-client', version: '0.0.1' },
};

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
});

afterEach(async () => {
  await testbed.close();
});

async function startCapable(options: Parameters<Testbed['start']>[0] = {}): Promise<LineClient> {
  const client = testbed.start(options);
  await client.initialize(capable);
  return client;
}

/** What the child got as the answer to its question, as the tool reports it. */
async function answerSeenByChild(asking: Promise<Message>): Promise<JsonObject> {
  return JSON.parse(textOf(await asking)) as JsonObject;
}

describe('requests of the child', () => {
  test.each([
    [
      'sampling/createMessage',
      { messages: [{ role: 'user', content: { type: 'text', text: 'hi', 'x-c': 1 } }], maxTokens: 5, 'x-p': {} },
      { role: 'assistant', content: { type: 'text', text: 'yes' }, model: 'm', 'x-r': [1] },
    ],
    [
      'elicitation/create',
      { mode: 'form', message: 'Name?', requestedSchema: { type: 'object', properties: { n: { type: 'string' } } } },
      { action: 'accept', content: { n: 'x' }, _meta: { 'x-m': 0 } },
    ],
    ['roots/list', undefined, { roots: [{ uri: 'file:///tmp', name: 't', 'x-root': true }], 'x-list': 1 }],
    ['x/question', { any: [null] }, { answer: { deep: [] } }],
    ['ping', undefined, {}],
  ])('%s reaches the client and its result the child, all members kept', async (method, params, result) => {
    const client = await startCapable();
    client.onRequest(method, () => ({ result }));
    const seen = await answerSeenByChild(client.call('ask', { method, params }));
    expect(client.messagesOf(method).map((message) => message.params)).toEqual([params]);
    expect(seen).toEqual({ jsonrpc: '2.0', id: 0, result });
  });

  test('an error of the client reaches the child with code, message, data and unknown members', async () => {
    const client = await startCapable();
    const error = { code: -1, message: 'User said "no" é', data: { why: [0, null] }, 'x-error': 1 };
    client.onRequest('sampling/createMessage', () => ({ error }));
    const seen = await answerSeenByChild(client.call('ask', { method: 'sampling/createMessage', params: {} }));
    expect(seen).toEqual({ jsonrpc: '2.0', id: 0, error });
  });

  test('two questions at once, answered in the other order, get their own answers', async () => {
    const client = await startCapable();
    const first = client.call('ask', { method: 'x/question', params: { n: 1 } });
    const second = client.call('ask', { method: 'x/question', params: { n: 2 } });
    const asked = [1, 2].map((n) =>
      client.seen(`question ${n}`, ({ method, params }) => method === 'x/question' && params?.['n'] === n),
    );
    const [one, two] = await Promise.all(asked);
    client.send({ id: two?.id, result: { to: 2 } });
    client.send({ id: one?.id, result: { to: 1 } });
    expect(await answerSeenByChild(first)).toMatchObject({ result: { to: 1 } });
    expect(await answerSeenByChild(second)).toMatchObject({ result: { to: 2 } });
  });

  test('both directions may use the same id at the same time', async () => {
    const client = await startCapable();
    client.onRequest('x/question', () => ({ result: { from: 'client' } }));
    for (const id of [0, 1, 2]) {
      const answer = client.call('ask', { method: 'x/question' }, { id });
      expect(await answerSeenByChild(answer)).toMatchObject({ result: { from: 'client' } });
    }
  });

  test('an answer to a question that nobody asked never reaches the child', async () => {
    const client = await startCapable();
    await client.call('echo');
    client.send({ id: 0, result: { stray: 1 } });
    client.send({ id: 'no-such', error: { code: 1, message: 'stray' } });
    await client.call('echo');
    expect(testbed.received().filter((line) => line.includes('stray'))).toEqual([]);
  });

  test('a question that the client never answers leaves the session usable', async () => {
    const client = await startCapable();
    const ask = { name: 'ask', arguments: { method: 'elicitation/create', params: {} } };
    client.send({ id: 'asking', method: 'tools/call', params: ask });
    await client.seen('the question', ({ method }) => method === 'elicitation/create');
    expect(textOf(await client.call('echo', { a: 1 }))).toContain('"a":1');
    expect(client.countAnswers('asking')).toBe(0);
    expect(await client.close()).toEqual({ code: 0, signal: null });
  });
});

describe('roots', () => {
  test('the list of the client reaches a child that asks for it in the first call, as upstream does', async () => {
    const client = await startCapable({ fake: { ROOTS: '1' } });
    const roots = [{ uri: 'file:///tmp/a', name: 'a' }, { uri: 'file:///tmp/b' }];
    client.onRequest('roots/list', () => ({ result: { roots } }));
    expect(textOf(await client.call('echo'))).toContain('echo');
    expect(testbed.eventsOf('roots').map((event) => event['answer'])).toEqual([
      { jsonrpc: '2.0', id: 0, result: { roots } },
    ]);
  });

  test('not answered: the child gets an error within the limit, the call goes on, and a late answer is dropped', async () => {
    const client = await startCapable({ fake: { ROOTS: '1' }, args: ['--roots-timeout-ms', '400'] });
    const started = performance.now();
    const answer = await client.call('echo', { late: 'x' });
    expect(textOf(answer)).toContain('late');
    expect(performance.now() - started).toBeGreaterThan(390);
    expect(performance.now() - started).toBeLessThan(3000);
    const [asked] = client.messagesOf('roots/list');
    const [seen] = testbed.eventsOf('roots');
    expect(seen?.['answer']).toMatchObject({ id: 0, error: { code: -32019, data: { reason: 'no_answer' } } });
    client.send({ id: asked?.id, result: { roots: [{ uri: 'file:///too-late' }] } });
    await client.call('echo');
    expect(testbed.received().filter((line) => line.includes('too-late'))).toEqual([]);
  });

  test('a change that the client announces reaches the child', async () => {
    const client = await startCapable();
    await client.call('echo');
    client.notify('notifications/roots/list_changed');
    await testbed.waitForEvent('received', { method: 'notifications/roots/list_changed' });
  });
});
