import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject, LineClient } from '../support/client.ts';
import { isRunning, processesOf } from '../support/processes.ts';
import { structuredOf, Testbed, textOf, type BridgeOptions } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

/** Starts a session with a stored catalog, so that each child that is counted is one of the session. */
async function startSession(options: BridgeOptions = {}): Promise<LineClient> {
  await testbed.learnCatalog(options.child);
  const client = testbed.start(options);
  await client.initialize();
  return client;
}

async function startReady(options: BridgeOptions = {}): Promise<LineClient> {
  const client = await startSession(options);
  await client.call('echo', { first: true });
  return client;
}

interface BridgeState {
  readonly generation: { readonly number: number; readonly state: string; readonly pid: number | null };
  readonly lastLoss: { readonly generation: number; readonly reason: string } | null;
}

async function stateOf(client: LineClient): Promise<BridgeState> {
  return structuredOf(await client.call('cloakbrowser_bridge_info')) as unknown as BridgeState;
}

/** Kills the child and waits until the bridge knows it. */
async function loseChild(client: LineClient): Promise<number> {
  const { generation } = await stateOf(client);
  if (generation.pid === null) throw new Error('There is no child to kill');
  process.kill(generation.pid, 'SIGKILL');
  await waitUntil('the loss', async () =>
    (await stateOf(client)).lastLoss?.generation === generation.number ? true : undefined,
  );
  return generation.pid;
}

function isFailure(answer: { result?: JsonObject }): boolean {
  return answer.result?.['isError'] === true;
}

describe('a child that dies while nothing is asked of it', () => {
  test('is replaced by the next call and not before; local tools and lists do not do it', async () => {
    const client = await startReady();
    await loseChild(client);
    await client.request('tools/list');
    await client.request('ping');
    await client.call('cloakbrowser_binary_info');
    client.notify('notifications/x/nobody-hears-this');
    const { generation, lastLoss } = await stateOf(client);
    expect(generation.state).not.toBe('ready');
    expect(lastLoss).toMatchObject({ generation: 1, reason: expect.stringContaining('SIGKILL') as unknown });
    expect(testbed.counts()).toEqual({ started: 1, calls: 1, answered: 1 });

    expect(textOf(await client.call('echo', { second: true }))).toContain('second');
    expect(testbed.counts()).toEqual({ started: 2, calls: 2, answered: 2 });
    expect((await stateOf(client)).generation).toMatchObject({ number: 2, state: 'ready' });
  });

  test('the new child gets the same handshake and log level, and the client hears once that tools changed', async () => {
    const client = await startReady();
    await client.request('logging/setLevel', { level: 'warning' });
    await loseChild(client);
    const [first] = testbed.received().filter((line) => line.includes('"initialize"'));
    const before = testbed.received().length;
    await client.call('echo');
    await client.seen('the announcement', ({ method }) => method === 'notifications/tools/list_changed');
    await client.call('echo');
    const messages = testbed
      .received()
      .slice(before)
      .map((line) => JSON.parse(line) as JsonObject);
    const { params } = JSON.parse(first ?? '{}') as JsonObject;
    expect(messages.filter(({ method }) => method === 'initialize').map((message) => message['params'])).toEqual([
      params,
    ]);
    expect(messages.filter(({ method }) => method === 'notifications/initialized')).toHaveLength(1);
    expect(messages.filter(({ method }) => method === 'logging/setLevel').map((message) => message['params'])).toEqual([
      { level: 'warning' },
    ]);
    expect(client.messagesOf('notifications/tools/list_changed')).toHaveLength(1);
    expect(client.countAnswers('anything of the bridge')).toBe(0);
  });

  test('ten calls at once share one replacement, and each reaches it once, in order', async () => {
    const client = await startReady();
    await loseChild(client);
    const calls = Array.from({ length: 10 }, (_none, n) => client.call('echo', { n }, { id: `call ${n}` }));
    const answers = await Promise.all(calls);
    expect(answers.map((answer) => answer.result?.['_meta'])).toEqual(
      answers.map((_answer, n) => ({ 'x-params': { name: 'echo', arguments: { n } } })),
    );
    expect(testbed.counts()).toEqual({ started: 2, calls: 11, answered: 11 });
    const order = testbed.eventsOf('received', { method: 'tools/call' }).slice(1);
    expect(order.map(({ id }) => id)).toEqual(answers.map((_answer, n) => `call ${n}`));
  });

  test('nothing of the lost child is left when the new one starts', async () => {
    const client = await startReady();
    const lost = await loseChild(client);
    await client.call('echo');
    expect(isRunning(lost)).toBe(false);
    const fakes = processesOf(testbed.folders.root).filter(
      ({ command }) => command.includes('fake-upstream') && !command.includes('main.js'),
    );
    expect(fakes).toHaveLength(1);
  });

  test('five times in a row: six children, every call answered once', async () => {
    const client = await startReady();
    for (let round = 0; round < 5; round += 1) {
      await loseChild(client);
      expect(textOf(await client.call('echo', { round }))).toContain(`"round":${round}`);
    }
    expect(testbed.counts()).toEqual({ started: 6, calls: 6, answered: 6 });
    expect((await stateOf(client)).generation.number).toBe(6);
  });
});

