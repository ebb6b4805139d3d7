import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { makeChannelBed, seen } from './channel-bed.ts';
import { fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

const progress = 'notifications/progress';
const changed = 'notifications/tools/list_changed';
const noted = 'notifications/message';

describe('a POST with one request', () => {
  it('gets its answer on a stream of its own, which ends with it and names the session', async () => {
    const bed = makeChannelBed();
    const [one, two] = [bed.post([1]), bed.post([2])];
    expect([bed.channel.inFlight, bed.channel.isBusy, bed.channel.has('1')]).toEqual([2, true, true]);
    bed.answer(2, 'b');
    await settle();
    expect([seen(one), seen(two), one.isEnded(), two.isEnded()]).toEqual([[], [2], false, true]);
    bed.answer(1, 'a');
    await settle();
    expect([seen(one), one.isEnded()]).toEqual([[1], true]);
    expect(one.head()).toMatch(/content-type: text\/event-stream\r\n/);
    expect(one.head()).toMatch(/cache-control: no-cache, no-transform\r\n/);
    expect(one.head()).toMatch(/x-accel-buffering: no\r\n/);
    expect(one.head()).toMatch(/mcp-session-id: the-session\r\n/);
    expect([bed.channel.inFlight, bed.channel.isBusy, bed.channel.has('1')]).toEqual([0, false, false]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('gets the progress before the answer, in the order in which it was told', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1], { token: 't' });
    bed.notify(progress, 't');
    bed.notify(progress, 't');
    bed.answer(1);
    // Nobody is there any more to be told.
    bed.notify(progress, 't');
    await settle();
    expect(seen(peer)).toEqual([progress, progress, 1]);
  });

  it('first learns where it stands and when to come back, if it knows such events', async () => {
    const bed = makeChannelBed();
    const [primed, plain] = [bed.post([1], { isPrimed: true }), bed.post([2])];
    bed.answer(1);
    bed.answer(2);
    await settle();
    expect(primed.events()).toEqual([
      { id: '1-1', retry: '1000', data: '' },
      { event: 'message', id: '1-3', data: '{"jsonrpc":"2.0","id":1,"result":{}}' },
    ]);
    expect(plain.events()).toEqual([{ event: 'message', id: '2-4', data: '{"jsonrpc":"2.0","id":2,"result":{}}' }]);
  });

  it('finds its answer under any spelling of its id, and a number is not a text', async () => {
    const bed = makeChannelBed();
    const [number, text] = [bed.post([1]), bed.post(['1'])];
    expect([bed.channel.has('1.0'), bed.channel.has('"2"')]).toEqual([true, false]);
    bed.channel.answer('1e0', ['{"id":1e0}']);
    bed.channel.answer('"\\u0031"', ['{"id":"1"}']);
    await settle();
    expect([seen(number), seen(text)]).toEqual([[1], ['1']]);
  });

  it('gets nothing that answers nobody', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1]);
    bed.channel.answer(undefined, ['{"id":null}']);
    bed.channel.answer('2', ['{"id":2}']);
    bed.channel.answer('"__proto__"', ['{}']);
    bed.answer(1);
    bed.answer(1);
    await settle();
    expect(seen(peer)).toEqual([1]);
    expect(bed.logged).toEqual(Array.from({ length: 4 }, () => 'answer without a request dropped'));
    expect(bed.answered).toEqual([['tools/call', true]]);
  });
});

describe('a POST with several requests', () => {
  it('gets each answer as it comes, and ends with the last one', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1, '1', 2]);
    expect(bed.channel.inFlight).toBe(3);
    bed.answer('1');
    await settle();
    expect([seen(peer), peer.isEnded(), bed.channel.inFlight]).toEqual([['1'], false, 2]);
    bed.answer(2);
    bed.answer(1);
    await settle();
    expect([seen(peer), peer.isEnded(), bed.channel.inFlight]).toEqual([['1', 2, 1], true, 0]);
  });

  it('ends when the last one without an answer is withdrawn', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1, 2]);
    bed.answer(1);
    bed.channel.drop('2');
    await settle();
    expect([seen(peer), peer.isEnded(), bed.channel.inFlight]).toEqual([[1], true, 0]);
  });
});

describe('a withdrawn request', () => {
  it('has its stream ended without an answer, also when one comes later', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1]);
    bed.channel.drop('1.0');
    bed.channel.drop('1');
    bed.channel.drop('7');
    bed.answer(1);
    await settle();
    expect([seen(peer), peer.isEnded(), bed.channel.inFlight, bed.answered]).toEqual([[], true, 0, []]);
  });
});

