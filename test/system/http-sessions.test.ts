import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { initializeBody, openSession, postHeaders, send } from '../support/http-exchange.ts';
import { HttpServer } from '../support/http-server.ts';
import { descendantsOf, isRunning } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let server: HttpServer;

beforeAll(async () => {
  testbed = await Testbed.make();
  server = await HttpServer.start(testbed, { settings: { 'http-session-unused-ttl-ms': 3_600_000 } });
});

afterAll(async () => {
  await testbed.close();
});

/** The folders of sessions; the server itself has one as well. */
async function folders(): Promise<string[]> {
  return (await listEntries(testbed.folders.tmp)).filter((name) => /^cbmcp-[^/]+$/.test(name));
}

function bodyOf(text: string): NonNullable<Message['error']> {
  const { error, jsonrpc } = JSON.parse(text) as Message;
  if (error === undefined || jsonrpc !== '2.0') throw new Error(`No JSON-RPC error: ${text}`);
  return error;
}

describe('a request that names no session of the server', () => {
  const list = { jsonrpc: '2.0', id: 'asked', method: 'tools/list' };
  const call = { jsonrpc: '2.0', id: 'asked', method: 'tools/call', params: { name: 'echo', arguments: {} } };
  const note = { jsonrpc: '2.0', method: 'notifications/initialized' };
  const requests = [
    ['POST of a list', { method: 'POST', body: list }],
    ['POST of a call', { method: 'POST', body: call }],
    ['POST of a notification', { method: 'POST', body: note }],
    ['GET', { method: 'GET' }],
    ['DELETE', { method: 'DELETE' }],
  ] as const;
  const ids: readonly [string, string | string[] | undefined, number][] = [
    ['unknown', 'BZfK2i5DlLL3hJ8ndYqrgmeHo6XketcB', 404],
    ['of another replica', 'b.BZfK2i5DlLL3hJ8ndYqrgmeHo6XketcB', 404],
    ['malformed', '../../etc/passwd {"a":1} %00', 404],
    ['named as a member of every object', '__proto__', 404],
    ['8 kB long', 'x'.repeat(8000), 404],
    ['given twice', ['one', 'two'], 404],
    ['missing', undefined, 400],
  ];
  const rows = requests.flatMap(([what, sent]) => ids.map(([name, id, status]) => ({ what, sent, name, id, status })));

  test.each(rows)('$what, session id $name: $status with a JSON error, and nothing is made', async (row) => {
    const opened = await server.metric('sessions_opened_total');
    const id = row.id === undefined ? {} : { 'mcp-session-id': row.id };
    const answer = await send(server.url, { ...row.sent, headers: { ...postHeaders, ...id } });
    const error = bodyOf(await answer.ended());
    expect([answer.status, answer.contentType]).toEqual([row.status, 'application/json']);
    expect(error.data?.['reason']).toBe(row.status === 400 ? 'session_missing' : 'session_unknown');
    expect(error.data?.['hint']).toContain('initialize');
    expect(answer.headers['mcp-session-id']).toBeUndefined();
    expect(await server.metric('sessions_opened_total')).toBe(opened);
    expect(testbed.counts().started).toBe(0);
    expect(descendantsOf(server.program.pid)).toEqual([]);
  });

  test.each(requests)('%s to a session that was deleted: 404, and nothing is made', async (_what, sent) => {
    const client = await server.open();
    expect(await client.end()).toBe(200);
    const answer = await client.send(sent);
    expect([answer.status, answer.contentType]).toEqual([404, 'application/json']);
    expect(bodyOf(await answer.ended())).toMatchObject({ code: -32018, data: { reason: 'session_unknown' } });
    expect(testbed.counts().started).toBe(0);
  });
});

