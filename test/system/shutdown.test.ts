import { execFileSync, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { isRunning, waitForNoProcess } from '../support/processes.ts';
import { Testbed, type BridgeOptions } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

const ways = ['stdin end', 'SIGTERM', 'SIGINT', 'SIGHUP'] as const;

function endBy(client: LineClient, way: (typeof ways)[number]): void {
  if (way === 'stdin end') client.endStdin();
  else client.kill(way);
}

/** Expects the end of the program in time, by itself, and that nothing of it is left: no process, no folder. */
async function expectNothingLeft(client: LineClient, ms: number): Promise<void> {
  const started = performance.now();
  const exit = await withDeadline('the end of the bridge', client.exited, ms);
  expect(exit.signal).toBeNull();
  await waitForNoProcess(testbed.folders.root, Math.max(500, ms - (performance.now() - started)));
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  expect(await listEntries(testbed.folders.cwd)).toEqual([]);
  expect(client.strayLines).toEqual([]);
  expect(client.stderr).not.toMatch(/^\s+at .*\.js:\d+/m);
}

type Situation = readonly [what: string, prepare: () => Promise<LineClient>];

async function startLearned(options: BridgeOptions): Promise<LineClient> {
  await testbed.learnCatalog(options.child);
  return testbed.start(options);
}

const situations: Situation[] = [
  [
    'before a message',
    async () => {
      const client = await startLearned({});
      await client.request('ping');
      return client;
    },
  ],
  [
    'idle',
    async () => {
      const client = await startLearned({});
      await client.initialize();
      await client.call('echo');
      return client;
    },
  ],
  [
    'with a call that hangs',
    async () => {
      const client = await startLearned({});
      await client.initialize();
      client.send({ id: 'hangs', method: 'tools/call', params: { name: 'never', arguments: {} } });
      await testbed.waitForEvent('received', { tool: 'never' });
      return client;
    },
  ],
  [
    'while the child is started and a call waits',
    async () => {
      const client = await startLearned({ child: 'slow-child', fake: { INITIALIZE_MS: 'never' } });
      await client.initialize();
      client.send({ id: 'waits', method: 'tools/call', params: { name: 'echo', arguments: {} } });
      await testbed.waitForEvent('received', { method: 'initialize' });
      return client;
    },
  ],
  [
    'while the catalog is learned',
    async () => {
      const client = testbed.start({ child: 'slow-child', fake: { INITIALIZE_MS: 'never' } });
      client.send({ id: 'waits', method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {} } });
      await testbed.waitForEvent('received', { method: 'initialize' });
      return client;
    },
  ],
  [
    'after a failed start',
    async () => {
      const client = await startLearned({ child: 'dying-child', fake: { DIE: 'initialize' } });
      await client.initialize();
      await client.call('echo');
      return client;
    },
  ],
  [
    'after a loss',
    async () => {
      const client = await startLearned({});
      await client.initialize();
      await client.call('exit');
      return client;
    },
  ],
];

describe.each(situations)('%s', (_what, prepare) => {
  test.each(ways)('%s leaves nothing', async (way) => {
    const client = await prepare();
    endBy(client, way);
    await expectNothingLeft(client, 5000);
  });
});

describe('calls at the end of a session', () => {
  test('those with the child and those that wait are each answered once, and none is sent any more', async () => {
    const client = await startLearned({ child: 'slow-child', fake: { CALL_MS: 'never' } });
    await client.initialize();
    client.send({ id: 'running', method: 'tools/call', params: { name: 'echo', arguments: {} } });
    await testbed.waitForEvent('received', { tool: 'echo' });
    client.endStdin();
    await client.exited;
    const other = await startLearned({ child: 'slow-child', fake: { INITIALIZE_MS: 'never' } });
    await other.initialize();
    other.send({ id: 'waiting', method: 'tools/call', params: { name: 'echo', arguments: {} } });
    await testbed.waitForEvent('received', { method: 'initialize' }, 2);
    other.endStdin();
    await expectNothingLeft(other, 5000);
    expect([client.countAnswers('running'), other.countAnswers('waiting')]).toEqual([1, 1]);
    expect(testbed.counts()).toEqual({ started: 2, calls: 1, answered: 0 });
  });
});