describe('a client that goes away', () => {
  it('keeps its call, which counts as undelivered and does not keep the session busy', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1]);
    vi.advanceTimersByTime(20);
    peer.leave();
    await settle();
    expect([bed.channel.isBusy, bed.channel.inFlight, bed.abandoned()]).toEqual([false, 1, 0]);
    bed.answer(1);
    expect([bed.answered, bed.channel.inFlight]).toEqual([[['tools/call', false]], 0]);
  });

  it('before it has the answer to initialize ends the session, and not after that', async () => {
    const [bed, gone] = [makeChannelBed(), makeChannelBed()];
    const peer = bed.post([1], { method: 'initialize' });
    bed.answer(1);
    await settle();
    peer.leave();
    gone.post([1], { method: 'initialize' }).leave();
    await settle();
    expect([seen(peer), bed.abandoned(), gone.abandoned()]).toEqual([[1], 0, 1]);
  });

  it('with the answer to initialize on its way ends the session as well', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1], { method: 'initialize' });
    peer.read(false);
    bed.answer(1);
    await settle();
    expect(bed.abandoned()).toBe(0);
    peer.leave();
    await settle();
    expect(bed.abandoned()).toBe(1);
  });
});

describe('a message without a request of its own', () => {
  it.each([progress, changed, noted])('goes to the only call that runs: %s', async (method) => {
    const bed = makeChannelBed();
    const [listener, call] = [bed.listen(), bed.post([1])];
    expect(bed.notify(method, 'unknown')).toBe(true);
    await settle();
    expect([seen(listener), seen(call)]).toEqual([[], [method]]);
  });

  it('goes to who listens when no call or several run', async () => {
    const bed = makeChannelBed();
    const listener = bed.listen();
    bed.notify(noted);
    const calls = [bed.post([1]), bed.post([2])];
    bed.notify(changed);
    await settle();
    expect([seen(listener), ...calls.map(seen)]).toEqual([[noted, changed], [], []]);
  });

  it('goes to the newest open call when several run and nobody listens', async () => {
    const bed = makeChannelBed();
    const [old, middle, young] = [bed.post([1]), bed.post([2]), bed.post([3])];
    young.leave();
    await settle();
    bed.notify(noted);
    await settle();
    expect([seen(old), seen(middle)]).toEqual([[], [noted]]);
  });

  it('goes to who listens when the client of the only call is gone', async () => {
    const bed = makeChannelBed();
    const [listener, call] = [bed.listen(), bed.post([1])];
    vi.advanceTimersByTime(20);
    call.leave();
    await settle();
    bed.notify(noted);
    await settle();
    expect(seen(listener)).toEqual([noted]);
  });

  it('is kept for the only call whose client is gone and may come back, where nobody listens', async () => {
    const bed = makeChannelBed();
    const call = bed.post([1], { isPrimed: true });
    vi.advanceTimersByTime(20);
    call.leave();
    await settle();
    // A change of lists concerns whoever comes next.
    for (const method of [noted, changed]) expect(bed.notify(method)).toBe(true);
    const [listener, back] = [bed.listen(), bed.listen('1-1')];
    vi.advanceTimersByTime(20);
    await settle();
    expect([seen(listener), seen(back)]).toEqual([[changed], [noted]]);
  });

  it('goes with its token to its call and to no other one, whoever listens', async () => {
    const bed = makeChannelBed();
    const [listener, one, two] = [bed.listen(), bed.post([1], { token: 1 }), bed.post([2], { token: '1' })];
    bed.notify(progress, 1);
    bed.notify(progress, '1');
    // Only progress has a token.
    bed.notify(noted, 1);
    await settle();
    expect([seen(one), seen(two), seen(listener)]).toEqual([[progress], [progress], [noted]]);
  });
});

describe('a change notice that nobody could be told of', () => {
  it('waits for the next who listens, once each kind', async () => {
    const bed = makeChannelBed();
    const resources = 'notifications/resources/list_changed';
    for (const method of [changed, resources, changed, noted]) expect(bed.notify(method)).toBe(true);
    const [first, second] = [bed.listen(), bed.listen()];
    await settle();
    expect([seen(first), seen(second)]).toEqual([[changed, resources], []]);
  });

  it('is gone with the session', async () => {
    const bed = makeChannelBed();
    bed.notify(changed);
    bed.channel.close();
    expect(bed.notify(changed)).toBe(false);
    const late = bed.listen();
    await settle();
    expect(seen(late)).toEqual([]);
  });
});

