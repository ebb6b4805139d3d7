import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Frame } from '../../../src/http/sse-frame.ts';
import { SseStream, type StreamLimits } from '../../../src/http/sse-stream.ts';
import { type Peer, fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

interface Bed {
  readonly peer: Peer;
  readonly stream: SseStream;
  /** What `onClosed` was told, each time. */
  readonly closed: boolean[];
}

function open(first?: Frame, limits: Partial<StreamLimits> = {}, peer = makePeer()): Bed {
  const closed: boolean[] = [];
  const stream = new SseStream({
    res: peer.res,
    headers: { 'content-type': 'text/event-stream' },
    first,
    limits: { keepAliveMs: 1000, writeTimeoutMs: 30_000, ...limits },
    onClosed: (isComplete) => void closed.push(isComplete),
  });
  return { peer, stream, closed };
}

const frame = (text: string): Frame => [Buffer.from(text)];

describe('a stream that has nothing to say yet', () => {
  it('is opened after 20 ms with a comment, so that proxies pass its headers on', async () => {
    const { peer } = open();
    vi.advanceTimersByTime(19);
    await settle();
    expect(peer.head()).toBe('');
    vi.advanceTimersByTime(1);
    await settle();
    expect(peer.head()).toMatch(/^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream\r\n/);
    expect(peer.body()).toBe(':\n\n');
  });

  it('is opened with its first frame in place of the comment', async () => {
    const { peer } = open(frame('first'));
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe('first');
  });

  it('is opened with a comment also when its first frame is empty, as after a break in which nothing was missed', async () => {
    const { peer } = open([], { keepAliveMs: 0 });
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe(':\n\n');
  });

  it('gets a comment each time that the setting says, and none when that is 0', async () => {
    const [{ peer }, quiet] = [open(frame('a')), open(frame('a'), { keepAliveMs: 0 })];
    vi.advanceTimersByTime(20 + 999);
    await settle();
    expect(peer.body()).toBe('a');
    vi.advanceTimersByTime(1);
    await settle();
    expect(peer.body()).toBe('a:\n\n');
    vi.advanceTimersByTime(2000);
    await settle();
    expect(peer.body()).toBe('a:\n\n:\n\n:\n\n');
    expect(quiet.peer.body()).toBe('a');
  });
});

describe('an event', () => {
  it('opens the stream at once, behind the first frame and without a comment', async () => {
    const { peer, stream } = open(frame('first,'));
    stream.write(frame('second'));
    await settle();
    expect(peer.body()).toBe('first,second');
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe('first,second');
    stream.write([Buffer.from(',third'), Buffer.from(' and'), Buffer.from(' fourth')]);
    await settle();
    expect(peer.body()).toBe('first,second,third and fourth');
    expect(stream.isOpen).toBe(true);
  });

  it('of several pieces comes in order among others while the peer lags', async () => {
    const { peer, stream } = open();
    peer.read(false);
    stream.write([Buffer.alloc(100_000, 0x61), Buffer.alloc(100_000, 0x62)]);
    stream.write(frame('c'));
    stream.end(frame('d'));
    peer.read(true);
    await settle();
    // Not compared as a whole: a difference would fill the report.
    expect(peer.body().replaceAll(/a{100000}b{100000}/g, 'large')).toBe('largecd');
    expect(peer.isEnded()).toBe(true);
  });
});

describe('the last event', () => {
  it('that comes before anything was sent leaves with headers and length in one piece', async () => {
    const { peer, stream, closed } = open(frame('first,'));
    stream.end([Buffer.from('la'), Buffer.from('st')]);
    await settle();
    expect(peer.head()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(peer.head()).toMatch(/content-type: text\/event-stream\r\n/);
    expect(peer.head()).toMatch(/content-length: 10\b/i);
    expect(peer.head()).not.toMatch(/chunked/i);
    expect(peer.body()).toBe('first,last');
    await settle();
    expect(closed).toEqual([true]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('may be none', async () => {
    const { peer, stream } = open();
    stream.end();
    await settle();
    expect(peer.head()).toMatch(/content-length: 0\b/i);
    await settle();
    expect([peer.body(), peer.isEnded()]).toEqual(['', true]);
  });

  it('ends a stream that is open, and nothing comes after it', async () => {
    const { peer, stream, closed } = open(frame('a'));
    stream.write(frame('b'));
    stream.end(frame('c'));
    expect(stream.isOpen).toBe(false);
    stream.write(frame('d'));
    stream.end(frame('e'));
    vi.advanceTimersByTime(5000);
    await settle();
    expect([peer.body(), peer.isEnded()]).toEqual(['abc', true]);
    expect(closed).toEqual([true]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is not taken for delivered when the peer goes before it was handed to the system', async () => {
    const { peer, stream, closed } = open();
    peer.read(false);
    stream.end(frame('last'));
    await settle();
    expect(closed).toEqual([]);
    peer.leave();
    await settle();
    expect(closed).toEqual([false]);
  });
});

describe('a peer', () => {
  it('that goes closes the stream once, and what is sent later is dropped', async () => {
    const { peer, stream, closed } = open(frame('a'));
    vi.advanceTimersByTime(20);
    await settle();
    peer.leave();
    await settle();
    expect([stream.isOpen, closed]).toEqual([false, [false]]);
    expect(vi.getTimerCount()).toBe(0);
    stream.write(frame('b'));
    stream.end(frame('c'));
    await settle();
    expect([peer.body(), closed]).toEqual(['a', [false]]);
  });

  it('that was gone already is told after the stream was made, and leaves no timer', async () => {
    const peer = makePeer();
    peer.res.destroy();
    await settle();
    const { stream, closed } = open(undefined, {}, peer);
    expect(closed).toEqual([]);
    await settle();
    expect([stream.isOpen, closed]).toEqual([false, [false]]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('whose connection fails in the middle of a write throws nowhere', async () => {
    const { peer } = open();
    expect(peer.res.emit('error', new Error('reset'))).toBe(true);
  });

  it('that takes nothing is cut off when the time for it is over, and not while it takes something', async () => {
    const { peer, stream, closed } = open();
    peer.read(false);
    stream.write(frame('a'));
    await settle();
    stream.write(frame('bcd'));
    await settle();
    expect(stream.unread).toBeGreaterThan(3);
    expect(peer.timeoutMs()).toBe(30_000);
    peer.read(true);
    await settle();
    expect(stream.unread).toBe(0);
    peer.res.emit('timeout');
    expect([peer.isCut(), stream.isOpen]).toEqual([false, true]);
    peer.read(false);
    stream.write(frame('e'));
    await settle();
    stream.write(frame('f'));
    await settle();
    expect(peer.res.listenerCount('timeout')).toBe(1);
    peer.res.emit('timeout');
    await settle();
    expect([peer.isCut(), closed]).toEqual([true, [false]]);
  });

  it('that takes nothing of an answer in one piece is cut off as well', async () => {
    const { peer, stream, closed } = open();
    peer.read(false);
    stream.end(frame('last'));
    expect(peer.timeoutMs()).toBe(30_000);
    peer.res.emit('timeout');
    await settle();
    expect([peer.isCut(), closed]).toEqual([true, [false]]);
  });

  it('can be cut off', async () => {
    const { peer, stream, closed } = open();
    stream.write(frame('a'));
    stream.destroy();
    await settle();
    expect([peer.isCut(), stream.isOpen, closed]).toEqual([true, false, [false]]);
  });
});
