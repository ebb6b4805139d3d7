import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Exit, Message } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { initializeBody, postHeaders, send } from '../support/http-exchange.ts';
import { HttpServer, type ServerOptions } from '../support/http-server.ts';
import { isRunning, waitForNoProcess } from '../support/processes.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

function startWith(
  settings: ServerOptions['settings'],
  more: Omit<ServerOptions, 'settings'> = {},
): Promise<HttpServer> {
  return HttpServer.start(testbed, { ...more, settings: settings ?? {} });
}

async function expectNothingLeft(server: HttpServer, ms = 20_000): Promise<Exit> {
  const exit = await withDeadline('the end of the server', server.program.exited, ms);
  await waitForNoProcess(testbed.folders.root);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  expect(server.program.stderr).not.toMatch(/^\s+at /m);
  return exit;
}

async function refusesConnections(server: HttpServer): Promise<boolean> {
  const failure = await server.ask('/healthz').then(
    (answer) => answer.ended().then(() => undefined),
    (cause: unknown) => cause,
  );
  return failure instanceof Error && 'code' in failure && failure.code === 'ECONNREFUSED';
}

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test('without a session ends the server at once, with exit code 0', async () => {
    const server = await startWith({});
    server.program.kill(signal);
    expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
    expect(server.logged('draining')).toMatchObject([{ reason: signal, count: 0 }]);
  });

  test('lets a call finish, refuses new sessions meanwhile, and then ends', async () => {
    const server = await startWith({});
    const client = await server.open();
    const pid = Number(structuredOf(await client.call('inspect'))['pid']);
    const stream = await client.listen();
    const call = await client.start('hold', { key: 'k' }, { id: 'held' });
    await testbed.waitForEvent('received', { tool: 'hold' });
    server.program.kill(signal);
    await server.waitForLog('draining');

    const ready = await server.ask('/readyz');
    expect([ready.status, JSON.parse(await ready.ended())]).toEqual([
      503,
      expect.objectContaining({ status: 'unready', reason: 'draining' }),
    ]);
    const unready = await server.ask('/readyz?unready=404');
    expect([unready.status, await unready.ended()]).toEqual([404, expect.stringContaining('draining')]);
    expect((await server.ask('/healthz')).status).toBe(200);
    expect((await server.status()).draining).toBe(true);
    const refused = await send(server.url, { headers: postHeaders, body: initializeBody() });
    expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([503, true]);
    const { id, error } = JSON.parse(await refused.ended()) as Message;
    expect([id, error?.data?.['reason']]).toEqual(['init', 'draining']);

    expect((await client.call('release', { key: 'k' })).result).toBeDefined();
    await call.ended();
    expect(call.soFar.at(-1)).toMatchObject({ id: 'held', result: { content: [{ text: 'x' }] } });
    await stream.ended();
    expect([stream.isComplete, call.isComplete]).toEqual([true, true]);
    expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
    expect(isRunning(pid)).toBe(false);
    expect(server.logged('session ended')).toMatchObject([{ sessionId: client.hash, reason: 'shutdown' }]);
  });
});

test('existing sessions are served for the drain delay, and may end before it', async () => {
  const server = await startWith({ 'drain-delay-ms': 50_000, 'drain-timeout-ms': 55_000 });
  const [one, other] = await Promise.all([server.open(), server.open()]);
  await one.call('echo');
  server.program.kill('SIGTERM');
  await server.waitForLog('draining');
  // Also the first call of a session, which starts a child.
  for (const client of [one, other]) expect((await client.call('echo')).result).toBeDefined();
  expect(await one.end()).toBe(200);
  expect((await other.call('echo')).result).toBeDefined();
  expect(await other.end()).toBe(200);
  expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
});

test('a call that takes longer than the drain timeout gets an error, and its stream a regular end', async () => {
  const server = await startWith({ 'drain-timeout-ms': 500 });
  const client = await server.open();
  const calls = await Promise.all(['a', 'b'].map((id) => client.start('never', {}, { id })));
  await testbed.waitForEvent('received', { tool: 'never', id: 'b' });
  server.program.kill('SIGTERM');
  for (const [index, call] of calls.entries()) {
    await call.ended(20_000);
    expect(call.isComplete).toBe(true);
    expect(call.soFar.filter(({ id }) => id !== undefined)).toMatchObject([
      { id: ['a', 'b'][index], result: { isError: true } },
    ]);
  }
  expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
});

test('a call that waits for its child to start is answered with an error at the end, and the child is gone', async () => {
  const server = await startWith(
    { 'drain-timeout-ms': 300 },
    { child: 'slow-child', fake: { INITIALIZE_MS: 'never' } },
  );
  const client = await server.open();
  const call = await client.start('echo', {}, { id: 'waits' });
  await testbed.waitForEvent('received', { method: 'initialize' });
  server.program.kill('SIGTERM');
  await call.ended(20_000);
  expect(call.soFar).toMatchObject([{ id: 'waits', result: { isError: true } }]);
  expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
});

