import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { sessionHash } from '../../../src/session/registry.ts';
import { Bed, FakeSession, pass } from './registry-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a session id', () => {
  it('is 24 random bytes that fit into a header, and never the same twice', () => {
    const bed = new Bed({ max: 1000 });
    const ids = Array.from({ length: 100 }, () => bed.registry.admit('ann'));
    expect(new Set(ids).size).toBe(100);
    expect(ids.filter((id) => !/^[A-Za-z0-9_-]{32}$/.test(id))).toEqual([]);
  });

  it('begins with the name of the replica, for a balancer to route by', () => {
    expect(new Bed({ replicaId: 'mcp-0' }).registry.admit('ann')).toMatch(/^mcp-0\.[A-Za-z0-9_-]{32}$/);
  });

  it('is told in logs by a short hash only', async () => {
    const bed = new Bed();
    const session = bed.open();
    await bed.registry.end(session, 'deleted');
    expect(JSON.stringify(bed.logged)).not.toContain(session.id);
    expect(bed.logged.map(({ fields }) => fields.sessionId)).toEqual([sessionHash(session.id), session.hash]);
    expect(session.hash).toMatch(/^[0-9a-f]{12}$/);
  });
});

describe('admission', () => {
  it('admits as many sessions as the limit and not one more, and the next when one has ended', async () => {
    const bed = new Bed({ max: 2 });
    const first = bed.open();
    expect(bed.answer()).toBe('admitted');
    bed.open();
    expect(bed.refusal()?.code).toBe('sessions_full');
    await bed.registry.end(first, 'deleted');
    expect(bed.answer()).toBe('admitted');
  });

  it('keeps the place of a session until nothing of it is left', async () => {
    const bed = new Bed({ max: 1 });
    const session = bed.open();
    let finish = (): void => undefined;
    session.onClose = () => new Promise((resolve) => (finish = resolve));
    const ending = bed.registry.end(session, 'deleted');
    await pass(0);
    expect(bed.registry.counts()).toEqual({ open: 0, closing: 1 });
    expect(bed.answer()).toBe('sessions_full 1');
    finish();
    await ending;
    expect(bed.answer()).toBe('admitted');
  });

  it('counts the sessions of one owner apart from those of others', async () => {
    const bed = new Bed({ max: 4, maxPerOwner: 2 });
    const first = bed.open('ann');
    bed.open('bob');
    bed.open('ann');
    expect(bed.refusal('ann')?.code).toBe('token_full');
    expect(bed.answer('bob')).toBe('admitted');
    await bed.registry.end(first, 'deleted');
    expect(bed.answer('ann')).toBe('admitted');
  });

  it("counts an owner's sessions that are still ending", async () => {
    const bed = new Bed({ maxPerOwner: 1 });
    const session = bed.open('ann');
    session.onClose = () => new Promise(() => undefined);
    void bed.registry.end(session, 'deleted');
    expect(bed.answer('ann')).toBe('token_full 1');
    expect(bed.answer('bob')).toBe('admitted');
  });

  it('refuses below the free memory it needs, and not at it', () => {
    const bed = new Bed({ minFreeMemory: 500 });
    bed.freeMemory = 500;
    expect(bed.answer()).toBe('admitted');
    bed.freeMemory = 499;
    expect(bed.answer()).toBe('memory_low 10');
    expect(bed.refusal()?.message).toContain('--http-min-free-memory');
  });

  it('lets everybody in where free memory cannot be told or is of no interest', () => {
    const bed = new Bed({ minFreeMemory: 500 });
    bed.freeMemory = undefined;
    expect(bed.answer()).toBe('admitted');
    const careless = new Bed({ minFreeMemory: 0 });
    careless.freeMemory = 0;
    expect(careless.answer()).toBe('admitted');
  });

  it('names the first of several reasons: draining, memory, all sessions, those of the owner', () => {
    const bed = new Bed({ max: 1, maxPerOwner: 1, minFreeMemory: 500 });
    bed.open();
    expect(bed.refusal()?.code).toBe('sessions_full');
    bed.freeMemory = 0;
    expect(bed.refusal()?.code).toBe('memory_low');
    bed.registry.drain();
    expect(bed.answer()).toBe('draining 5');
    expect(bed.registry.isDraining).toBe(true);
  });

  it('tells why nobody could open a session, for readiness, and nothing of one owner', () => {
    const bed = new Bed({ max: 2, maxPerOwner: 1 });
    bed.open();
    expect(bed.registry.refusal()).toBeUndefined();
    bed.open('bob');
    expect(bed.registry.refusal()?.code).toBe('sessions_full');
  });

  it('names the setting that a full server is limited by', () => {
    const bed = new Bed({ max: 1 });
    bed.open();
    expect(bed.refusal()?.message).toContain('--http-session-max)');
    const shared = new Bed({ maxPerOwner: 1 });
    shared.open();
    expect(shared.refusal()?.message).toContain('--http-session-max-per-token');
  });

  it('serves those that are open while it drains', async () => {
    const bed = new Bed();
    const session = bed.open();
    bed.registry.drain();
    await pass(1000);
    expect(bed.isOpen(session)).toBe(true);
  });
});