describe('a child that will not end', () => {
  const stubborn: BridgeOptions = {
    child: 'dying-child',
    fake: { DIE: 'stubborn' },
    args: ['--close-grace-ms', '300'],
  };

  async function startStubborn(options: BridgeOptions = stubborn): Promise<LineClient> {
    const client = await startLearned(options);
    await client.initialize();
    await client.call('echo');
    await testbed.waitForEvent('sleeper');
    return client;
  }

  test('is asked by SIGTERM, then by the end of stdin, then killed with what it started', async () => {
    const client = await startStubborn();
    const started = performance.now();
    client.endStdin();
    await expectNothingLeft(client, 9000);
    expect(performance.now() - started).toBeGreaterThan(2200);
    expect(testbed.eventsOf('ignored').map((event) => event['what'])).toEqual(['SIGTERM', 'stdin end']);
  });

  test('a second signal ends it at once', async () => {
    const client = await startStubborn({ ...stubborn, args: ['--close-grace-ms', '60000'] });
    client.kill('SIGTERM');
    await testbed.waitForEvent('ignored', { what: 'SIGTERM' });
    // The same signal twice within 300 ms counts as one: a Ctrl-C that npx passes on arrives so.
    const sentAt = performance.now();
    await waitUntil('the end of the time in which both count as one', () =>
      Promise.resolve(performance.now() - sentAt > 350 ? true : undefined),
    );
    client.kill('SIGTERM');
    await withDeadline('the forced end', client.exited, 1500);
    await waitForNoProcess(testbed.folders.root, 1500);
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  });

  test('is gone, with what it started, before its successor starts', async () => {
    const client = await startStubborn();
    const sleeper = Number(testbed.eventsOf('sleeper')[0]?.['sleeper']);
    const [first] = testbed.eventsOf('start');
    process.kill(first?.pid ?? 0, 'SIGKILL');
    await waitUntil('a new child', async () =>
      (await client.call('echo')).result?.['isError'] === true ? undefined : true,
    );
    expect(isRunning(sleeper)).toBe(false);
    client.kill('SIGTERM');
    await expectNothingLeft(client, 9000);
  });
});