describe('calls that wait for a replacement', () => {
  async function loseSlowChild(): Promise<LineClient> {
    const client = await startReady({ child: 'slow-child', fake: { INITIALIZE_MS: '700' } });
    await loseChild(client);
    return client;
  }

  test('one that is cancelled never reaches the new child, the others do', async () => {
    const client = await loseSlowChild();
    client.send({ id: 'withdrawn', method: 'tools/call', params: { name: 'echo', arguments: { n: 'withdrawn' } } });
    const kept = client.call('echo', { n: 'kept' });
    client.notify('notifications/cancelled', { requestId: 'withdrawn' });
    expect(textOf(await kept)).toContain('kept');
    expect(testbed.received().filter((line) => line.includes('withdrawn'))).toEqual([]);
    expect(client.countAnswers('withdrawn')).toBe(0);
    expect(testbed.counts()).toEqual({ started: 2, calls: 2, answered: 2 });
  });

  test('notifications keep their place between the calls', async () => {
    const client = await loseSlowChild();
    const first = client.call('echo', { n: 1 });
    client.notify('notifications/x/between', { n: 2 });
    await Promise.all([first, client.call('echo', { n: 3 })]);
    const order = testbed
      .received()
      .filter((line) => /"n":\d/.test(line))
      .map((line) => /"n":(\d)/.exec(line)?.[1]);
    expect(order).toEqual(['1', '2', '3']);
  });

  test('local tools, lists and ping are answered meanwhile', async () => {
    const client = await loseSlowChild();
    const waiting = client.call('echo', { n: 1 });
    expect((await stateOf(client)).generation.state).toBe('starting');
    expect(JSON.stringify((await client.request('tools/list')).result)).toContain('"echo"');
    expect((await client.request('ping')).result).toEqual({});
    expect(testbed.counts().calls).toBe(1);
    expect(textOf(await waiting)).toContain('"n":1');
  });
});

