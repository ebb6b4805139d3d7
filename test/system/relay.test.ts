import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject, LineClient, Message } from '../support/client.ts';
import { structuredOf, Testbed, textOf } from '../support/testbed.ts';

let testbed: Testbed;
let client: LineClient;

beforeAll(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
  client = testbed.start();
  await client.initialize();
});

afterAll(async () => {
  await testbed.close();
});

/** Sends a line and expects that the child got these bytes and that the client gets the bytes that the child sent. */
async function expectUntouched(id: string | number, line: string): Promise<Message> {
  const answered = client.answerTo(id);
  client.sendRaw(line);
  const answer = await answered;
  expect(testbed.received()).toContain(line);
  expect(testbed.sent()).toContain(client.lineOf(answer));
  return answer;
}

const kinds = ['text', 'image', 'audio', 'resource', 'resource_link', 'unknown'];

const exchanges: [what: string, method: string, params?: JsonObject][] = [
  ...kinds.map((kind): [string, string, JsonObject] => [
    `a result with ${kind} content`,
    'tools/call',
    { name: 'content', arguments: { kinds: [kind] } },
  ]),
  ['all content types, structured content and unknown members', 'tools/call', { name: 'content' }],
  ['an error result', 'tools/call', { name: 'fail', arguments: { as: 'result' } }],
  ['an error with code, message, data and an unknown member', 'tools/call', { name: 'fail', arguments: {} }],
  ['a tool that upstream does not know', 'tools/call', { name: 'no_such_tool', arguments: {} }],
  [
    'unknown members of params, _meta and arguments',
    'tools/call',
    {
      name: 'echo',
      arguments: { _meta: { cwd: '/x', raw: true }, value: null, 'x-argument': [0] },
      _meta: { progressToken: 'p', 'x-meta': {} },
      'x-param': { task: { ttl: 1 } },
    },
  ],
  ['resources/list', 'resources/list', { 'x-filter': 1 }],
  ['resources/templates/list', 'resources/templates/list'],
  ['resources/read', 'resources/read', { uri: 'test://text' }],
  ['resources/subscribe', 'resources/subscribe', { uri: 'test://text' }],
  ['resources/unsubscribe', 'resources/unsubscribe', { uri: 'test://text' }],
  ['prompts/list', 'prompts/list', {}],
  ['prompts/get', 'prompts/get', { name: 'greet', arguments: { who: 'you' } }],
  [
    'completion/complete',
    'completion/complete',
    { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: 'y' } },
  ],
  ['logging/setLevel', 'logging/setLevel', { level: 'debug' }],
  ['an unknown method that upstream answers', 'x/method', { deep: { list: [null, 0, ''] } }],
  ['an unknown method without params', 'x/bare'],
  ['an unknown method that upstream refuses', 'tasks/list', {}],
];

describe('what a client asks reaches the child, and the answer the client, byte for byte', () => {
  test.each(exchanges)('%s', async (what, method, params) => {
    await expectUntouched(what, JSON.stringify({ jsonrpc: '2.0', id: what, method, params }));
  });

  test.each(['numbers', 'order', 'spaces', 'separators', 'surrogates', 'nested', 'duplicate'])(
    'an answer that a parse and a print would change: %s',
    async (line) => {
      const id = `raw ${line}`;
      const request = { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'raw', arguments: { line } } };
      await expectUntouched(id, JSON.stringify(request));
    },
  );

  test.each([
    [
      'numbers',
      '{"jsonrpc":"2.0","id":"r1","method":"x/a","params":{"big":9007199254740993123,"minus":-0,"one":1.000}}',
    ],
    [
      'key order',
      '{"params":{"z":1,"2":2,"1":3},"method":"x/a","x-top":[{"id":1,"method":"x"}],"id":"r2","jsonrpc":"2.0"}',
    ],
    ['blanks', ' {\t"jsonrpc" : "2.0" , "id" : "r3" , "method" : "x/a" , "params" : { } } '],
    [
      'separators',
      '{"jsonrpc":"2.0","id":"r4","method":"x/a","params":{"t":"a\u2028b\u2029c\\u0000\u007f\\u00e9é\ufeff"}}',
    ],
    ['surrogates', '{"jsonrpc":"2.0","id":"r5","method":"x/a","params":{"t":"\\ud800 \\udfff 😀 \\ud83d\\ude00"}}'],
    ['escaped names', '{"jsonrpc":"2.0","\\u0069d":"r6","m\\u0065thod":"x\\/a","params":{"id":"no","method":"no"}}'],
    ['a repeated key', '{"jsonrpc":"2.0","id":"r7","method":"x/a","params":{"a":1,"a":2}}'],
  ])('a request that a parse and a print would change: %s', async (_what, line) => {
    const { id } = JSON.parse(line) as { id: string };
    await expectUntouched(id, line);
  });

  test.each(['0', '-1', '1.5', '9007199254740991', '""', '"0"', '"a"', '"é \\" \\\\ \\n"', `"${'long'.repeat(500)}"`])(
    'id %s',
    async (idText) => {
      const id = JSON.parse(idText) as string | number;
      const answer = await expectUntouched(id, `{"jsonrpc":"2.0","id":${idText},"method":"x/id"}`);
      expect(answer.result).toEqual({ method: 'x/id', params: null });
    },
  );

  test('an id beyond 2^53 comes back as it was sent, even if the child rounds it', async () => {
    client.sendRaw('{"jsonrpc":"2.0","id":9007199254740993,"method":"x/large"}');
    const answer = await client.seen('the answer', (message) => message.result?.['method'] === 'x/large');
    expect(client.lineOf(answer)).toContain('"id":9007199254740993');
  });
});