describe('a client that is gone without a word', () => {
  test('in the middle of a large answer: no stack trace, nothing left', async () => {
    const client = await startLearned({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    client.pauseStdout();
    for (let n = 0; n < 4; n += 1) {
      client.send({ id: `big ${n}`, method: 'tools/call', params: { name: 'big', arguments: { bytes: 8_000_000 } } });
    }
    await testbed.waitForEvent('received', { tool: 'big' });
    client.destroyStdout();
    await expectNothingLeft(client, 5000);
    expect(client.stderr).not.toContain('EPIPE');
  });

  test('a reader that closes while nothing is written: noticed with the next answer', async () => {
    const client = await startLearned({});
    await client.initialize();
    client.destroyStdout();
    client.send({ id: 'last', method: 'tools/call', params: { name: 'echo', arguments: {} } });
    await expectNothingLeft(client, 5000);
  });

  test('a client that stops reading cannot keep the bridge from ending', async () => {
    const client = await startLearned({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    client.pauseStdout();
    client.send({ id: 'big', method: 'tools/call', params: { name: 'big', arguments: { bytes: 30_000_000 } } });
    await testbed.waitForEvent('received', { tool: 'big' });
    client.kill('SIGTERM');
    await waitUntil('the end', () => (isRunning(client.pid) ? undefined : true), 5000);
    client.destroyStdout();
    await waitForNoProcess(testbed.folders.root, 3000);
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  });

  test('a launcher that was killed while another process holds stdin open', async () => {
    await testbed.learnCatalog();
    const pipe = join(testbed.folders.root, 'stdin');
    execFileSync('mkfifo', [pipe]);
    const held = openSync(pipe, 'r+');
    const command = testbed.command();
    const script = `
      const { openSync } = require('node:fs');
      const { spawn } = require('node:child_process');
      const out = openSync(${JSON.stringify(join(testbed.folders.root, 'out'))}, 'w');
      const bridge = spawn(process.execPath, ${JSON.stringify([command.program, ...command.args])}, {
        stdio: [openSync(${JSON.stringify(pipe)}, 'r'), out, 'ignore'],
      });
      require('node:fs').writeFileSync(${JSON.stringify(join(testbed.folders.root, 'pid'))}, String(bridge.pid));
      setInterval(() => {}, 1000);`;
    const launcher = spawn(process.execPath, ['-e', script], {
      env: command.env,
      cwd: testbed.folders.cwd,
      stdio: 'ignore',
    });
    try {
      writeSync(
        held,
        `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } } })}\n`,
      );
      await testbed.waitForEvent('received', { method: 'notifications/initialized' });
      const bridge = Number(readFileSync(join(testbed.folders.root, 'pid'), 'utf8'));
      await new Promise((resolve) => setTimeout(resolve, 3000));
      expect(isRunning(bridge)).toBe(true);
      launcher.kill('SIGKILL');
      await waitUntil('the end of the bridge', () => (isRunning(bridge) ? undefined : true), 15_000);
      await waitForNoProcess(testbed.folders.root, 3000);
      expect(await listEntries(testbed.folders.tmp)).toEqual([]);
    } finally {
      closeSync(held);
      launcher.kill('SIGKILL');
    }
  });
});

describe('a bridge that is killed', () => {
  test('its child ends with it, and the next start removes the folders', async () => {
    const client = await startLearned({});
    await client.initialize();
    await client.call('echo');
    client.kill('SIGKILL');
    await client.exited;
    await waitForNoProcess(testbed.folders.root, 5000);
    const left = await listEntries(testbed.folders.tmp);
    expect(left).not.toEqual([]);

    const next = testbed.start();
    await next.initialize();
    await next.call('echo');
    await waitUntil('the sweep', async () => {
      const entries = await listEntries(testbed.folders.tmp);
      return entries.some((entry) => left.includes(entry)) ? undefined : true;
    });
    next.endStdin();
    await expectNothingLeft(next, 5000);
  });

  test('a child that will not end is ended by the next start, with what it started', async () => {
    const options: BridgeOptions = {
      child: 'dying-child',
      fake: { DIE: 'stubborn' },
      args: ['--close-grace-ms', '300'],
    };
    const client = await startLearned(options);
    await client.initialize();
    await client.call('echo');
    const [sleeper, child] = [await testbed.waitForEvent('sleeper'), await testbed.waitForEvent('start')];
    client.kill('SIGKILL');
    await client.exited;
    expect(isRunning(child.pid)).toBe(true);

    const next = testbed.start({ child: 'dying-child' });
    await next.initialize();
    await next.call('echo');
    await waitUntil('the end of the old child', () => (isRunning(child.pid) ? undefined : true));
    expect(isRunning(Number(sleeper['sleeper']))).toBe(false);
    next.endStdin();
    await expectNothingLeft(next, 5000);
  });

  test('the folders of a bridge that still runs are left alone by another one', async () => {
    const one = await startLearned({});
    await one.initialize();
    await one.call('echo');
    const folders = await listEntries(testbed.folders.tmp);
    const two = testbed.start();
    await two.initialize();
    await two.call('echo');
    await two.close();
    expect(await listEntries(testbed.folders.tmp)).toEqual(folders);
    expect((await one.call('echo')).result).toBeDefined();
    one.endStdin();
    await expectNothingLeft(one, 5000);
  });
});

describe('two copies with the same settings', () => {
  test('both list tools and answer calls', async () => {
    await testbed.learnCatalog();
    const copies = [testbed.start(), testbed.start()];
    await Promise.all(copies.map((copy) => copy.initialize()));
    const answers = await Promise.all(copies.map((copy) => copy.call('echo')));
    expect(answers.every((answer) => answer.result?.['isError'] !== true)).toBe(true);
    await Promise.all(copies.map((copy) => copy.close()));
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  });
});