describe('a child that dies in the middle of calls', () => {
  test('the calls are answered at once, tell that they may have run, and are not repeated', async () => {
    const client = await startReady();
    const running = [1, 2, 3].map((n) => client.call('slow', { ms: 60_000, n }));
    await testbed.waitForEvent('received', { tool: 'slow' }, 3);
    const started = performance.now();
    await loseChild(client);
    for (const answer of await Promise.all(running)) {
      expect(isFailure(answer)).toBe(true);
      expect(textOf(answer)).toContain('SIGKILL');
      expect(textOf(answer)).toMatch(/may have run/);
    }
    expect(performance.now() - started).toBeLessThan(3000);
    expect(testbed.counts()).toEqual({ started: 1, calls: 4, answered: 1 });
    await client.call('echo');
    expect(testbed.eventsOf('received', { tool: 'slow' })).toHaveLength(3);
    expect(testbed.counts()).toEqual({ started: 2, calls: 5, answered: 2 });
  });

  test('exit code and last lines of stderr are in the answer, the first lines of a flood are not', async () => {
    const client = await startReady();
    await client.call('stderr', { text: 'ancient line\n'.repeat(500) });
    const answer = await client.call('exit', { code: 7, reason: 'Error: out of luck\n    at somewhere' });
    expect(isFailure(answer)).toBe(true);
    expect(textOf(answer)).toContain('exit code 7');
    expect(textOf(answer)).toContain('Error: out of luck');
    expect(textOf(answer).split('ancient line').length).toBeLessThan(60);
  });

  test('a request that is no tool call gets a JSON-RPC error with the facts as data', async () => {
    const client = await startReady();
    client.send({ id: 'blocks', method: 'tools/call', params: { name: 'exit', arguments: { code: 9 } } });
    client.send({ id: 'lost', method: 'resources/list' });
    const lost = await client.answerTo('lost');
    expect(lost.error).toMatchObject({ code: -32014, data: { reason: 'child_lost', exitCode: 9, signal: null } });
  });

  test('what the child answered right before its end still counts, up to the last byte', async () => {
    const client = await startReady();
    const answer = await client.call('exit', { code: 0, bytes: 3_000_000 });
    expect(isFailure(answer)).toBe(false);
    expect(textOf(answer)).toHaveLength(3_000_000);
  });

  test('a large request that comes while the child dies is answered once and goes to one child only', async () => {
    const client = await startReady();
    client.send({ id: 'ends it', method: 'tools/call', params: { name: 'exit', arguments: { code: 5 } } });
    const large = await client.call('echo', { large: 'x'.repeat(14_000_000) }, { id: 'large' });
    // Sent before the loss was noticed it is lost with the child, else it is the new child's first call.
    expect(isFailure(large) ? textOf(large) : 'exit code 5').toContain('exit code 5');
    await client.call('echo');
    expect(client.countAnswers('large')).toBe(1);
    const arrived = testbed.received().filter((line) => line.length > 14_000_000);
    expect(arrived.length).toBeLessThanOrEqual(1);
    expect(arrived.length === 1 || isFailure(large)).toBe(true);
    expect(testbed.counts().started).toBe(2);
  });

  test('a child that closes its pipe and lives on counts as lost, and is ended', async () => {
    const client = await startReady();
    const { generation } = await stateOf(client);
    const answer = await client.call('hang_up');
    expect(isFailure(answer)).toBe(true);
    await client.call('echo');
    expect(generation.pid !== null && isRunning(generation.pid)).toBe(false);
    expect(testbed.counts()).toMatchObject({ started: 2 });
  });

  test('the client hears that nobody waits for its answer to a question of the lost child', async () => {
    const client = await startReady();
    client.send({ id: 'asks', method: 'tools/call', params: { name: 'ask', arguments: { method: 'x/question' } } });
    const question = await client.seen('the question', ({ method }) => method === 'x/question');
    await loseChild(client);
    const withdrawn = await client.seen('the withdrawal', ({ method }) => method === 'notifications/cancelled');
    expect(withdrawn.params?.['requestId']).toBe(question.id);
    client.send({ id: question.id, result: { late: 'answer' } });
    await client.call('echo');
    expect(testbed.received().filter((line) => line.includes('late'))).toEqual([]);
  });

  test('a question of the new child does not use an id of the lost one', async () => {
    const client = await startReady();
    const ask = { method: 'x/question' };
    client.send({ id: 'one', method: 'tools/call', params: { name: 'ask', arguments: ask } });
    const first = await client.seen('the first question', ({ method }) => method === 'x/question');
    await loseChild(client);
    client.send({ id: 'two', method: 'tools/call', params: { name: 'ask', arguments: ask } });
    const second = await client.seen(
      'the second question',
      ({ method, id }) => method === 'x/question' && id !== first.id,
    );
    client.send({ id: second.id, result: { ok: 2 } });
    expect(textOf(await client.answerTo('two'))).toContain('"ok":2');
  });
});
