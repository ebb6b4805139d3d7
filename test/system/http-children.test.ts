import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { HeapMeter } from '../support/heap.ts';
import { type HttpClient, HttpServer, type ServerSettings } from '../support/http-server.ts';
import { processesOf } from '../support/processes.ts';
import { structuredOf, Testbed, textOf, type BridgeOptions } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

function startWith(
  child: BridgeOptions['child'],
  fake: Record<string, string>,
  settings: ServerSettings = {},
): Promise<HttpServer> {
  return HttpServer.start(testbed, { ...(child === undefined ? {} : { child }), fake, settings });
}

function childCount(): number {
  return processesOf(testbed.folders.root).filter(({ command }) => !command.includes('main.js')).length;
}

describe('a child that dies during its start', () => {
  test.each(['start', 'initialize'])(
    'at "%s": the call is told exit code and reason, and another session is not harmed',
    async (moment) => {
      const server = await startWith('dying-child', { DIE: moment, EXIT_CODE: '3', FAIL_STARTS: '1' });
      const [failing, good] = await Promise.all([server.open(), server.open()]);
      const answer = await failing.call('echo');
      expect(answer.result?.['isError']).toBe(true);
      expect(textOf(answer)).toContain('exit code 3');
      expect(textOf(answer)).toContain(`Fake reason: died at ${moment}.`);
      expect(await server.metric('starts_failed_total', '"child_start_failed"')).toBe(1);
      expect((await good.call('echo', { good: 1 })).result?.['isError']).toBeUndefined();
      // The session lives on, and a later call tries again.
      expect((await failing.call('echo', { again: 1 })).result?.['isError']).toBeUndefined();
      expect(testbed.counts()).toEqual({ started: 3, calls: 2, answered: 2 });
      expect(childCount()).toBe(2);
    },
  );

  test('every time: each session is told so, and nothing is left of any start', async () => {
    const server = await startWith('dying-child', { DIE: 'initialize' });
    const clients = await Promise.all(Array.from({ length: 4 }, () => server.open()));
    const answers = await Promise.all(clients.map((client) => client.call('echo')));
    for (const answer of answers) expect(textOf(answer)).toContain('Fake reason: died at initialize.');
    expect(childCount()).toBe(0);
    expect((await server.status()).startQueue).toEqual({ running: 0, waiting: 0 });
    for (const client of clients) expect(await client.end()).toBe(200);
    expect((await server.ask('/healthz')).status).toBe(200);
  });

  test('that never answers: the call is told after the limit, and the child is gone', async () => {
    const server = await startWith(
      'slow-child',
      { INITIALIZE_MS: 'never' },
      { 'start-timeout-ms': 1500, 'restart-timeout-ms': 1500 },
    );
    const client = await server.open();
    const answer = await client.call('echo');
    expect(answer.result?.['isError']).toBe(true);
    await waitUntil('the end of the child', () => (childCount() === 0 ? true : undefined));
    expect(await client.end()).toBe(200);
  });
});

describe('children that write to standard error', () => {
  test('ten megabytes at a time: no call waits for it, the memory stays bounded, and the end of it is in the reason', async () => {
    const meter = new HeapMeter(testbed);
    const server = await HttpServer.start(testbed, {
      child: 'noisy-child',
      fake: { STDERR_BYTES: '10000000' },
      settings: { 'log-level': 'warn' },
      env: meter.env,
    });
    const clients = await Promise.all([server.open(), server.open()]);
    const before = await meter.measure(server);
    const answers = await Promise.all(clients.map((client) => client.call('echo', { loud: true })));
    for (const answer of answers) expect(textOf(answer)).toContain('loud');
    // Sixty megabytes went through; what is kept of them is a tail for each child.
    const after = await meter.measure(server);
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(5_000_000);
    const end = await clients[0]?.call('exit');
    expect(end === undefined ? '' : textOf(end)).toContain('last line of the noise');
    expect(server.program.stderr.length).toBeLessThan(1_000_000);
    await Promise.all(clients.map((client) => client.end()));
  });

  test('of sessions that run at once can be told apart by the hash of the session', async () => {
    const server = await startWith(undefined, {}, { 'log-level': 'debug' });
    const clients = await Promise.all(Array.from({ length: 3 }, () => server.open()));
    const words = clients.map((_client, index) => `word-of-${index}`);
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(
        clients.map((client, index) => client.call('stderr', { text: `${words[index]}-round-${round}` })),
      );
    }
    const lines = (client: HttpClient): string[] =>
      server.program.stderr.split('\n').filter((line) => line.includes(`"sessionId":"${client.hash}"`));
    for (const [index, client] of clients.entries()) {
      await waitUntil('the last line', () =>
        lines(client).some((line) => line.includes(`${words[index]}-round-4`)) ? true : undefined,
      );
      const own = lines(client).filter((line) => line.includes('word-of-'));
      expect(own).toHaveLength(5);
      expect(own.every((line) => line.includes(words[index] ?? 'none'))).toBe(true);
    }
    await Promise.all(clients.map((client) => client.end()));
  });
});

describe('spare children', () => {
  test('the first call of a session gets one, and another one is made; all are gone with the server', async () => {
    const server = await startWith(undefined, {}, { 'http-spare-children': 1 });
    await waitUntil('a spare', async () => ((await server.status()).spares.children === 1 ? true : undefined));
    const [spare] = testbed.eventsOf('start');
    const client = await server.open();
    expect(structuredOf(await client.call('inspect'))['pid']).toBe(spare?.pid);
    await waitUntil('another one', () => (testbed.eventsOf('start').length === 2 ? true : undefined));
    await waitUntil('a spare', async () => ((await server.status()).spares.children === 1 ? true : undefined));
    expect(await client.end()).toBe(200);
    expect(childCount()).toBe(1);
    server.program.kill('SIGTERM');
    expect(await server.program.exited).toEqual({ code: 0, signal: null });
    expect(processesOf(testbed.folders.root)).toEqual([]);
  });

  test('is not given to a session with settings of its own', async () => {
    const server = await startWith(undefined, {}, { 'http-spare-children': 1 });
    await waitUntil('a spare', async () => ((await server.status()).spares.children === 1 ? true : undefined));
    const spare = testbed.eventsOf('start')[0]?.pid;
    const meta = { 'io.github.cloakbrowser-mcp/session': { locale: 'de-DE' } };
    const client = await server.open({ params: { _meta: meta } });
    expect(structuredOf(await client.call('inspect'))['pid']).not.toBe(spare);
    await client.end();
  });

  test('that dies is replaced, and nobody is told', async () => {
    const server = await startWith(undefined, {}, { 'http-spare-children': 1 });
    await waitUntil('a spare', async () => ((await server.status()).spares.children === 1 ? true : undefined));
    const spare = testbed.eventsOf('start')[0]?.pid ?? 0;
    process.kill(spare, 'SIGKILL');
    await waitUntil('another one', () => (testbed.eventsOf('start').length === 2 ? true : undefined));
    await waitUntil('a spare', async () => ((await server.status()).spares.children === 1 ? true : undefined));
    const client = await server.open();
    expect(structuredOf(await client.call('inspect'))['pid']).toBe(testbed.eventsOf('start')[1]?.pid);
    await client.end();
  });
});