describe('Retry-After of a full server', () => {
  it('is the time until the session expires that expires first, whole seconds and no less than it takes', async () => {
    const bed = new Bed({ max: 2, idleTtlMs: 40_000, unusedTtlMs: 30_000 });
    bed.open().calls = 1;
    bed.open();
    expect(bed.answer()).toBe('sessions_full 30');
    await pass(500);
    expect(bed.answer()).toBe('sessions_full 30');
    await pass(500);
    expect(bed.answer()).toBe('sessions_full 29');
  });

  it('is at least a second and at most a minute', () => {
    const bed = new Bed({ max: 1, idleTtlMs: 3_600_000, unusedTtlMs: 3_600_000 });
    bed.open();
    expect(bed.answer()).toBe('sessions_full 60');
    const brief = new Bed({ max: 1, unusedTtlMs: 10 });
    brief.open();
    expect(brief.answer()).toBe('sessions_full 1');
  });

  it('counts from now for a session with a call in flight, and heeds the age', async () => {
    const bed = new Bed({ max: 1, maxAgeMs: 50_000, idleTtlMs: 40_000 });
    const session = bed.open();
    session.calls = 1;
    session.isInFlight = true;
    await pass(5000);
    expect(bed.answer()).toBe('sessions_full 40');
    await pass(20_000);
    expect(bed.answer()).toBe('sessions_full 25');
  });

  it("looks at the owner's sessions only when it is the owner who has too many", async () => {
    const bed = new Bed({ maxPerOwner: 1, unusedTtlMs: 30_000 });
    bed.open('bob');
    await pass(10_000);
    bed.open('ann');
    expect(bed.answer('ann')).toBe('token_full 30');
    expect(bed.answer('bob')).toBe('token_full 20');
  });
});

describe('finding a session', () => {
  it("finds nobody else's session, none of an unknown id, and none that ends", () => {
    const bed = new Bed();
    const session = bed.open('ann');
    expect(bed.registry.find(session.id, 'ann')).toBe(session);
    expect(bed.registry.find(session.id, 'bob')).toBeUndefined();
    expect(bed.registry.find('unknown', 'ann')).toBeUndefined();
    void bed.registry.end(session, 'deleted');
    expect(bed.registry.find(session.id, 'ann')).toBeUndefined();
    expect([...bed.registry.sessions()]).toEqual([]);
  });

  it('takes no second session of the same id', () => {
    const bed = new Bed();
    const session = bed.open();
    const [record] = bed.store.records();
    expect(() => {
      bed.registry.add(new FakeSession(session.id, 'bob'), record as never);
    }).toThrow('in use');
    expect(bed.isOpen(session)).toBe(true);
  });
});

describe('the end of a session', () => {
  it('happens once, however many ask for it, and is told once', async () => {
    const bed = new Bed();
    const session = bed.open();
    session.calls = 3;
    await pass(1500);
    const endings = ['deleted', 'idle', 'age'].map((reason) => bed.registry.end(session, reason));
    expect(new Set(endings).size).toBe(1);
    await Promise.all(endings);
    await bed.registry.end(session, 'late');
    expect(session.closedFor).toEqual(['deleted']);
    expect(bed.ended).toEqual([`${session.hash} deleted`]);
    expect(bed.lines('session ended').map(({ level, fields }) => ({ level, fields }))).toEqual([
      { level: 'info', fields: { sessionId: session.hash, reason: 'deleted', durationMs: 1500, count: 3 } },
    ]);
  });

  it('does not go round in circles when closing a session asks for its end', async () => {
    const bed = new Bed();
    const session = bed.open();
    session.onClose = () => {
      void bed.registry.end(session, 'from within');
      return Promise.resolve();
    };
    await bed.registry.end(session, 'deleted');
    expect(session.closedFor).toEqual(['deleted']);
    expect(bed.ended).toHaveLength(1);
  });

  it('is told when nothing of the session is left, not before', async () => {
    const bed = new Bed();
    const session = bed.open();
    session.onClose = () => new Promise((resolve) => setTimeout(resolve, 700));
    void bed.registry.end(session, 'deleted');
    await pass(699);
    expect(bed.ended).toEqual([]);
    await pass(1);
    expect(bed.ended).toEqual([`${session.hash} deleted`]);
  });

  it.each([
    ['throws', () => Promise.reject(new Error('no such folder'))],
    [
      'throws at once',
      () => {
        throw new Error('no such folder');
      },
    ],
  ])('frees the place of a session whose closing %s, and says why', async (_how, onClose) => {
    const bed = new Bed({ max: 1 });
    const session = bed.open();
    session.onClose = onClose;
    await bed.registry.end(session, 'deleted');
    expect(bed.lines('session not closed').map(({ level, fields }) => `${level} ${fields.reason ?? ''}`)).toEqual([
      'error no such folder',
    ]);
    expect(bed.registry.counts()).toEqual({ open: 0, closing: 0 });
    expect(bed.store.size()).toBe(0);
    expect(bed.ended).toHaveLength(1);
  });

  it('waits 30 s for a closing that hangs, and then leaves it behind', async () => {
    const bed = new Bed({ max: 1 });
    const session = bed.open();
    session.onClose = () => new Promise(() => undefined);
    const ending = bed.registry.end(session, 'deleted');
    await pass(29_999);
    expect(bed.registry.counts()).toEqual({ open: 0, closing: 1 });
    await pass(1);
    await ending;
    expect(bed.registry.counts()).toEqual({ open: 0, closing: 0 });
    expect(bed.lines('session left behind')[0]?.level).toBe('error');
    expect(bed.lines('session ended')).toHaveLength(1);
    expect(bed.answer()).toBe('admitted');
  });

  it('waits as long as it is told to', async () => {
    const bed = new Bed({}, 90_000);
    const session = bed.open();
    session.onClose = () => new Promise(() => undefined);
    void bed.registry.end(session, 'deleted');
    await pass(89_999);
    expect(bed.registry.counts().closing).toBe(1);
    await pass(1);
    expect(bed.registry.counts().closing).toBe(0);
  });

  it('is not undone by a listener that throws', async () => {
    const bed = new Bed();
    bed.onEnded = () => {
      throw new Error('no metrics');
    };
    await expect(bed.registry.end(bed.open(), 'deleted')).resolves.toBeUndefined();
    expect(bed.lines('end of session not told')).toHaveLength(1);
  });

  it('passes over a session that was never added', async () => {
    const bed = new Bed();
    const stranger = new FakeSession('x', 'ann');
    await bed.registry.end(stranger, 'deleted');
    bed.registry.touch(stranger);
    expect([stranger.closedFor, bed.ended, bed.store.size()]).toEqual([[], [], 0]);
  });
});