describe('a question of the child', () => {
  it('goes to the newest call whose client is there, rather than to who only listens', async () => {
    const bed = makeChannelBed();
    const [listener, old, young] = [bed.listen(), bed.post([1]), bed.post([2])];
    expect(bed.ask('q1')).toBe(true);
    young.leave();
    await settle();
    expect(bed.ask('q2')).toBe(true);
    await settle();
    expect([seen(listener), seen(old)]).toEqual([[], ['sampling/createMessage']]);
    vi.advanceTimersByTime(20);
    old.leave();
    await settle();
    expect(bed.ask('q3')).toBe(true);
    await settle();
    expect(listener.messages()).toEqual([{ id: 'q3', method: 'sampling/createMessage' }]);
  });

  it('cannot be put where nobody is there, and is not kept', async () => {
    const bed = makeChannelBed();
    expect(bed.ask('q')).toBe(false);
    const peer = bed.post([1]);
    peer.leave();
    await settle();
    expect(bed.ask('q')).toBe(false);
    const listener = bed.listen();
    await settle();
    expect(seen(listener)).toEqual([]);
  });
});

describe('what the server itself asks', () => {
  it('goes to who listens, and nowhere else', async () => {
    const bed = makeChannelBed();
    const call = bed.post([1]);
    bed.channel.ask(['{"id":"p1","method":"ping"}']);
    const listener = bed.listen();
    bed.channel.ask(['{"id":"p2","method":"ping"}']);
    await settle();
    expect([seen(call), listener.messages()]).toEqual([[], [{ id: 'p2', method: 'ping' }]]);
  });
});

describe('a listener', () => {
  it('is told at once that it is heard, and where it stands if it knows such events', async () => {
    const bed = makeChannelBed();
    const first = bed.listen(undefined, true);
    expect(bed.channel.hasListener).toBe(true);
    vi.advanceTimersByTime(20);
    const second = bed.listen();
    vi.advanceTimersByTime(20);
    await settle();
    expect([first.events(), second.body()]).toEqual([[{ id: '0-1', retry: '1000', data: '' }], ':\n\n']);
  });

  it('ends an older one, and gets what that one would have got', async () => {
    const bed = makeChannelBed();
    const [old, young] = [bed.listen(), bed.listen()];
    bed.notify(noted);
    await settle();
    expect([old.isEnded(), seen(old), seen(young), bed.channel.hasListener]).toEqual([true, [], [noted], true]);
    young.leave();
    await settle();
    expect(bed.channel.hasListener).toBe(false);
  });
});

describe('a channel that is closed', () => {
  it('ends all streams, whatever runs on them, and can be closed again', async () => {
    const bed = makeChannelBed();
    const peers = [bed.listen(), bed.post([1]), bed.post([2, 3])];
    bed.answer(2);
    bed.channel.close();
    bed.channel.close();
    await settle();
    expect(peers.map((peer) => peer.isEnded())).toEqual([true, true, true]);
    expect([bed.channel.inFlight, bed.channel.hasListener, bed.channel.isBusy]).toEqual([0, false, false]);
    bed.answer(1);
    bed.channel.ask(['{}']);
    expect([bed.notify(noted), bed.ask('q')]).toEqual([false, false]);
    await settle();
    expect(peers.map(seen)).toEqual([[], [], [2]]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a client that does not read', () => {
  it('is cut where it lags when 64 MiB wait for it, and the others are left alone', async () => {
    const bed = makeChannelBed({ replay: { maxEvents: 0, maxBytes: 0 } });
    const [lagging, good] = [bed.post([1, 2]), bed.post([3, 4])];
    bed.answer(3);
    lagging.read(false);
    bed.channel.answer('1', [Buffer.alloc(67_108_864, 0x61)]);
    await settle();
    expect([lagging.isCut(), bed.logged]).toEqual([false, []]);
    bed.answer(4);
    await settle();
    expect([lagging.isCut(), good.isCut(), seen(good)]).toEqual([true, false, [3, 4]]);
    expect(bed.logged).toEqual(['client cut off']);
    bed.answer(2);
    expect(bed.answered.at(-1)).toEqual(['tools/call', false]);
  });

  it('is counted by what is sent to it', () => {
    const bed = makeChannelBed();
    bed.channel.openExchange(makePeer().res, [{ idText: '1', method: 'a', progressToken: undefined }], false);
    bed.channel.answer('1', ['é']);
    expect(bed.sentBytes()).toBe(Buffer.byteLength('event: message\nid: 1-2\ndata: é\n\n'));
  });
});