describe('notifications', () => {
  test('progress comes in order, before the answer, under the token that the client gave', async () => {
    for (const progressToken of ['token', 0, 7, 'twice']) {
      const from = client.messages.length;
      await client.request('tools/call', { name: 'progress', arguments: { steps: 5 }, _meta: { progressToken } });
      const came = client.messages.slice(from).filter(({ method }) => method === 'notifications/progress');
      expect(came.map(({ params }) => params)).toEqual(
        [1, 2, 3, 4, 5].map((step) => ({
          progressToken,
          progress: step,
          total: 5,
          message: `step ${step}`,
          'x-progress': true,
        })),
      );
      for (const message of came) expect(testbed.sent()).toContain(client.lineOf(message));
      expect(client.messages.at(-1)?.method).toBeUndefined();
    }
  });

  test.each([
    ['notifications/message', { level: 'info', data: { deep: [null] }, 'x-log': 1 }],
    ['notifications/resources/list_changed', { 'x-a': 1 }],
    ['notifications/prompts/list_changed', undefined],
    ['notifications/elicitation/complete', { elicitationId: 'e' }],
    ['notifications/x/unknown', { any: [{ thing: 0 }] }],
    ['notifications/progress', { progressToken: 'nobody', progress: 1 }],
  ])('%s of the child reaches the client unchanged', async (method, params) => {
    const came = client.next(method, (message) => message.method === method);
    await client.call('notify', { method, params });
    expect(testbed.sent()).toContain(client.lineOf(await came));
  });

  test('resource updates arrive after a subscription', async () => {
    const came = client.next('the update', ({ method }) => method === 'notifications/resources/updated');
    await client.request('resources/subscribe', { uri: 'test://item/1' });
    expect((await came).params).toEqual({ uri: 'test://item/1', 'x-sub': 1 });
  });

  test('notifications of the client reach the child unchanged, in order with its requests', async () => {
    const lines = [
      '{"jsonrpc":"2.0","method":"notifications/x/first","params":{"n":12345678901234567890}}',
      '{"method":"notifications/roots/list_changed","jsonrpc":"2.0"}',
      '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1}}',
    ];
    const echoed = client.next('the echo', ({ method }) => method === 'notifications/x/first');
    for (const line of lines) client.sendRaw(line);
    await client.request('x/after');
    await echoed;
    const received = testbed.received();
    const places = lines.map((line) => received.indexOf(line));
    expect(places).not.toContain(-1);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });
});

describe('many at once', () => {
  test('answers that come out of order find their requests', async () => {
    const delays = [200, 100, 150, 50, 0];
    const answers = await Promise.all(
      delays.map((ms, at) => client.call('slow', { ms }, { id: `slow ${at}` }).then((answer) => answer.id)),
    );
    expect(answers).toEqual(delays.map((_ms, at) => `slow ${at}`));
  });

  test('500 calls written at once are all answered once, in order', async () => {
    const ids = Array.from({ length: 500 }, (_none, at) => 10_000 + at);
    const from = client.messages.length;
    for (const id of ids) client.send({ id, method: 'tools/call', params: { name: 'echo', arguments: { id } } });
    await client.seen('the last answer', ({ id }) => id === 10_499);
    expect(client.messages.slice(from).map(({ id }) => id)).toEqual(ids);
  });
});

describe('the child sees the client itself', () => {
  test('the handshake carries the capabilities and identity of the client and nothing else', async () => {
    const other = testbed.start();
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: { roots: { listChanged: true }, sampling: { 'x-a': 1 }, experimental: { 'x-b': {} } },
      clientInfo: { name: 'particular', title: 'P', version: '9', 'x-info': [1] },
    };
    const before = testbed.received().length;
    await other.initialize(params);
    await other.call('echo');
    const lines = testbed
      .received()
      .slice(before)
      .map((line) => JSON.parse(line) as Message);
    const handshakes = lines.filter(({ method }) => method === 'initialize');
    expect(handshakes).toHaveLength(1);
    expect(handshakes[0]?.params).toEqual(params);
    expect(lines.filter(({ method }) => method === 'notifications/initialized')).toHaveLength(1);
    await other.close();
  });

  test('lines of the child that are no JSON-RPC never reach the client', async () => {
    expect(textOf(await client.call('junk'))).toBe('junk written');
    expect(client.strayLines).toEqual([]);
  });

  test('one session is one child, and ends with exit code 0', async () => {
    const { pid } = structuredOf(await client.call('inspect'));
    expect((await testbed.waitForEvent('start')).pid).toBe(pid);
    expect(await client.close()).toEqual({ code: 0, signal: null });
    expect(client.strayLines).toEqual([]);
  });
});
