import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient, Message } from '../support/client.ts';
import { processesOf, processorMs, residentMebibytes } from '../support/processes.ts';
import { structuredOf, Testbed, textOf, type BridgeOptions } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

async function startSession(options: BridgeOptions): Promise<LineClient> {
  await testbed.learnCatalog(options.child);
  const client = testbed.start(options);
  await client.initialize();
  return client;
}

function dying(fake: Record<string, string>, args: string[] = []): BridgeOptions {
  return { child: 'dying-child', fake, args };
}

/** Calls until one succeeds; returns the failures before it. */
async function callUntilGood(client: LineClient, most: number): Promise<Message[]> {
  const failures: Message[] = [];
  for (let n = 0; n < most; n += 1) {
    const answer = await client.call('echo', { n });
    if (answer.result?.['isError'] !== true) return failures;
    failures.push(answer);
  }
  throw new Error(`${most} calls failed; the last one: ${JSON.stringify(failures.at(-1))}`);
}

/** Waits until the bridge knows that its first start failed. */
async function waitForFailedStart(client: LineClient): Promise<void> {
  await waitUntil('the failed start', async () => {
    const info = structuredOf(await client.call('cloakbrowser_bridge_info'));
    return info['startFailure'] === null ? undefined : true;
  });
}

function childProcesses(): number {
  return processesOf(testbed.folders.root).filter(({ command }) => !command.includes('main.js')).length;
}

describe('a child that dies during its start', () => {
  test.each(['start', 'initialize'])(
    'at "%s": the call gets exit code and reason within a second or two',
    async (moment) => {
      const client = await startSession(dying({ DIE: moment, EXIT_CODE: '3' }));
      const started = performance.now();
      const answer = await client.call('echo');
      expect(performance.now() - started).toBeLessThan(3000);
      expect(answer.result?.['isError']).toBe(true);
      expect(textOf(answer)).toContain('exit code 3');
      expect(textOf(answer)).toContain(`Fake reason: died at ${moment}.`);
      expect(testbed.counts().calls).toBe(0);
      expect(childProcesses()).toBe(0);
    },
  );

  test('killed by a signal: the signal is named', async () => {
    const client = await startSession(dying({ DIE: 'initialize', SIGNAL: 'SIGKILL' }));
    expect(textOf(await client.call('echo'))).toContain('SIGKILL');
  });

  test.each(['initialized', 'list'])('at "%s": a loss, and nothing is repeated', async (moment) => {
    const client = await startSession(dying({ DIE: moment, FAIL_STARTS: '1' }));
    await testbed.waitForEvent('end', { why: moment });
    const failures = await callUntilGood(client, 3);
    const { started, calls, answered } = testbed.counts();
    expect(started).toBe(2);
    expect(answered).toBe(1);
    expect(calls).toBeLessThanOrEqual(1 + failures.length);
  });

  test.each(['start', 'initialize'])(
    'without a stored catalog, at "%s": initialize and tools/list are answered, the reason comes with the call',
    async (moment) => {
      const client = testbed.start(dying({ DIE: moment }));
      const answer = await client.request('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'c', version: '1' },
      });
      expect(answer.result?.['serverInfo']).toMatchObject({ name: 'cloakbrowser-mcp' });
      client.notify('notifications/initialized');
      const { result } = await client.request('tools/list');
      expect(JSON.stringify(result?.['tools'])).toContain('cloakbrowser_bridge_info');
      expect(textOf(await client.call('echo'))).toContain(`Fake reason: died at ${moment}.`);
      const info = JSON.stringify((await client.call('cloakbrowser_bridge_info')).result);
      expect(info).toContain(`died at ${moment}`);
      expect(client.stderr).toContain(`died at ${moment}`);
    },
  );

  test('ten calls that wait for a start that fails all get its reason, none reaches a child, a later call tries again', async () => {
    const client = await startSession(dying({ DIE: 'initialize', FAIL_STARTS: '2' }));
    await waitForFailedStart(client);
    const answers = await Promise.all(Array.from({ length: 10 }, (_none, n) => client.call('echo', { n })));
    expect(answers.every((answer) => answer.result?.['isError'] === true)).toBe(true);
    expect(testbed.counts()).toEqual({ started: 2, calls: 0, answered: 0 });
    expect(textOf(await client.call('echo', { later: 1 }))).toContain('later');
    expect(testbed.counts()).toEqual({ started: 3, calls: 1, answered: 1 });
  });

  test('a failed start is not tried again until a call wants it', async () => {
    const client = await startSession(dying({ DIE: 'initialize' }));
    await waitForFailedStart(client);
    await client.call('cloakbrowser_bridge_info');
    await client.request('tools/list');
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(testbed.counts().started).toBe(1);
  });
});

