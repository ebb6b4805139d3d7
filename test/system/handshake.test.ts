import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { plainInitialize, type JsonObject, type LineClient } from '../support/client.ts';
import { descendantsOf } from '../support/processes.ts';
import { Testbed, textOf } from '../support/testbed.ts';

const localTools = ['cloakbrowser_binary_info', 'cloakbrowser_bridge_info'];
let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

async function toolsOf(client: LineClient): Promise<JsonObject[]> {
  const answer = await client.request('tools/list');
  return answer.result?.['tools'] as JsonObject[];
}

describe('before initialize', () => {
  test('every request is refused at once with -32601, and nothing is started for it', async () => {
    await testbed.learnCatalog();
    const client = testbed.start();
    for (const method of ['server/discover', 'tools/list', 'tools/call', 'resources/list', 'x/unknown']) {
      const answer = await client.request(method, { name: 'echo' });
      expect(answer.error?.code).toBe(-32601);
    }
    client.notify('notifications/initialized');
    client.notify('notifications/x/unknown');
    expect((await client.request('ping')).result).toEqual({});
    expect(descendantsOf(client.pid)).toEqual([]);
    expect(await client.close()).toEqual({ code: 0, signal: null });
    expect(testbed.events()).toEqual([]);
  });

  test('a dual-era client that asks first and then falls back gets its session', async () => {
    await testbed.learnCatalog();
    const client = testbed.start();
    const probe = await client.request('server/discover', {
      _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
    });
    expect(probe.error?.code).toBe(-32601);
    expect((await client.initialize()).result?.['protocolVersion']).toBe('2025-11-25');
    expect(textOf(await client.call('echo', { a: 'b' }))).toContain('"a":"b"');
  });
});

describe('initialize', () => {
  test.each([
    ['2024-11-05', '2024-11-05'],
    ['2025-03-26', '2025-03-26'],
    ['2025-06-18', '2025-06-18'],
    ['2025-11-25', '2025-11-25'],
    ['2026-07-28', '2025-11-25'],
    ['2024-10-07', '2025-11-25'],
    ['nonsense', '2025-11-25'],
    ['', '2025-11-25'],
  ])('a client that asks for version "%s" gets %s, a tool list and a child of that version', async (asked, given) => {
    await testbed.learnCatalog();
    const client = testbed.start();
    const answer = await client.initialize({ ...plainInitialize, protocolVersion: asked });
    expect(answer.result?.['protocolVersion']).toBe(given);
    expect((await toolsOf(client)).length).toBeGreaterThan(2);
    await client.call('echo');
    const handshakes = testbed.received().filter((line) => line.includes('"initialize"'));
    expect(handshakes.map((line) => (JSON.parse(line) as { params: JsonObject }).params['protocolVersion'])).toEqual([
      given,
    ]);
  });

  test('offers what upstream offers, under the name of the bridge, the same with and without a stored catalog', async () => {
    const answers: JsonObject[] = [];
    for (let run = 0; run < 2; run += 1) {
      const client = testbed.start();
      answers.push((await client.initialize()).result ?? {});
      await client.close();
    }
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[0]).toMatchObject({
      capabilities: {
        tools: { listChanged: true, 'x-tools': 1 },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        completions: {},
        logging: {},
        experimental: { 'x-feature': { on: true } },
      },
      serverInfo: { name: 'cloakbrowser-mcp' },
      _meta: { 'x-origin': 'fake' },
      'x-extra': [1, { two: null }],
    });
    expect(answers[0]?.['instructions']).toContain('Fake instructions.');
  });

  test('is answered although the child is slow to start, when the catalog is stored', async () => {
    await testbed.learnCatalog('slow-child');
    const client = testbed.start({ child: 'slow-child', fake: { INITIALIZE_MS: 'never' } });
    const started = performance.now();
    await client.initialize();
    expect((await toolsOf(client)).map(({ name }) => name)).toEqual(['echo', ...localTools]);
    expect(performance.now() - started).toBeLessThan(3000);
  });

  test('a stored catalog that is damaged is dropped and learned again', async () => {
    await testbed.learnCatalog();
    await testbed.damageCatalog();
    const client = testbed.start();
    await client.initialize();
    expect((await toolsOf(client)).map(({ name }) => name)).toContain('echo');
    await client.close();
    const again = testbed.start();
    const before = testbed.eventsOf('start').length;
    await again.initialize();
    await again.call('echo');
    expect(testbed.eventsOf('start').length - before).toBe(1);
  });
});