describe('what refuses an initialize', () => {
  const initialize = initializeBody();
  test.each([
    ['no params', { body: { ...initialize, params: undefined } }, 400],
    ['a batch around it', { body: [initialize] }, 400],
    ['an unknown session id', { body: initialize, headers: { 'mcp-session-id': 'gone' } }, 404],
    ['no Accept of an event stream', { body: initialize, headers: { accept: 'application/json' } }, 406],
    ['another content type', { body: initialize, headers: { 'content-type': 'text/plain' } }, 415],
    ['a session setting that does not exist', { body: withSetting({ proxy: 'http://127.0.0.1:1' }) }, 400],
    ['a session setting of the wrong type', { body: withSetting({ viewport: { width: '1', height: 2 } }) }, 400],
  ])('%s: nothing is made', async (_what, sent, status) => {
    const opened = await server.metric('sessions_opened_total');
    const answer = await send(server.url, {
      ...sent,
      headers: { ...postHeaders, ...('headers' in sent && sent.headers) },
    });
    expect([answer.status, answer.contentType]).toEqual([status, 'application/json']);
    bodyOf(await answer.ended());
    expect(await server.metric('sessions_opened_total')).toBe(opened);
  });

  test('a wrong session setting is a JSON-RPC error under the id of the request, and names the key', async () => {
    const answer = await send(server.url, { headers: postHeaders, body: withSetting({ locale: 5 }) });
    const message = JSON.parse(await answer.ended()) as Message;
    expect(message).toMatchObject({ id: 'init', error: { code: -32602, data: { reason: 'session_setting' } } });
    expect(message.error?.message).toContain('locale');
  });

  function withSetting(settings: object): object {
    return initializeBody('2025-11-25', { _meta: { 'io.github.cloakbrowser-mcp/session': settings } });
  }
});

describe('a session', () => {
  test('has no child and no folder until its first call, then exactly one of each', async () => {
    const started = testbed.counts().started;
    const before = await folders();
    const client = await server.open();
    await client.request('tools/list');
    await client.request('ping');
    await client.call('cloakbrowser_bridge_info');
    const stream = await client.listen();
    await stream.sees('the first bytes', () => true);
    expect(testbed.counts().started).toBe(started);
    expect(await folders()).toEqual(before);
    expect(descendantsOf(server.program.pid)).toEqual([]);
    const { pid } = structuredOf(await client.call('inspect'));
    expect(structuredOf(await client.call('inspect'))).toMatchObject({ pid, calls: 2 });
    expect(testbed.counts().started).toBe(started + 1);
    expect(await folders()).toHaveLength(before.length + 1);
    expect(descendantsOf(server.program.pid).map((entry) => entry.pid)).toEqual([pid]);
    await client.end();
    await stream.ended();
    expect(stream.isComplete).toBe(true);
  });

  test('that is deleted is answered 200 when its child and its folders are gone, and 404 from then on', async () => {
    const before = await folders();
    const client = await server.open();
    const pid = Number(structuredOf(await client.call('inspect'))['pid']);
    expect(await client.end()).toBe(200);
    expect(isRunning(pid)).toBe(false);
    expect(await folders()).toEqual(before);
    expect(await client.end()).toBe(404);
  });

  test('that is deleted in the middle of a call answers the call with an error first', async () => {
    const client = await server.open();
    const call = await client.start('never', {}, { id: 'hangs' });
    await testbed.waitForEvent('received', { tool: 'never' });
    expect(await client.end()).toBe(200);
    await call.ended();
    expect(call.isComplete).toBe(true);
    expect(call.soFar).toMatchObject([{ id: 'hangs', result: { isError: true } }]);
  });

  test('that is deleted while its child starts leaves none', async () => {
    const client = await server.open();
    const call = client.call('echo', {}, { id: 'early' });
    await server.waitForLog('child started', { sessionId: client.hash });
    expect(await client.end()).toBe(200);
    expect((await call).result).toMatchObject({ isError: true });
    expect(descendantsOf(server.program.pid)).toEqual([]);
  });

  test('is ended once, however often and by whomever that is asked for at once', async () => {
    const client = await server.open();
    await client.call('echo');
    const hash = client.hash;
    const statuses = await Promise.all([client.end(), client.end(), client.end()]);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 404)).toHaveLength(2);
    await server.waitForLog('session ended', { sessionId: hash, reason: 'deleted' });
    expect(server.logged('session ended', { sessionId: hash })).toHaveLength(1);
  });

  test('has an id of its own that nobody can guess, of visible ASCII', async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => server.open()));
    const ids = clients.map(({ id }) => id);
    expect(new Set(ids).size).toBe(5);
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7e]{32,}$/);
    await Promise.all(clients.map((client) => client.end()));
    for (const id of ids) expect(server.program.stderr).not.toContain(id);
  });
});