describe('the storm guard', () => {
  test('after --restart-max failures within a minute no child is started, the calls say so at once', async () => {
    const client = await startSession(dying({ DIE: 'initialize' }, ['--restart-max', '3']));
    await waitForFailedStart(client);
    const answers: string[] = [];
    for (let n = 0; n < 6; n += 1) answers.push(textOf(await client.call('echo', { n })));
    expect(testbed.counts()).toEqual({ started: 3, calls: 0, answered: 0 });
    const started = performance.now();
    const refused = textOf(await client.call('echo'));
    expect(performance.now() - started).toBeLessThan(500);
    for (const text of [...answers.slice(2), refused]) {
      expect(text).toContain('3 starts failed within a minute');
      expect(text).toContain('died at initialize');
    }
    const other = await client.request('x/other');
    expect(other.error).toMatchObject({ code: -32016, data: { reason: 'restart_limited' } });
    expect(testbed.counts().started).toBe(3);
  });

  test('failures one below --restart-max do not close the gate', async () => {
    const client = await startSession(dying({ DIE: 'initialize', FAIL_STARTS: '2' }, ['--restart-max', '3']));
    await callUntilGood(client, 3);
    expect(testbed.counts()).toEqual({ started: 3, calls: 1, answered: 1 });
  });

  test('a refused start costs no processor time while nobody calls', async () => {
    const client = await startSession(dying({ DIE: 'initialize' }, ['--restart-max', '1']));
    await waitForFailedStart(client);
    await client.call('echo');
    const before = processorMs(client.pid);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(processorMs(client.pid) - before).toBeLessThan(100);
  });
});

describe('a child that never answers initialize', () => {
  test('a call ends at --start-timeout-ms with what is going on, and the next one waits again', async () => {
    const client = await startSession({
      child: 'slow-child',
      fake: { INITIALIZE_MS: '2500' },
      args: ['--start-timeout-ms', '800'],
    });
    const started = performance.now();
    const answer = await client.call('echo', { n: 'early' });
    const waited = performance.now() - started;
    expect(waited).toBeGreaterThan(750);
    expect(waited).toBeLessThan(2000);
    expect(answer.result?.['isError']).toBe(true);
    expect(textOf(answer)).toMatch(/not ready yet after 800 ms/);
    await testbed.waitForEvent('answered', { id: testbed.eventsOf('received', { method: 'initialize' })[0]?.['id'] });
    expect(textOf(await client.call('echo', { n: 'later' }))).toContain('later');
    expect(testbed.counts()).toEqual({ started: 1, calls: 1, answered: 1 });
  });

  test('the start ends at --restart-timeout-ms, the child is gone, and a later call starts another', async () => {
    const client = await startSession({
      child: 'slow-child',
      fake: { INITIALIZE_MS: 'never' },
      args: ['--restart-timeout-ms', '700', '--start-timeout-ms', '5000'],
    });
    const answer = await client.call('echo');
    expect(textOf(answer)).toContain('did not answer initialize within 700 ms');
    await waitUntil('the end of the child', () => (childProcesses() === 0 ? true : undefined));
    await client.call('echo');
    expect(testbed.counts()).toEqual({ started: 2, calls: 0, answered: 0 });
  });

  test('without a stored catalog, initialize is still answered within the limit of a start', async () => {
    const client = testbed.start({
      child: 'slow-child',
      fake: { INITIALIZE_MS: 'never' },
      args: ['--start-timeout-ms', '4000', '--restart-timeout-ms', '4000'],
    });
    const started = performance.now();
    await client.initialize();
    // Two tries, one after the other, would take twice the limit.
    expect(performance.now() - started).toBeLessThan(7500);
  });
});

describe('a noisy child', () => {
  const loud = { STDERR_BYTES: '10000000', JUNK: '1' };

  test('10 MB on stderr and junk on stdout: calls go on, nothing reaches the client, memory stays small', async () => {
    const client = await startSession({ child: 'noisy-child', fake: loud });
    for (let n = 0; n < 3; n += 1) expect(textOf(await client.call('echo', { n }))).toContain(`"n":${n}`);
    expect(client.strayLines).toEqual([]);
    expect(client.stderr.length).toBeLessThan(1_000_000);
    expect(residentMebibytes(client.pid)).toBeLessThan(250);
    expect(testbed.counts()).toEqual({ started: 1, calls: 3, answered: 3 });
  });

  test('its last lines are in the answer when it dies', async () => {
    const client = await startSession({ child: 'noisy-child', fake: loud });
    await client.call('echo');
    const answer = await client.call('exit');
    expect(textOf(answer)).toContain('exit code 4');
    expect(textOf(answer)).toContain('last line of the noise');
    expect(textOf(answer).length).toBeLessThan(10_000);
  });

  test('without a stored catalog: the list is learned through the noise', async () => {
    const client = testbed.start({ child: 'noisy-child', fake: loud });
    await client.initialize();
    const { result } = await client.request('tools/list');
    expect(JSON.stringify(result)).toContain('"echo"');
    expect(client.strayLines).toEqual([]);
  });
});
