import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { BalancedBed, inTurns, placeOf, type CallPlace, type ReplicaName } from '../support/balanced-bed.ts';
import { BrokenConnection, reasonOf, type BalancedClient, type Reply } from '../support/balanced-client.ts';
import { balancerFiles, provideBalancers } from '../support/balancers.ts';
import { textOf } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

interface OpenSession {
  readonly client: BalancedClient;
  readonly place: CallPlace;
}

const names: readonly ReplicaName[] = ['a', 'b'];

beforeAll(() => {
  provideBalancers();
}, 300_000);

function tally(values: readonly unknown[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[String(value)] = (counts[String(value)] ?? 0) + 1;
  return counts;
}

/** The first answer that a client gets; its connection may have broken when a server behind the balancer was killed. */
async function answerAfterBreak(ask: () => Promise<Reply>): Promise<Reply> {
  try {
    const reply = await ask();
    if (reply.status !== 502) return reply;
  } catch (failure) {
    if (!(failure instanceof BrokenConnection)) throw failure;
  }
  return ask();
}

/** Opens sessions, a few at once, and calls a tool in each. */
function openMany(bed: BalancedBed, count: number): Promise<OpenSession[]> {
  return inTurns(count, 8, () => bed.open());
}

/** The sessions of each replica; a balancer with several processes deals them out in turns for each process only. */
function byReplica(sessions: readonly OpenSession[]): Record<ReplicaName, OpenSession[]> {
  const [a, b] = names.map((name) => sessions.filter(({ place }) => place.replica === name));
  if (a === undefined || b === undefined || a.length + b.length !== sessions.length) throw new Error('A foreign place');
  expect(Math.min(a.length, b.length)).toBeGreaterThan(sessions.length / 4);
  return { a, b };
}

describe.each(balancerFiles)('behind %s', (file) => {
  describe('with two replicas that live', () => {
    let bed: BalancedBed;

    beforeAll(async () => {
      bed = await BalancedBed.make(file);
    });

    afterAll(async () => {
      await bed.close();
    });

    test('each of 200 sessions stays on its replica and in its child', { timeout: 150_000 }, async () => {
      const runs = await inTurns(200, 12, async () => {
        const client = bed.client();
        expect((await client.initialize()).status).toBe(200);
        const places: CallPlace[] = [];
        for (let call = 0; call < 5; call += 1) places.push(placeOf(await client.call('inspect')));
        expect((await client.end()).status).toBe(200);
        client.close();
        return { id: client.sessionId ?? '', places };
      });

      for (const { places } of runs) expect(new Set(places.map((place) => JSON.stringify(place))).size).toBe(1);
      const replicas = tally(runs.map(({ places }) => places[0]?.replica));
      expect(Object.keys(replicas).sort()).toEqual(['a', 'b']);
      expect(Math.min(...Object.values(replicas))).toBeGreaterThan(80);
      const prefixes = runs.map(({ id }) => (id.includes('.') ? id.slice(0, id.indexOf('.')) : undefined));
      expect(prefixes).toEqual(
        runs.map(({ places }) => (file === 'haproxy.cfg' ? undefined : (places[0]?.replica ?? 'nowhere'))),
      );
      for (const name of names) {
        expect(await bed.metric(name, 'sessions_opened_total')).toBe(replicas[name]);
        expect(await bed.metric(name, 'refusals_total')).toBe(0);
      }
    });

    test('a reload of the balancer, as for a new certificate, loses no session', { timeout: 60_000 }, async () => {
      const sessions = await openMany(bed, 16);
      byReplica(sessions);
      const streams = await Promise.all(sessions.map(({ client }) => client.openStream()));
      const frames = streams.map((stream) => stream.frames());
      let isOver = false;
      const running = sessions.map(async ({ client, place }) => {
        while (!isOver) expect(placeOf(await answerAfterBreak(() => client.call('inspect')))).toEqual(place);
        expect(placeOf(await client.call('inspect'))).toEqual(place);
      });
      try {
        await bed.balancer.reload();
      } finally {
        isOver = true;
      }
      await Promise.all(running);
      await waitUntil('frames on the streams', () =>
        streams.every((stream, index) => stream.frames() > (frames[index] ?? 0)) ? true : undefined,
      );
      for (const { client } of sessions) expect((await client.end()).status).toBe(200);
      await withDeadline('the end of the streams', Promise.all(streams.map(({ closed }) => closed)));
    });

    test('a session id that no replica knows is answered 404 and opens nothing', async () => {
      const ids = ['c.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'a.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'AAAA', '0', 'a', '.'];
      const opened = (): Promise<number[]> =>
        Promise.all(names.map((name) => bed.metric(name, 'sessions_opened_total')));
      const before = await opened();
      const client = bed.client();
      for (const sessionId of ids) {
        for (const method of ['POST', 'GET', 'DELETE']) {
          const body = method === 'POST' ? { jsonrpc: '2.0', id: 1, method: 'tools/list' } : undefined;
          const reply = await client.send(method, body, { sessionId });
          expect([method, sessionId, reply.status, reasonOf(reply)]).toEqual([
            method,
            sessionId,
            404,
            'session_unknown',
          ]);
        }
      }
      expect(await opened()).toEqual(before);
    });

    test('what concerns one replica only is not served', async () => {
      for (const path of ['/metrics', '/status', '/healthz', '/', '/mcpx']) {
        const reply = await bed.client().send('GET', undefined, { path });
        expect([path, reply.status, reasonOf(reply)]).toEqual([path, 404, 'http_path']);
      }
      expect((await bed.client().send('GET', undefined, { path: '/readyz' })).status).toBe(200);
    });
  });

  describe('with two replicas of which one ends', () => {
    let bed: BalancedBed;

    beforeEach(async () => {
      bed = await BalancedBed.make(file);
    });

    afterEach(async () => {
      await bed.close();
    });

    test('a replica that drains loses no call and gets no new session', { timeout: 90_000 }, async () => {
      const before = await openMany(bed, 24);
      const { a: moved } = byReplica(before);
      const streams = await Promise.all(before.map(({ client }) => client.openStream()));
      const running = before.map(async ({ client, place }) => {
        for (let call = 0; call < 4; call += 1) {
          expect(textOf((await client.call('slow', { ms: 300 })).message ?? {})).toBe('late');
          expect(placeOf(await client.call('inspect'))).toEqual(place);
        }
      });
      bed.replicas.a.server.kill('SIGTERM');
      await waitUntil('a to drain', async () => ((await bed.isReady('a')) ? undefined : true));
      const during = await openMany(bed, 12);
      expect(tally(during.map(({ place }) => place.replica))).toEqual({ b: 12 });
      await Promise.all(running);
      // Longer than it takes the balancer to notice by itself.
      await waitUntil('frames', () => (streams.every(({ frames }) => frames() > 12) ? true : undefined));
      for (const { client, place } of before) expect(placeOf(await client.call('inspect'))).toEqual(place);

      for (const { client } of moved) expect((await client.end()).status).toBe(200);
      expect(await withDeadline('the end of a', bed.replicas.a.server.exited)).toEqual({ code: 0, signal: null });
      for (const { client } of moved) {
        expect((await client.initialize()).status).toBe(200);
        expect(placeOf(await client.call('inspect')).replica).toBe('b');
      }
    });

    test(
      'when a replica is killed, only its sessions are gone, and their clients start new ones',
      { timeout: 90_000 },
      async () => {
        const { a: lost, b: kept } = byReplica(await openMany(bed, 24));
        const lostStreams = await Promise.all(lost.map(({ client }) => client.openStream()));
        const keptStreams = await Promise.all(kept.map(({ client }) => client.openStream()));
        const answers = kept.map(({ client }) => client.call('slow', { ms: 2000 }));
        const cut = Promise.allSettled(lost.map(({ client }) => client.call('never')));
        await bed.testbed.waitForEvent('received', { tool: 'never' }, lost.length);
        bed.replicas.a.server.kill('SIGKILL');

        for (const result of await cut) expect(result.status === 'rejected' || result.value.status === 502).toBe(true);
        await withDeadline('the end of the streams', Promise.all(lostStreams.map(({ closed }) => closed)));
        await Promise.all(
          lost.map(async ({ client }) => {
            const refused = await answerAfterBreak(() => client.call('inspect'));
            expect([refused.status, refused.headers['content-type'], reasonOf(refused)]).toEqual([
              404,
              'application/json',
              'session_unknown',
            ]);
            expect((await client.send('GET')).status).toBe(404);
            expect((await client.send('DELETE')).status).toBe(404);
            expect((await client.initialize()).status).toBe(200);
            for (let call = 0; call < 5; call += 1) expect(placeOf(await client.call('inspect')).replica).toBe('b');
          }),
        );
        for (const answer of await Promise.all(answers)) expect(textOf(answer.message ?? {})).toBe('late');
        for (const { client, place } of kept) expect(placeOf(await client.call('inspect'))).toEqual(place);
        const counted = keptStreams.map(({ frames }) => frames());
        await waitUntil('more frames', () =>
          keptStreams.every(({ frames }, index) => frames() > (counted[index] ?? 0)) ? true : undefined,
        );
        expect(await bed.metric('b', 'refusals_total')).toBe(0);
      },
    );

    test('while no replica is ready, sessions are served and initialize is told when to come back', async () => {
      const sessions = await openMany(bed, 8);
      byReplica(sessions);
      for (const name of names) bed.replicas[name].server.kill('SIGTERM');
      await waitUntil('both to drain', async () =>
        (await bed.isReady('a')) || (await bed.isReady('b')) ? undefined : true,
      );
      await waitUntil('the balancer to notice', async () =>
        (await bed.client().send('GET', undefined, { path: '/readyz' })).status === 503 ? true : undefined,
      );
      const refused = await bed.client().initialize();
      expect([refused.status, refused.headers['content-type']]).toEqual([503, 'application/json']);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect(['no_replica_ready', 'draining']).toContain(reasonOf(refused));
      for (const { client, place } of sessions) expect(placeOf(await client.call('inspect'))).toEqual(place);
    });
  });
});