describe('sessions beside each other', () => {
  test('ten that begin at once and end in between each have their own child, and end once', async () => {
    const { started } = testbed.counts();
    const ended = server.logged('session ended').length;
    const pids = await Promise.all(
      Array.from({ length: 10 }, async (_none, index) => {
        const client = await server.open();
        // Some end at once, some in the middle of a call, some after one.
        const call = index % 3 === 0 ? undefined : client.call('inspect', {}, { id: index });
        if (index % 3 === 2) await call;
        const statuses = await Promise.all([client.end(), client.end(), client.end()]);
        expect(statuses.filter((status) => status === 200)).toHaveLength(1);
        expect(statuses.filter((status) => status === 404)).toHaveLength(2);
        const answer = await call;
        return index % 3 === 2 && answer !== undefined ? structuredOf(answer)['pid'] : undefined;
      }),
    );
    const called = pids.filter((pid) => pid !== undefined);
    expect(new Set(called).size).toBe(3);
    expect(testbed.counts().started - started).toBeGreaterThanOrEqual(3);
    await server.waitForLog('session ended', {}, { count: ended + 10 });
    const hashes = server.logged('session ended').map(({ sessionId }) => sessionId);
    expect(new Set(hashes).size).toBe(hashes.length);
    expect(descendantsOf(server.program.pid)).toEqual([]);
    expect((await server.status()).sessions).toEqual([]);
  });

  test('get the answers of their own child, under the same request ids', async () => {
    const [one, other] = await Promise.all([server.open(), server.open()]);
    const answers = await Promise.all(
      [one, other, one, other].map((client, index) => client.call('echo', { index }, { id: index < 2 ? 1 : 2 })),
    );
    expect(answers.map(({ result }) => JSON.stringify(result))).toEqual(
      [0, 1, 2, 3].map((index) => expect.stringContaining(`\\"index\\":${index}`) as string),
    );
    await Promise.all([one.end(), other.end()]);
  });

  test('a child that is killed in the middle of a call is told to its own client, which goes on, and to nobody else', async () => {
    const [one, other] = await Promise.all([server.open(), server.open()]);
    const [first, second] = await Promise.all([one.call('inspect'), other.call('inspect')]);
    const pid = Number(structuredOf(first)['pid']);
    const call = one.call('never', {}, { id: 'lost' });
    const beside = await other.start('slow', { ms: 1500 }, { id: 'beside' });
    await testbed.waitForEvent('received', { tool: 'slow' });
    await testbed.waitForEvent('received', { tool: 'never', pid });
    process.kill(pid, 'SIGKILL');
    expect(JSON.stringify((await call).result)).toContain('SIGKILL');
    expect(structuredOf(await one.call('inspect'))['pid']).not.toBe(pid);
    await beside.ended();
    expect(JSON.stringify(beside.soFar)).toContain('late');
    expect(structuredOf(await other.call('inspect'))['pid']).toBe(structuredOf(second)['pid']);
    expect(await server.metric('generations_lost_total', 'reason="signal"')).toBe(1);
    await Promise.all([one.end(), other.end()]);
  });
});

test('a session that another program opened is none of this one', async () => {
  const other = await Testbed.make();
  try {
    const elsewhere = await HttpServer.start(other, { settings: { 'replica-id': 'b' } });
    const { headers } = await openSession(elsewhere.url);
    expect(headers['mcp-session-id']).toMatch(/^b\./);
    const answer = await send(server.url, { headers, body: { jsonrpc: '2.0', id: 1, method: 'ping' } });
    expect(answer.status).toBe(404);
    await answer.ended();
  } finally {
    await other.close();
  }
});

test('after all of it the server has no session, no child and no folder but its own', async () => {
  await waitUntil('the last end', async () => ((await server.metric('sessions')) === 0 ? true : undefined));
  expect(descendantsOf(server.program.pid)).toEqual([]);
  expect(await folders()).toHaveLength(1);
  expect(server.logged('request failed')).toEqual([]);
});