describe('the tool list', () => {
  test('is that of upstream, tool by tool and byte by byte, over all its pages, then the local tools', async () => {
    const fake = { TOOLS: '200', PAGE: '7' };
    const direct = testbed.startDirect({ fake });
    await direct.initialize();
    const upstream: JsonObject[] = [];
    for (let cursor: unknown = undefined, more = true; more; more = cursor !== undefined) {
      const { result } = await direct.request('tools/list', cursor === undefined ? {} : { cursor });
      upstream.push(...(result?.['tools'] as JsonObject[]));
      cursor = result?.['nextCursor'];
    }
    expect(upstream).toHaveLength(200);
    const client = testbed.start({ fake });
    await client.initialize();
    const answer = await client.request('tools/list');
    const tools = answer.result?.['tools'] as JsonObject[];
    expect(tools.slice(0, 200)).toEqual(upstream);
    expect(tools.slice(200).map(({ name }) => name)).toEqual(localTools);
    expect(answer.result?.['nextCursor']).toBeUndefined();
    expect(answer.result?.['x-list']).toBe('kept');
    for (const tool of upstream) expect(client.lineOf(answer)).toContain(JSON.stringify(tool));
  });

  test('a tool of upstream that is named like a local one keeps its place and is called there', async () => {
    const client = testbed.start({ fake: { SHADOW: 'cloakbrowser_bridge_info' } });
    await client.initialize();
    const named = (await toolsOf(client)).filter(({ name }) => name === 'cloakbrowser_bridge_info');
    expect(named).toHaveLength(1);
    expect(named[0]?.['x-unknown']).toBeDefined();
    expect(textOf(await client.call('cloakbrowser_bridge_info'))).toContain('Unknown tool cloakbrowser_bridge_info');
  });

  test('a tool added in mid-session is announced once and listed', async () => {
    await testbed.learnCatalog();
    const client = testbed.start();
    await client.initialize();
    await client.call('echo');
    await client.call('add_tool', { name: 'late_tool' });
    expect((await toolsOf(client)).map(({ name }) => name).slice(-3)).toEqual(['late_tool', ...localTools]);
    expect(client.messagesOf('notifications/tools/list_changed')).toHaveLength(1);
  });

  test('a child with another list than the stored one: the client is told once, and the catalog is corrected', async () => {
    await testbed.learnCatalog();
    const fake = { EXTRA_TOOL: 'new_tool' };
    const client = testbed.start({ fake });
    await client.initialize();
    expect((await toolsOf(client)).map(({ name }) => name)).toContain('echo');
    await client.seen('the announcement', ({ method }) => method === 'notifications/tools/list_changed');
    expect((await toolsOf(client)).map(({ name }) => name)).toContain('new_tool');
    await client.close();
    const again = testbed.start({ fake });
    await again.initialize();
    expect((await toolsOf(again)).map(({ name }) => name)).toContain('new_tool');
    await again.call('echo');
    await again.call('echo');
    expect(again.messagesOf('notifications/tools/list_changed')).toEqual([]);
  });

  test('--hide-tools takes a tool away from the list and refuses its call', async () => {
    const client = testbed.start({ args: ['--hide-tools', 'echo'] });
    await client.initialize();
    expect((await toolsOf(client)).map(({ name }) => name)).not.toContain('echo');
    expect((await client.call('echo')).result?.['isError']).toBe(true);
    expect(testbed.eventsOf('received', { tool: 'echo' })).toEqual([]);
  });
});

