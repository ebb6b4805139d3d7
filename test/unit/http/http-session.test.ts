import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { readClientBody } from '../../../src/http/client-message.ts';
import { makeSessionBed, type HttpSessionBed } from './http-session-bed.ts';
import { type Peer, fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

const request = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
const notice = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
const roots = '{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}';

/** Gives a body to the session; true when its answer is a stream. */
function give(bed: HttpSessionBed, body: string, version?: string): [boolean, Peer] {
  const peer = makePeer();
  return [bed.session.accept(readClientBody(Buffer.from(body)), peer.res, version), peer];
}

describe('a body', () => {
  it('with a request opens a stream, which can be answered before it was passed on', async () => {
    const bed = makeSessionBed();
    bed.onLine = () => {
      bed.session.channel.answer('1', ['{"id":1}']);
    };
    const [isStream, peer] = give(bed, request);
    await settle();
    expect([isStream, peer.messages(), peer.isEnded(), bed.lines]).toEqual([true, [{ id: 1 }], true, [request]]);
  });

  it('without a request opens none and leaves the answer alone', async () => {
    const bed = makeSessionBed();
    const answer = '{"jsonrpc":"2.0","id":1,"result":{}}';
    expect([give(bed, notice)[0], give(bed, answer)[0]]).toEqual([false, false]);
    const [, peer] = give(bed, `[${notice},${answer}]`);
    vi.advanceTimersByTime(100);
    await settle();
    expect([peer.head(), bed.lines]).toEqual(['', [notice, answer, `[${notice},${answer}]`]]);
  });

  it.each([
    ['2025-11-25', true],
    ['2026-01-01', true],
    ['2025-06-18', false],
    ['2024-11-05', false],
    [undefined, false],
  ])('of a client of %s is told first where its stream stands: %s', async (version, isPrimed) => {
    const [, peer] = give(makeSessionBed(), request, version);
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe(isPrimed ? 'id: 1-1\nretry: 1000\ndata: \n\n' : ':\n\n');
  });
});

describe('the notice that the roots of the client changed', () => {
  it('is kept from the child, which never learned of them', () => {
    const bed = makeSessionBed();
    expect(give(bed, roots)[0]).toBe(false);
    expect(bed.lines).toEqual([]);
  });

  it('is taken out of a batch, whose other messages are passed on byte for byte', async () => {
    const bed = makeSessionBed();
    const call = '{"jsonrpc":"2.0", "id":1,"method":"tools/call","params":{"n":12345678901234567890,"x":1.0}}';
    const deep = `{"jsonrpc":"2.0","method":"a","params":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
    const [isStream, peer] = give(bed, `[${roots}, ${call} ,${roots},${deep}]`);
    expect([isStream, bed.lines]).toEqual([true, [call, deep]]);
    bed.session.channel.answer('1', ['{"id":1}']);
    await settle();
    expect(peer.isEnded()).toBe(true);
  });

  it('is passed on where the operator wants that', () => {
    const bed = makeSessionBed({ passesRoots: true });
    give(bed, roots);
    expect(bed.lines).toEqual([roots]);
  });

  it('that comes as a request is answered like any method that nobody knows', () => {
    const bed = makeSessionBed();
    const strange = roots.replace('"method"', '"id":1,"method"');
    const answer = '{"jsonrpc":"2.0","id":2,"result":{}}';
    give(bed, strange);
    give(bed, `[${strange.replace('"id":1', '"id":3')},${roots},${answer}]`);
    expect(bed.lines).toEqual([strange, strange.replace('"id":1', '"id":3'), answer]);
  });
});

describe('a session', () => {
  it('is known by its id, and in logs by a hash of it', () => {
    const { session } = makeSessionBed({ folders: () => ['/work'], workspace: () => '/all' });
    expect(session).toMatchObject({ id: 'the-session', owner: 'owner', createdAt: 5, lastUsedAt: 5 });
    expect(session).toMatchObject({ folders: ['/work'], workspace: '/all', client: { name: 'a client' } });
    expect(session.hash).not.toContain('the-session');
    expect(session.hash).toBe(makeSessionBed().session.hash);
    expect(session.hash).not.toBe(makeSessionBed({ id: 'another' }).session.hash);
  });

  it('has calls when something was sent to a child', () => {
    const bed = makeSessionBed();
    expect([bed.session.hasCalls(), bed.session.callCount()]).toEqual([false, 0]);
    bed.calls = 2;
    expect([bed.session.hasCalls(), bed.session.callCount()]).toEqual([true, 2]);
  });

  it('is busy with a call whose client waits, and has a stream while somebody listens', async () => {
    const { session } = makeSessionBed();
    expect([session.isBusy(), session.hasStream()]).toEqual([false, false]);
    const listener = makePeer('GET');
    session.channel.openListener(listener.res, false);
    expect([session.isBusy(), session.hasStream()]).toEqual([false, true]);
    session.accept(readClientBody(Buffer.from(request)), makePeer().res, undefined);
    listener.leave();
    await settle();
    expect([session.isBusy(), session.hasStream()]).toEqual([true, false]);
  });

  it('asks its client whether it is there, each time under another id', async () => {
    const { session } = makeSessionBed();
    const listener = makePeer('GET');
    session.channel.openListener(listener.res, false);
    session.ping();
    session.ping();
    await settle();
    expect(listener.messages()).toEqual([
      { jsonrpc: '2.0', id: 'cloakbrowser-mcp/ping/1', method: 'ping' },
      { jsonrpc: '2.0', id: 'cloakbrowser-mcp/ping/2', method: 'ping' },
    ]);
  });

  it('answers what is open before it closes its streams, and waits for the rest of its end', async () => {
    const bed = makeSessionBed();
    const [, peer] = give(bed, request);
    await bed.session.close();
    await settle();
    expect(bed.ended).toEqual(['with 1 in flight', 'done']);
    expect([peer.isEnded(), bed.session.isBusy()]).toEqual([true, false]);
  });

  it('closes its streams also when the rest of its end fails, which is told', async () => {
    const { session } = makeSessionBed({ end: () => Promise.reject(new Error('stuck')) });
    const listener = makePeer('GET');
    session.channel.openListener(listener.res, false);
    await expect(session.close()).rejects.toThrow('stuck');
    await settle();
    expect(listener.isEnded()).toBe(true);
  });

  it('cuts the files on their way to its client, and forgets what has arrived', async () => {
    const { session } = makeSessionBed();
    const [arrived, gone, open] = [makePeer(), makePeer(), makePeer()];
    gone.leave();
    await settle();
    for (const { res } of [arrived, gone, open]) session.hold(res);
    arrived.res.end();
    await settle();
    const destroyed = [arrived, gone, open].map(({ res }) => vi.spyOn(res, 'destroy'));
    await session.close();
    expect(destroyed.map((spy) => spy.mock.calls.length)).toEqual([0, 0, 1]);
    expect(open.isCut()).toBe(true);
  });
});
