import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type ChannelBed, lastId, makeChannelBed, seen } from './channel-bed.ts';
import { type Peer, fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

const progress = 'notifications/progress';
const changed = 'notifications/tools/list_changed';
const noted = 'notifications/message';
const gone = expect.objectContaining({ code: 'replay_gone', hint: expect.stringContaining('--http-replay-events') });

/** A call whose connection broke after its first event; the id of that event. */
async function breakCall(bed: ChannelBed, ids: readonly number[] = [1]): Promise<string> {
  const peer = bed.post(ids, { isPrimed: true, token: 't' });
  vi.advanceTimersByTime(20);
  await settle();
  peer.leave();
  await settle();
  return lastId(peer);
}

async function eventsOf(peer: Peer): Promise<unknown[]> {
  await settle();
  return seen(peer);
}

describe('a call whose connection broke', () => {
  it('is answered to the client that comes back before the answer', async () => {
    const bed = makeChannelBed();
    const eventId = await breakCall(bed);
    bed.notify(progress, 't');
    const back = bed.listen(eventId);
    expect(bed.channel.isBusy).toBe(true);
    bed.notify(progress, 't');
    bed.answer(1);
    expect(await eventsOf(back)).toEqual([progress, progress, 1]);
    expect([back.isEnded(), bed.channel.inFlight, bed.answered]).toEqual([true, 0, [['tools/call', true]]]);
    expect(back.head()).toMatch(/mcp-session-id: the-session\r\n/);
  });

  it('is answered to the client that comes back after the answer, as often as it comes', async () => {
    const bed = makeChannelBed();
    const eventId = await breakCall(bed);
    bed.notify(progress, 't');
    bed.answer(1);
    for (let time = 1; time <= 2; time += 1) {
      const back = bed.listen(eventId);
      expect(await eventsOf(back)).toEqual([progress, 1]);
      expect(back.isEnded()).toBe(true);
    }
  });

  it('goes on behind what the client has, also when the connection broke in the middle', async () => {
    const bed = makeChannelBed();
    const first = bed.post([1, 2], { isPrimed: true });
    bed.answer(1);
    await settle();
    const eventId = lastId(first);
    first.leave();
    await settle();
    bed.answer(2);
    const back = bed.listen(eventId);
    expect(await eventsOf(back)).toEqual([2]);
    expect(back.isEnded()).toBe(true);
  });

  it('answers a client that missed nothing with headers at once', async () => {
    const bed = makeChannelBed();
    const back = bed.listen(await breakCall(bed));
    vi.advanceTimersByTime(20);
    await settle();
    expect([back.head().slice(0, 15), back.body()]).toEqual(['HTTP/1.1 200 OK', ':\n\n']);
  });

  it('is told first where it stands again, if it knows such events: the next break may come at once', async () => {
    const bed = makeChannelBed();
    const eventId = await breakCall(bed);
    bed.notify(progress, 't');
    const back = bed.listen(eventId, true);
    vi.advanceTimersByTime(20);
    await settle();
    expect(back.events().slice(0, 2)).toMatchObject([{ id: eventId, retry: '1000', data: '' }, { event: 'message' }]);
    expect(back.events()).toHaveLength(2);
  });

  it('tells a client that has its last event not to come back', async () => {
    const bed = makeChannelBed();
    const peer = bed.post([1]);
    bed.answer(1);
    await settle();
    const back = bed.listen(lastId(peer));
    await settle();
    expect([back.status(), back.body(), back.isEnded()]).toEqual([204, '', true]);
  });

  it('belongs to the newest of two that come back, and ends for the other one', async () => {
    const bed = makeChannelBed();
    const eventId = await breakCall(bed);
    bed.notify(progress, 't');
    const [one, two] = [bed.listen(eventId), bed.listen(eventId)];
    bed.answer(1);
    await settle();
    expect([seen(one), one.isEnded(), seen(two), two.isEnded()]).toEqual([[progress], true, [progress, 1], true]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends on a connection that is open still when the client comes back on another one', async () => {
    const bed = makeChannelBed();
    const first = bed.post([1], { isPrimed: true });
    vi.advanceTimersByTime(20);
    await settle();
    const back = bed.listen(lastId(first));
    await settle();
    expect([first.isEnded(), bed.channel.isBusy]).toEqual([true, true]);
    bed.answer(1);
    await settle();
    expect([seen(first), seen(back)]).toEqual([[], [1]]);
  });

  it('can be withdrawn by the client that came back', async () => {
    const bed = makeChannelBed();
    const back = bed.listen(await breakCall(bed));
    bed.channel.drop('1');
    expect(await eventsOf(back)).toEqual([]);
    expect(back.isEnded()).toBe(true);
  });

  it('breaks again and is found again', async () => {
    const bed = makeChannelBed();
    const eventId = await breakCall(bed);
    const second = bed.listen(eventId);
    bed.notify(progress, 't');
    await settle();
    second.leave();
    await settle();
    expect(bed.channel.isBusy).toBe(false);
    bed.answer(1);
    const [third, fourth] = [bed.listen(lastId(second)), bed.listen(eventId)];
    expect([await eventsOf(third), await eventsOf(fourth)]).toEqual([[1], [progress, 1]]);
  });

  it('has an error in the place of an answer that was too large to be kept', async () => {
    const bed = makeChannelBed({ replay: { maxEvents: 10, maxBytes: 1000 } });
    const eventId = await breakCall(bed);
    bed.answer(1, 'x'.repeat(1000));
    const back = bed.listen(eventId);
    await settle();
    expect(back.messages()).toEqual([
      expect.objectContaining({ id: 1, error: expect.objectContaining({ data: expect.anything() }) }),
    ]);
    const [{ error } = {}] = back.messages();
    expect(error).toMatchObject({
      message: expect.stringMatching(/answer of 1036 bytes was too large/),
      data: { reason: 'replay_gone', hint: expect.stringContaining('--http-replay-bytes') },
    });
  });

  it('does not end the session when its client comes back for the answer to initialize', async () => {
    const bed = makeChannelBed();
    const first = bed.post([1], { method: 'initialize', isPrimed: true });
    vi.advanceTimersByTime(20);
    await settle();
    const back = bed.listen(lastId(first));
    bed.answer(1);
    await settle();
    back.leave();
    await settle();
    expect([seen(back), bed.abandoned()]).toEqual([[1], 0]);
  });
});

describe('a call that was withdrawn', () => {
  const comeBack = async (bed: ChannelBed, eventId: string): Promise<number> => {
    const back = bed.listen(eventId);
    await settle();
    return back.isEnded() ? back.status() : 0;
  };

  it('tells its client not to come back, whether anything was told before or not', async () => {
    const bed = makeChannelBed();
    const [quiet, told] = [await breakCall(bed, [1]), await breakCall(bed, [2])];
    bed.notify(progress, 't');
    bed.channel.drop('1');
    bed.channel.drop('2');
    expect([await comeBack(bed, quiet), await comeBack(bed, told)]).toEqual([204, 204]);
    expect(bed.channel.isBusy).toBe(false);
  });

  it('is remembered as one of the last hundred', async () => {
    const bed = makeChannelBed();
    for (let id = 1; id <= 101; id += 1) {
      bed.post([id], { isPrimed: true });
      bed.channel.drop(String(id));
    }
    expect(() => bed.listen('1-1')).toThrow(gone);
    expect([await comeBack(bed, '2-2'), await comeBack(bed, '101-101')]).toEqual([204, 204]);
  });

  it('does not take the answers of others in its batch with it', async () => {
    for (const withdrawFirst of [true, false]) {
      const bed = makeChannelBed();
      const eventId = await breakCall(bed, [1, 2]);
      if (withdrawFirst) bed.channel.drop('1');
      bed.answer(2);
      bed.channel.drop('1');
      const back = bed.listen(eventId);
      expect(await eventsOf(back)).toEqual([2]);
      expect([back.isEnded(), bed.channel.inFlight]).toEqual([true, 0]);
      expect(await comeBack(bed, lastId(back))).toBe(204);
    }
  });
});

describe('a client that comes back with an id', () => {
  it('of something that is no longer kept is refused, and nothing is sent or changed', async () => {
    const bed = makeChannelBed({ replay: { maxEvents: 1, maxBytes: 10_000 } });
    const eventId = await breakCall(bed);
    const listener = bed.listen();
    bed.notify(progress, 't');
    bed.notify(progress, 't');
    const late = makePeer('GET');
    expect(() => {
      bed.channel.resume(late.res, eventId, false);
    }).toThrow(gone);
    await settle();
    expect([late.head(), listener.isEnded(), bed.channel.inFlight]).toEqual(['', false, 1]);
  });

  it.each(['1-9', '9-1', 'garbage', '0-1', '1-1\r\nx: y', '-'])('that nobody gave is refused: %j', async (eventId) => {
    const bed = makeChannelBed();
    await breakCall(bed);
    expect(() => bed.listen(eventId)).toThrow(gone);
  });

  it('of another session finds nothing of that one', async () => {
    const [bed, other] = [makeChannelBed(), makeChannelBed()];
    const eventId = await breakCall(bed);
    bed.answer(1, 'secret');
    expect(() => other.listen(eventId)).toThrow(gone);
  });
});

describe('a listener whose connection broke', () => {
  it('gets what it missed and goes on listening', async () => {
    const bed = makeChannelBed();
    const first = bed.listen(undefined, true);
    bed.notify(noted);
    await settle();
    const eventId = lastId(first);
    first.leave();
    await settle();
    for (const method of [noted, changed]) bed.notify(method);
    const back = bed.listen(eventId);
    bed.notify(noted);
    expect(await eventsOf(back)).toEqual([noted, changed, noted]);
    expect([back.isEnded(), bed.channel.hasListener]).toEqual([false, true]);
  });

  it('is not told again by the next one of what it got when it came back', async () => {
    const bed = makeChannelBed();
    const first = bed.listen(undefined, true);
    vi.advanceTimersByTime(20);
    await settle();
    first.leave();
    await settle();
    bed.notify(changed);
    const [back, next] = [bed.listen(lastId(first)), bed.listen()];
    expect([await eventsOf(back), await eventsOf(next)]).toEqual([[changed], []]);
  });

  it('is told of a change by a new one where it does not say what it has', async () => {
    const bed = makeChannelBed();
    const first = bed.listen();
    vi.advanceTimersByTime(20);
    first.leave();
    await settle();
    bed.notify(changed);
    expect(await eventsOf(bed.listen())).toEqual([changed]);
  });

  it('ends the newer one when it comes back', async () => {
    const bed = makeChannelBed();
    const first = bed.listen(undefined, true);
    vi.advanceTimersByTime(20);
    await settle();
    const second = bed.listen();
    bed.notify(noted);
    const back = bed.listen(lastId(first));
    vi.advanceTimersByTime(20);
    await settle();
    expect([second.isEnded(), seen(back)]).toEqual([true, [noted]]);
  });

  it('gets headers at once when it missed nothing', async () => {
    const bed = makeChannelBed();
    const first = bed.listen(undefined, true);
    vi.advanceTimersByTime(20);
    await settle();
    const back = bed.listen(lastId(first));
    vi.advanceTimersByTime(20);
    await settle();
    expect(back.body()).toBe(':\n\n');
  });
});

it('a thousand calls leave nothing behind, answered, withdrawn or abandoned', async () => {
  const bed = makeChannelBed({ replay: { maxEvents: 4, maxBytes: 1000 } });
  for (let id = 1; id <= 1000; id += 1) {
    const peer = bed.post([id], { isPrimed: true });
    if (id % 3 === 0) peer.leave();
    if (id % 3 === 1) bed.channel.drop(String(id));
    else bed.answer(id, id % 3 === 0 ? 'x'.repeat(2000) : 'x');
    if (id % 100 === 0) await settle();
  }
  await settle();
  expect([bed.channel.inFlight, bed.channel.isBusy, vi.getTimerCount()]).toEqual([0, false, 0]);
  // Nothing lags: an answer that is sent looks at all streams that are not over.
  expect(bed.logged).toEqual([]);
});