describe('a second signal', () => {
  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('%s ends everything at once, whatever still runs', async (signal, code) => {
    const server = await startWith(
      { 'drain-timeout-ms': 600_000, 'close-grace-ms': 60_000 },
      { child: 'dying-child', fake: { DIE: 'stubborn' } },
    );
    const client = await server.open();
    await client.call('echo');
    const sleeper = Number((await testbed.waitForEvent('sleeper'))['sleeper']);
    const call = client.start('echo', {}, { id: 'late' });
    await call;
    await client.listen();
    server.program.kill('SIGTERM');
    await server.waitForLog('draining');
    let isOver = false;
    void server.program.exited.then(() => (isOver = true));
    // A signal that comes right after the first one is the same Ctrl-C, passed on twice.
    await waitUntil('the end', () => {
      server.program.kill(signal);
      return isOver ? true : undefined;
    });
    const exit = await expectNothingLeft(server);
    expect(exit.code).toBe(code);
    expect(isRunning(sleeper)).toBe(false);
  });
});

test('a child that will not end is killed with what it started when its session ends in a drain', async () => {
  const server = await startWith({ 'close-grace-ms': 200 }, { child: 'dying-child', fake: { DIE: 'stubborn' } });
  const client = await server.open();
  await client.call('echo');
  const sleeper = Number((await testbed.waitForEvent('sleeper'))['sleeper']);
  server.program.kill('SIGTERM');
  expect(await expectNothingLeft(server, 30_000)).toEqual({ code: 0, signal: null });
  expect(isRunning(sleeper)).toBe(false);
});

test('clients that keep connections open, in the middle of a request or silent, do not keep the server from ending', async () => {
  const server = await startWith({});
  const client = await server.open();
  const stream = await client.listen();
  const connections = await Promise.all(Array.from({ length: 4 }, () => RawConnection.open(server.port)));
  connections[1]?.send('POST /mcp HTTP/1.1\r\nHost: localhost\r\n');
  connections[2]?.send('POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{');
  connections[3]?.send('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await connections[3]?.sees('"ok"');
  server.program.kill('SIGTERM');
  expect(await expectNothingLeft(server)).toEqual({ code: 0, signal: null });
  await stream.ended();
  expect(stream.isComplete).toBe(true);
  for (const connection of connections) {
    await connection.ended();
    connection.close();
  }
});

describe('SIGHUP', () => {
  test('does not end the server, its sessions and their calls', async () => {
    const server = await startWith({});
    const client = await server.open();
    const call = await client.start('hold', { key: 'k' }, { id: 'held' });
    await testbed.waitForEvent('received', { tool: 'hold' });
    for (let count = 1; count <= 3; count += 1) {
      server.program.kill('SIGHUP');
      await server.waitForLog('tokens and certificate reloaded', {}, { count });
    }
    await client.call('release', { key: 'k' });
    await call.ended();
    expect(call.soFar.at(-1)).toMatchObject({ id: 'held', result: { content: [{ text: 'x' }] } });
    expect((await server.open()).id).not.toBe(client.id);
    server.program.kill('SIGTERM');
    await expectNothingLeft(server);
  });
});

describe('a server that is killed', () => {
  test('takes its children with it, and the next start removes the folders that it left', async () => {
    const server = await startWith({});
    const clients = await Promise.all([server.open(), server.open()]);
    const answers = await Promise.all(clients.map((client) => client.call('inspect')));
    const left = await listEntries(testbed.folders.tmp);
    expect(left.length).toBeGreaterThan(3);
    server.program.kill('SIGKILL');
    expect((await server.program.exited).signal).toBe('SIGKILL');
    for (const answer of answers) {
      const pid = Number(structuredOf(answer)['pid']);
      await waitUntil('the end of a child', () => (isRunning(pid) ? undefined : true));
    }
    const next = await startWith({});
    const stale = await send(next.url, {
      headers: { ...postHeaders, 'mcp-session-id': clients[0]?.id },
      body: { jsonrpc: '2.0', id: 1, method: 'ping' },
    });
    expect(stale.status).toBe(404);
    expect((await (await next.open()).call('echo')).result).toBeDefined();
    await waitUntil('the end of the old folders', async () => {
      const names = new Set(await listEntries(testbed.folders.tmp));
      return left.some((name) => names.has(name)) ? undefined : true;
    });
    next.program.kill('SIGTERM');
    await expectNothingLeft(next);
  });
});

test('after its end nobody listens on the port', async () => {
  const server = await startWith({});
  expect(await refusesConnections(server)).toBe(false);
  server.program.kill('SIGTERM');
  await expectNothingLeft(server);
  expect(await refusesConnections(server)).toBe(true);
});