describe('the record of a session', () => {
  it('is there from its beginning to its end, says when it was used last, and says that it ends', async () => {
    const bed = new Bed();
    const states = (): string[] => [...bed.store.records()].map(({ state, lastUsedAt }) => `${state} ${lastUsedAt}`);
    vi.setSystemTime(new Date('2026-01-01T00:00:00Z'));
    const session = bed.open();
    expect(states()).toEqual(['open 2026-01-01T00:00:00.000Z']);
    vi.setSystemTime(new Date('2026-01-01T00:00:07Z'));
    bed.registry.touch(session);
    expect(states()).toEqual(['open 2026-01-01T00:00:07.000Z']);
    vi.setSystemTime(new Date('2026-01-01T00:00:09Z'));
    session.onClose = () => new Promise((resolve) => setTimeout(resolve, 10));
    const ending = bed.registry.end(session, 'deleted');
    await pass(1);
    expect(states()).toEqual(['closing 2026-01-01T00:00:07.000Z']);
    await pass(10);
    await ending;
    expect(states()).toEqual([]);
  });

  it('may get lost in a store that fails, and the session does not', async () => {
    const bed = new Bed();
    bed.store.put = () => {
      throw new Error('disk full');
    };
    const session = bed.open();
    expect(bed.isOpen(session)).toBe(true);
    await bed.registry.end(session, 'deleted');
    expect(bed.ended).toHaveLength(1);
    expect(bed.lines('session record not kept')).toHaveLength(2);
  });
});

describe('ending all sessions', () => {
  it('returns when nothing is left of any, those that were ending already included', async () => {
    const bed = new Bed();
    const [early, late] = [bed.open(), bed.open()];
    early.onClose = () => new Promise((resolve) => setTimeout(resolve, 900));
    late.onClose = () => new Promise((resolve) => setTimeout(resolve, 300));
    void bed.registry.end(early, 'deleted');
    let isDone = false;
    void bed.registry.closeAll('shutdown').then(() => (isDone = true));
    await pass(899);
    expect(isDone).toBe(false);
    await pass(1);
    expect(isDone).toBe(true);
    expect(bed.ended).toEqual([`${late.hash} shutdown`, `${early.hash} deleted`]);
    expect(bed.answer()).toBe('draining 5');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends one that comes too late at once', async () => {
    const bed = new Bed();
    const id = bed.registry.admit('ann');
    await bed.registry.closeAll('shutdown');
    const session = new FakeSession(id, 'ann');
    bed.registry.add(session, { id } as never);
    expect(bed.isOpen(session)).toBe(false);
    await bed.registry.closeAll('shutdown');
    expect(bed.ended).toEqual([`${session.hash} shutdown`]);
  });

  it('is nothing to wait for without sessions', async () => {
    await expect(new Bed().registry.closeAll('shutdown')).resolves.toBeUndefined();
  });
});

describe('revoking', () => {
  it('ends the sessions of tokens that are gone, and no other', async () => {
    const bed = new Bed();
    const [one, other, kept] = [bed.open('ann'), bed.open('ann'), bed.open('bob')];
    await bed.registry.revoke((owner) => owner === 'bob');
    expect(bed.ended).toEqual([`${one.hash} revoked`, `${other.hash} revoked`]);
    expect(bed.isOpen(kept)).toBe(true);
  });
});