describe('odd messages of a client', () => {
  test('an id that is still running is refused with -32600, the running request is answered once', async () => {
    const client = testbed.start();
    await client.initialize();
    client.send({ id: 'same', method: 'tools/call', params: { name: 'slow', arguments: { ms: 400 } } });
    const refused = await client.call('echo', {}, { id: 'same' });
    expect(refused.error?.code).toBe(-32600);
    expect(textOf(await client.answerTo('same'))).toBe('late');
    expect(textOf(await client.call('echo', { free: 'again' }, { id: 'same' }))).toContain('free');
    expect(client.countAnswers('same')).toBe(3);
    expect(testbed.eventsOf('received', { tool: 'echo' })).toHaveLength(1);
  });

  test('lines that are no message each get an error, and the session lives', async () => {
    const client = testbed.start();
    await client.initialize();
    const lines: [line: string, code: number][] = [
      ['{"jsonrpc":', -32700],
      ['hello', -32700],
      ['[]', -32600],
      ['[1', -32700],
      ['42', -32600],
      ['null', -32600],
      ['{"jsonrpc":"2.0","id":null,"x":1}', -32600],
      ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
      ['{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600],
      ['{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600],
    ];
    for (const [line, code] of lines) {
      const answered = client.next(`the error for ${line}`, ({ error }) => error !== undefined);
      client.sendRaw(line);
      expect([line, (await answered).error?.code]).toEqual([line, code]);
    }
    expect(textOf(await client.call('echo', { still: 'here' }))).toContain('still');
  });

  test('blank lines and lines that end with CRLF are no trouble', async () => {
    const client = testbed.start();
    await client.initialize();
    client.sendRaw('');
    client.sendRaw('\r');
    client.sendRaw('{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r');
    expect((await client.seen('the answer', ({ id }) => id === 'crlf')).result).toEqual({});
    expect(client.messages.filter(({ error }) => error !== undefined)).toEqual([]);
  });

  test('each message of a batch is answered', async () => {
    const client = testbed.start();
    await client.initialize({ ...plainInitialize, protocolVersion: '2025-03-26' });
    const call = {
      jsonrpc: '2.0',
      id: 'b2',
      method: 'tools/call',
      params: { name: 'echo', arguments: { in: 'batch' } },
    };
    client.sendRaw(
      JSON.stringify([
        { jsonrpc: '2.0', id: 'b1', method: 'ping' },
        call,
        { jsonrpc: '2.0', method: 'notifications/x/in-batch' },
        { jsonrpc: '2.0', id: 'b3', method: 'x/in-batch' },
      ]),
    );
    const answers = ['b1', 'b2', 'b3'].map((id) => client.seen(id, (message) => message.id === id));
    expect((await Promise.all(answers)).map(({ result }) => result === undefined)).toEqual([false, false, false]);
    await client.seen('the notification', ({ method }) => method === 'notifications/x/in-batch');
  });

  test('a second initialize is answered and starts nothing more', async () => {
    await testbed.learnCatalog();
    const client = testbed.start();
    await client.initialize();
    await client.call('echo');
    expect((await client.initialize()).result?.['protocolVersion']).toBe('2025-11-25');
    await client.call('echo');
    expect(testbed.counts()).toEqual({ started: 1, calls: 2, answered: 2 });
  });

  test('ping is answered while a call hangs', async () => {
    const client = testbed.start();
    await client.initialize();
    client.send({ id: 'hangs', method: 'tools/call', params: { name: 'never', arguments: {} } });
    expect((await client.request('ping')).result).toEqual({});
    expect(testbed.eventsOf('received', { method: 'ping' })).toEqual([]);
  });
});

describe('local tools', () => {
  test('are answered although no child can be started, and start none', async () => {
    await testbed.learnCatalog('dying-child');
    const client = testbed.start({ child: 'dying-child', fake: { DIE: 'initialize' } });
    await client.initialize();
    await testbed.waitForEvent('end');
    const before = testbed.counts().started;
    for (const name of localTools) {
      const answer = await client.call(name);
      expect(answer.result?.['isError']).toBe(false);
      expect(answer.result?.['structuredContent']).toBeTypeOf('object');
    }
    await toolsOf(client);
    expect(testbed.counts()).toEqual({ started: before, calls: 0, answered: 0 });
  });

  test('the bridge tells its upstream, tools and state', async () => {
    const client = testbed.start();
    await client.initialize();
    await client.call('echo');
    const info = JSON.stringify((await client.call('cloakbrowser_bridge_info')).result?.['structuredContent']);
    for (const part of ['cloakbrowser-mcp', 'fake-upstream.mjs', 'ready', ...localTools]) expect(info).toContain(part);
  });
});
