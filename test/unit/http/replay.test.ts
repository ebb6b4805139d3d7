import { describe, expect, it } from 'vitest';

import { Replay } from '../../../src/http/replay.ts';
import { type Frame, lengthOf } from '../../../src/http/sse-frame.ts';

const roomy = { maxEvents: 100, maxBytes: 100_000 };
const idOf = (frame: Frame): string => /^id: (.*)$/m.exec(Buffer.concat(frame).toString())?.[1] ?? '';
const dataOf = (frame: Frame): string => /^data: (.*)$/m.exec(Buffer.concat(frame).toString())?.[1] ?? '';

/** What a client that comes back with this id is told; undefined when it is refused. */
function missed(replay: Replay, eventId: string): [number, ...string[]] | undefined {
  const found = replay.after(eventId);
  return found === undefined ? undefined : [found.stream, ...found.frames.map(dataOf)];
}

describe('what came after an event', () => {
  it('is all of the same stream and nothing of the others, in order', () => {
    const replay = new Replay(roomy);
    const [one, two] = [replay.open(1), replay.open(2)];
    const frames = [replay.add(1, ['a']), replay.add(2, ['b']), replay.add(1, ['c']), replay.add(2, ['d'])];
    expect(missed(replay, one)).toEqual([1, 'a', 'c']);
    expect(missed(replay, two)).toEqual([2, 'b', 'd']);
    expect(frames.map((frame) => missed(replay, idOf(frame)))).toEqual([[1, 'c'], [2, 'd'], [1], [2]]);
    // A second look finds the same.
    expect(missed(replay, one)).toEqual([1, 'a', 'c']);
  });

  it('is told of a stream that was opened anew as well', () => {
    const replay = new Replay(roomy);
    const first = replay.open(0);
    replay.add(0, ['a']);
    const second = replay.open(0);
    expect(second).not.toBe(first);
    replay.add(0, ['b']);
    expect([missed(replay, first), missed(replay, second)]).toEqual([
      [0, 'a', 'b'],
      [0, 'b'],
    ]);
  });

  it('is not told in part, also when the stream was opened anew since', () => {
    const replay = new Replay({ ...roomy, maxEvents: 1 });
    const start = replay.open(0);
    for (const text of ['a', 'b']) replay.add(0, [text]);
    replay.open(0);
    expect(missed(replay, start)).toBeUndefined();
  });

  it('is never told for an id that was not given, whatever it is', () => {
    const replay = new Replay(roomy);
    replay.open(1);
    replay.add(1, ['a']);
    const wrong = ['', '1', '1-', '-1', '1-1-1', '1-3', '1-999999999999999', '2-1', '0-1', ' 1-1', '1-1\n', '1-1e0'];
    const worse = [
      '1--1',
      '+1-1',
      '1-0x1',
      `1-${'9'.repeat(400)}`,
      `${'9'.repeat(16)}-1`,
      '__proto__-1',
      'a-b',
      '1-1;',
    ];
    expect([...wrong, ...worse].filter((id) => replay.after(id) !== undefined)).toEqual([]);
    expect(missed(replay, '1-1')).toEqual([1, 'a']);
    expect(missed(replay, '1-2')).toEqual([1]);
  });
});

describe('what is kept', () => {
  it('is so many events of all streams together, the oldest going first', () => {
    const replay = new Replay({ ...roomy, maxEvents: 2 });
    const [one, two] = [replay.open(1), replay.open(2)];
    const a = replay.add(1, ['a']);
    replay.add(2, ['b']);
    expect(missed(replay, one)).toEqual([1, 'a']);
    replay.add(2, ['c']);
    expect(missed(replay, one)).toBeUndefined();
    // Who got the dropped one has missed nothing.
    expect(missed(replay, idOf(a))).toEqual([1]);
    expect(missed(replay, two)).toEqual([2, 'b', 'c']);
  });

  it('is so many bytes, exactly', () => {
    const bytes = lengthOf(new Replay(roomy).add(1, ['aaaa']));
    const replay = new Replay({ ...roomy, maxBytes: 2 * bytes });
    const start = replay.open(1);
    const first = replay.add(1, ['aaaa']);
    replay.add(1, ['bbbb']);
    expect(replay.bytes).toBe(2 * bytes);
    expect(missed(replay, start)).toEqual([1, 'aaaa', 'bbbb']);
    replay.add(1, ['c']);
    expect(replay.bytes).toBe(2 * bytes - 3);
    expect([missed(replay, start), missed(replay, idOf(first))]).toEqual([undefined, [1, 'bbbb', 'c']]);
  });

  it('is nothing where the limit is 0', () => {
    const replay = new Replay({ ...roomy, maxEvents: 0 });
    const start = replay.open(1);
    expect(missed(replay, start)).toEqual([1]);
    const frame = replay.add(1, ['a']);
    expect([missed(replay, start), missed(replay, idOf(frame)), replay.bytes]).toEqual([undefined, [1], 0]);
  });

  it('of an event over the limit is its substitute, under the same id, and it is sent as it is', () => {
    const bytes = lengthOf(new Replay(roomy).add(1, ['aaaa']));
    const replay = new Replay({ ...roomy, maxBytes: bytes });
    const start = replay.open(1);
    const fitting = replay.add(1, ['aaaa'], () => ['too much']);
    expect(missed(replay, start)).toEqual([1, 'aaaa']);
    const large = replay.add(1, ['aaaaa'], () => ['b']);
    expect(dataOf(large)).toBe('aaaaa');
    expect(missed(replay, idOf(fitting))).toEqual([1, 'b']);
    expect(idOf(replay.after(idOf(fitting))?.frames[0] ?? [])).toBe(idOf(large));
  });

  it('of an event over the limit without a substitute is that it is missing', () => {
    const replay = new Replay({ ...roomy, maxBytes: 60 });
    const start = replay.open(1);
    const large = replay.add(1, ['a'.repeat(60)]);
    expect([missed(replay, start), missed(replay, idOf(large)), replay.bytes]).toEqual([undefined, [1], 0]);
  });
});

