import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { BalancedClient, BrokenConnection, reasonOf, type Reply } from '../support/balanced-client.ts';
import { balancerFiles, provideBalancers, startBalancer, type Balancer } from '../support/balancers.ts';
import { makeFolders, type TestFolders } from '../support/folders.ts';
import { StandInReplica } from '../support/stand-in-replica.ts';
import { waitUntil } from '../support/waiting.ts';

const host = 'mcp.example.com';

beforeAll(() => {
  provideBalancers();
}, 300_000);

async function outcomeOf(asked: Promise<Reply>): Promise<string> {
  try {
    const reply = await asked;
    return `${reply.status} ${String(reasonOf(reply))}`;
  } catch (failure) {
    if (failure instanceof BrokenConnection) return 'broken connection';
    throw failure;
  }
}

describe.each(balancerFiles)('behind %s', (file) => {
  let folders: TestFolders;
  let replicas: [StandInReplica, StandInReplica];
  let balancer: Balancer;
  let clients: BalancedClient[];

  beforeEach(async () => {
    folders = await makeFolders();
    clients = [];
    replicas = await Promise.all([StandInReplica.start('a'), StandInReplica.start('b')]);
    const [a, b] = replicas;
    const servers = [
      { address: a.address, id: a.name },
      { address: b.address, id: b.name },
    ] as const;
    balancer = await startBalancer(file, { folder: join(folders.root, 'balancer'), host, servers });
  });

  afterEach(async () => {
    for (const client of clients) client.close();
    await balancer.close();
    for (const replica of replicas) await replica.close();
    await rm(folders.root, { recursive: true });
  });

  function makeClient(): BalancedClient {
    const client = new BalancedClient({ port: balancer.port, host, token: 'unused' });
    clients.push(client);
    return client;
  }

  async function openedOn(): Promise<string | undefined> {
    const client = makeClient();
    const { status } = await client.initialize();
    return status === 200 ? client.sessionId?.split('.')[0] : String(status);
  }

  test('a call that may have been run is never sent again', async () => {
    const client = makeClient();
    await client.initialize();
    // The second one goes over a connection that is in use already, which is where a balancer likes to try again.
    expect((await client.call('fine')).status).toBe(200);
    expect(['502 replica_broke_off', 'broken connection']).toContain(await outcomeOf(client.call('break')));
    expect((await client.call('fine')).status).toBe(200);
    expect(replicas.flatMap(({ calls }) => calls)).toEqual(['fine', 'break', 'fine']);
  });

  test('a session is opened on the other replica when one refuses, breaks off or is gone', async () => {
    const [a] = replicas;
    expect(new Set(await Promise.all(Array.from({ length: 8 }, openedOn)))).toEqual(new Set(['a', 'b']));
    for (const mood of ['full', 'breaks off'] as const) {
      a.mood = mood;
      expect([mood, ...(await Promise.all(Array.from({ length: 8 }, openedOn)))]).toEqual([
        mood,
        ...Array(8).fill('b'),
      ]);
    }
    await a.close();
    expect(await Promise.all(Array.from({ length: 8 }, openedOn))).toEqual(Array(8).fill('b'));
  });

  test('when both replicas are full, the client is told so and when to come back', async () => {
    for (const replica of replicas) replica.mood = 'full';
    const reply = await makeClient().initialize();
    expect([reply.status, reasonOf(reply), reply.headers['retry-after']]).toEqual([503, 'sessions_full', '7']);
  });

  test('what a replica answers to a request of its session is passed on as it is', async () => {
    const client = makeClient();
    await client.initialize();
    const reply = await client.call('refused');
    expect([reply.status, reasonOf(reply), reply.headers['retry-after']]).toEqual([503, 'closing', '7']);
  });

  test('a session whose replica is gone is answered 404 in our own shape, whatever the method', async () => {
    const client = makeClient();
    await client.initialize();
    for (const replica of replicas) await replica.close();
    for (const method of ['POST', 'GET', 'DELETE']) {
      const body = method === 'POST' ? { jsonrpc: '2.0', id: 1, method: 'ping' } : undefined;
      const reply = await client.send(method, body);
      expect([method, reply.status, reply.message?.error?.code, reasonOf(reply)]).toEqual([
        method,
        404,
        -32018,
        'session_unknown',
      ]);
    }
    const refused = await waitUntil('the balancer to notice', async () => {
      const reply = await makeClient().initialize();
      return reply.status === 503 ? reply : undefined;
    });
    expect([reasonOf(refused), refused.headers['retry-after']]).toEqual(['no_replica_ready', '5']);
  });

  test('a request above all limits is answered by the replica, or as it would be', async () => {
    const client = makeClient();
    await client.initialize();
    const long = await client.send('POST', { jsonrpc: '2.0', id: 1, method: 'x'.repeat(9_000_000) });
    expect([200, 413]).toContain(long.status);
    expect(long.message?.['jsonrpc']).toBe('2.0');
    const wide = await client.send('GET', undefined, { path: `/mcp?${'x'.repeat(14_000)}` });
    expect(wide.status).toBe(200);
  });

  test('a request as large as the largest that a replica takes is passed on', async () => {
    const client = makeClient();
    await client.initialize();
    const { message } = await client.call('fine', { text: 'x'.repeat(4_194_000) });
    expect(message?.result?.['size']).toBeGreaterThan(4_194_000);
  });
});
