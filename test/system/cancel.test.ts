import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient, MessageId } from '../support/client.ts';
import { Testbed, textOf } from '../support/testbed.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

function cancel(client: LineClient, requestId: MessageId): void {
  client.notify('notifications/cancelled', { requestId, reason: 'user', 'x-why': 1 });
}

async function startReady(): Promise<LineClient> {
  await testbed.learnCatalog();
  const client = testbed.start();
  await client.initialize();
  await client.call('echo');
  return client;
}

/** Sends a call without waiting for it. */
function sendCall(client: LineClient, id: MessageId, name: string, args = {}): void {
  client.send({ id, method: 'tools/call', params: { name, arguments: args } });
}

describe('a call that is with the child', () => {
  test.each([0, 'a', 123_456_789_012])('is cancelled under its own id %s and never answered', async (id) => {
    const client = await startReady();
    sendCall(client, id, 'slow', { ms: 20_000 });
    await testbed.waitForEvent('received', { tool: 'slow' });
    cancel(client, id);
    const seen = await testbed.waitForEvent('cancelled');
    expect(seen['id']).toBe(id);
    const line = testbed.received().find((one) => one.includes('notifications/cancelled'));
    expect(JSON.parse(line ?? '')).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: id, reason: 'user', 'x-why': 1 },
    });
    await client.call('echo');
    expect(client.countAnswers(id)).toBe(0);
  });

  test('a late answer of a child that ignores the cancellation is dropped', async () => {
    const client = await startReady();
    sendCall(client, 'late', 'slow', { ms: 200, stubborn: true });
    await testbed.waitForEvent('received', { tool: 'slow' });
    cancel(client, 'late');
    await testbed.waitForEvent('answered', { id: 'late' });
    await client.call('echo');
    await client.call('echo');
    expect(client.countAnswers('late')).toBe(0);
  });

  test('cancelled twice: the child hears it once, other calls go on', async () => {
    const client = await startReady();
    sendCall(client, 1001, 'slow', { ms: 20_000 });
    sendCall(client, 1002, 'slow', { ms: 300 });
    cancel(client, 1001);
    cancel(client, 1001);
    expect(textOf(await client.answerTo(1002))).toBe('late');
    expect(testbed.eventsOf('cancelled').map((event) => event['id'])).toEqual([1001]);
    expect(client.countAnswers(1001)).toBe(0);
  });

  test('cancelled after its answer, or never asked: nothing happens, and nothing reaches the child', async () => {
    const client = await startReady();
    await client.call('echo', {}, { id: 'done' });
    cancel(client, 'done');
    cancel(client, 'never asked');
    client.notify('notifications/cancelled', {});
    await client.call('echo');
    expect(testbed.eventsOf('cancelled')).toEqual([]);
    expect(client.countAnswers('done')).toBe(1);
  });

  test('an id may be used again once its request was cancelled', async () => {
    const client = await startReady();
    sendCall(client, 'again', 'slow', { ms: 20_000 });
    cancel(client, 'again');
    expect(textOf(await client.call('echo', { second: 'x' }, { id: 'again' }))).toContain('second');
  });
});

describe('a call that still waits', () => {
  test('is withdrawn: the child never gets it, and the others behind it do', async () => {
    await testbed.learnCatalog('slow-child');
    const client = testbed.start({ child: 'slow-child', fake: { INITIALIZE_MS: '1200' } });
    await client.initialize();
    sendCall(client, 'withdrawn', 'echo', { n: 'withdrawn' });
    sendCall(client, 'kept', 'echo', { n: 'kept' });
    cancel(client, 'withdrawn');
    expect(textOf(await client.answerTo('kept'))).toContain('kept');
    await client.call('echo');
    expect(testbed.received().filter((line) => line.includes('withdrawn'))).toEqual([]);
    expect(client.countAnswers('withdrawn')).toBe(0);
  });

  test('a local tool can be cancelled or answered, but is never answered twice', async () => {
    const client = await startReady();
    sendCall(client, 'local', 'cloakbrowser_bridge_info');
    cancel(client, 'local');
    await client.call('echo');
    expect(client.countAnswers('local')).toBeLessThan(2);
    expect(testbed.eventsOf('cancelled')).toEqual([]);
  });
});