describe('a stream that is finished', () => {
  it('is known as long as something of it is kept', () => {
    const replay = new Replay({ ...roomy, maxEvents: 2 });
    const one = replay.open(1);
    const last = replay.add(1, ['a']);
    replay.finish(1);
    expect([missed(replay, one), missed(replay, idOf(last))]).toEqual([[1, 'a'], [1]]);
    replay.open(2);
    for (const text of ['b', 'c']) replay.add(2, [text]);
    expect([missed(replay, one), missed(replay, idOf(last))]).toEqual([undefined, undefined]);
  });

  it('is forgotten at once when nothing of it is kept, as that of a withdrawn request', () => {
    const replay = new Replay(roomy);
    const one = replay.open(1);
    replay.finish(1);
    expect(missed(replay, one)).toBeUndefined();
  });

  it('and not one that still runs is forgotten with its last event', () => {
    const replay = new Replay({ ...roomy, maxEvents: 1 });
    replay.open(1);
    const a = replay.add(1, ['a']);
    replay.open(2);
    replay.add(2, ['b']);
    expect(missed(replay, idOf(a))).toEqual([1]);
    replay.add(1, ['c']);
    expect(missed(replay, idOf(a))).toEqual([1, 'c']);
  });

  it('takes no harm from being told twice, or of one that was never opened', () => {
    const replay = new Replay({ ...roomy, maxEvents: 1 });
    for (const text of ['a', 'b']) replay.add(0, [text]);
    replay.finish(9);
    replay.finish(9);
    const start = replay.open(0);
    replay.add(0, ['c']);
    expect(missed(replay, start)).toEqual([0, 'c']);
  });

  it('leaves nothing behind, however many there were', () => {
    const replay = new Replay({ maxEvents: 4, maxBytes: 1000 });
    const starts: string[] = [];
    for (let stream = 1; stream <= 10_000; stream += 1) {
      starts.push(replay.open(stream));
      // Some are answered, some withdrawn, some too large to be kept.
      if (stream % 3 === 0) replay.add(stream, ['x'.repeat(2000)]);
      else if (stream % 3 === 1) replay.add(stream, ['x']);
      replay.finish(stream);
    }
    expect(starts.filter((id) => replay.after(id) !== undefined).length).toBeLessThanOrEqual(4);
    expect(replay.bytes).toBeLessThanOrEqual(1000);
  });
});

describe('a stream on which nothing is to be had', () => {
  it('is one that is finished, for who has its last event, and no other', () => {
    const replay = new Replay(roomy);
    const start = replay.open(1);
    const last = idOf(replay.add(1, ['a']));
    expect([start, last].map((id) => replay.isOver(id))).toEqual([false, false]);
    replay.finish(1);
    expect([start, last, '1-99', '2-1', 'x', ''].map((id) => replay.isOver(id))).toEqual([
      false,
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  it('is one that was withdrawn, and nothing of it is kept', () => {
    const replay = new Replay(roomy);
    const start = replay.open(1);
    const [a] = [replay.add(1, ['a']), replay.open(2)];
    const bytes = replay.bytes;
    replay.add(2, ['b']);
    replay.withdraw(1);
    expect([start, idOf(a)].map((id) => [replay.isOver(id), missed(replay, id)])).toEqual([
      [true, undefined],
      [true, undefined],
    ]);
    expect(replay.bytes).toBe(bytes);
    expect(missed(replay, '2-3')).toEqual([2, 'b']);
    expect(replay.isOver('2-3')).toBe(false);
  });

  it('gives its room to others when it was withdrawn', () => {
    const replay = new Replay({ ...roomy, maxEvents: 2 });
    replay.open(1);
    replay.add(1, ['a']);
    replay.withdraw(1);
    const start = replay.open(2);
    const frames = ['b', 'c'].map((text) => replay.add(2, [text]));
    expect(missed(replay, start)).toEqual([2, 'b', 'c']);
    expect(replay.bytes).toBe(frames.reduce((sum, frame) => sum + lengthOf(frame), 0));
  });
});
