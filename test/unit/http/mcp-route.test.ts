import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { ClientBody } from '../../../src/http/client-message.ts';
import type { HttpSession } from '../../../src/http/http-session.ts';
import { McpRoute, type McpRouteParts } from '../../../src/http/mcp-route.ts';
import type { Registry } from '../../../src/session/registry.ts';
import { type HttpSessionBed, makeSessionBed } from './http-session-bed.ts';
import { type Peer, type RequestParts, fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

const postHeaders = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
const ours = { 'mcp-session-id': 'the-session' };
const call = (id: unknown = 1): string => JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call' });
const initialize = (params: unknown = { protocolVersion: '2025-11-25' }): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 'i', method: 'initialize', params });

interface Bed extends HttpSessionBed {
  /** What the registry and the opening of sessions were asked, in order. */
  readonly log: string[];
  readonly refused: string[];
  readonly received: number[];
  /** Serves a request; the code with which it throws, if it does. */
  send(method: string, parts?: RequestParts, owner?: string): Promise<{ peer: Peer; thrown: string | undefined }>;
  serve(peer: Peer): Promise<void>;
  post(body: string, headers?: Record<string, string>): Promise<{ peer: Peer; thrown: string | undefined }>;
}

function makeBed(some: Partial<McpRouteParts> = {}): Bed {
  const bed = makeSessionBed();
  const [log, refused, received]: [string[], string[], number[]] = [[], [], []];
  const registry = {
    find: (id: string, owner: string) => {
      const isKnown = id === 'the-session' && owner === 'owner' && !log.includes('end deleted');
      return isKnown ? bed.session : undefined;
    },
    touch: () => log.push('touch'),
    end: async (_session: HttpSession, reason: string) => {
      log.push(`end ${reason}`);
      await settle();
      log.push('gone');
    },
  };
  const route = new McpRoute({
    registry: registry as unknown as Registry<HttpSession>,
    maxBodyBytes: 1000,
    maxCalls: 2,
    open: (owner) => {
      log.push(`open ${owner}`);
      return bed.session;
    },
    prepare: (body) => ({ ...body, line: Buffer.from('prepared') }),
    onReceived: (bytes) => received.push(bytes),
    onRefused: ({ code }) => refused.push(code),
    ...some,
  });
  const serve: Bed['serve'] = async (peer) => {
    await route.handle(peer.req, peer.res, 'owner');
    await settle();
  };
  const send: Bed['send'] = async (method, parts, owner = 'owner') => {
    const peer = makePeer(method, parts);
    const thrown = await route.handle(peer.req, peer.res, owner).then(
      () => undefined,
      (failure: unknown) => (failure instanceof BridgeError ? failure.code : String(failure)),
    );
    await settle();
    return { peer, thrown };
  };
  const post: Bed['post'] = (body, headers = ours) => send('POST', { body, headers: { ...postHeaders, ...headers } });
  return Object.assign(bed, { log, refused, received, serve, send, post });
}

describe('a POST of a session', () => {
  it('is passed on and answered on its stream, and keeps the session alive', async () => {
    const bed = makeBed();
    const { peer } = await bed.post(call());
    expect([bed.lines, bed.log, bed.received]).toEqual([[call()], ['touch'], [call().length]]);
    bed.session.channel.answer('1', ['{"id":1}']);
    await settle();
    expect([peer.status(), peer.messages(), peer.isEnded()]).toEqual([200, [{ id: 1 }], true]);
    expect(peer.head()).toMatch(/content-type: text\/event-stream/);
  });

  it('without a request is taken with 202 and nothing in it', async () => {
    const bed = makeBed();
    const { peer } = await bed.post('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    expect([peer.status(), peer.body(), peer.isEnded(), bed.log]).toEqual([202, '', true, ['touch']]);
    expect(peer.head()).toMatch(/content-length: 0/);
  });

  it.each([
    ['2025-11-25', 'id: 1-1\nretry: 1000\ndata: \n\n'],
    ['2025-06-18', ':\n\n'],
    ['2025-03-26', ':\n\n'],
    ['2024-11-05', ':\n\n'],
  ])('of a client of %s begins with %j', async (version, first) => {
    const { peer } = await makeBed().post(call(), { ...ours, 'mcp-protocol-version': version });
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe(first);
  });

  it.each(['2023-01-01', '', '2025-11-25, 2025-11-25'])('of a client of %j is refused by its id', async (version) => {
    const bed = makeBed();
    const { peer } = await bed.post(call(), { ...ours, 'mcp-protocol-version': version });
    expect([peer.status(), peer.json()['id']]).toEqual([400, 1]);
    expect([bed.refused, bed.lines, bed.log]).toEqual([['protocol_version'], [], []]);
  });

  it('with initialize is refused, since it has begun', async () => {
    const bed = makeBed();
    const { peer } = await bed.post(initialize());
    expect([peer.status(), peer.json()['id'], bed.refused]).toEqual([400, 'i', ['invalid_request']]);
    expect(bed.log).toEqual([]);
  });

  it('with an id that still runs, or twice the same, is refused', async () => {
    const bed = makeBed();
    await bed.post(call(1));
    const { peer } = await bed.post(call(1).replace('1', '1.0'));
    expect([peer.status(), peer.json()]).toMatchObject([
      400,
      { id: 1, error: { data: { reason: 'invalid_request' } } },
    ]);
    await bed.post(`[${call('a')},${call('a')}]`);
    expect(bed.refused).toEqual(['invalid_request', 'invalid_request']);
    expect([bed.lines, bed.session.channel.inFlight]).toEqual([[call(1)], 1]);
    // A number is not a text, and an id can be used again.
    await bed.post(call('1'));
    bed.session.channel.drop('1');
    await bed.post(call(1));
    expect(bed.lines).toEqual([call(1), call('1'), call(1)]);
  });

  it('is refused for a while beyond so many calls at once', async () => {
    const bed = makeBed();
    await bed.post(`[${call(1)},${call(2)}]`);
    const { peer } = await bed.post(call(3));
    expect([peer.status(), peer.json()['id'], bed.refused]).toEqual([429, 3, ['calls_full']]);
    expect(peer.head()).toMatch(/retry-after: 1\r\n/);
    // What is no request still passes, and the next one when an answer has come.
    expect((await bed.post('{"jsonrpc":"2.0","method":"a"}')).peer.status()).toBe(202);
    bed.session.channel.answer('1', ['{}']);
    await bed.post(call(3));
    expect(bed.lines.at(-1)).toBe(call(3));
    expect((await makeBed().post(`[${call(1)},${call(2)},${call(3)}]`)).peer.status()).toBe(429);
  });

  it('is refused for a while when the child has 64 MiB to read, unless it reads all that it gets', async () => {
    const bed = makeBed({ maxCalls: 10 });
    const notice = '{"jsonrpc":"2.0","method":"a"}';
    bed.unreadBytes = 67_108_864 - notice.length;
    expect((await bed.post(notice)).peer.status()).toBe(202);
    bed.unreadBytes += 1;
    const { peer } = await bed.post(call());
    expect([peer.status(), peer.json()['id'], bed.refused, bed.lines]).toEqual([429, 1, ['calls_full'], [notice]]);
    expect(peer.head()).toMatch(/retry-after: 1\r\n/);
    expect((await bed.post(notice)).peer.status()).toBe(429);
    bed.unreadBytes = 0;
    expect((await bed.post(notice)).peer.status()).toBe(202);
  });

  it('of another owner, or of no session, is refused before its body is read', async () => {
    const bed = makeBed();
    for (const [headers, owner] of [
      [ours, 'other'],
      [{ 'mcp-session-id': 'unknown' }, 'owner'],
      [{ 'mcp-session-id': '' }, 'owner'],
      [{ 'mcp-session-id': 'the-session'.padEnd(257, 'x') }, 'owner'],
    ] as const) {
      const { thrown } = await bed.send('POST', { headers: { ...postHeaders, ...headers }, body: call() }, owner);
      expect(thrown).toBe('session_unknown');
    }
    expect([bed.received, bed.lines]).toEqual([[], []]);
  });

  it('whose session ends while its body comes is refused', async () => {
    const bed = makeBed();
    const posted = bed.post(call());
    bed.log.push('end deleted');
    const { peer } = await posted;
    expect([peer.status(), peer.json()['id'], bed.refused, bed.lines]).toEqual([404, 1, ['session_unknown'], []]);
  });

  it.each([
    [{ accept: 'application/json' }, 'not_acceptable'],
    [{ accept: 'text/event-stream' }, 'not_acceptable'],
    [{ accept: '' }, 'not_acceptable'],
    [{ 'content-type': 'text/plain' }, 'media_type'],
    [{ 'content-length': '1001' }, 'message_too_large'],
    [{ 'content-encoding': 'gzip' }, 'media_type'],
  ])('with %j is refused before its body is read', async (headers, code) => {
    const bed = makeBed();
    const { thrown } = await bed.post('no JSON', { ...ours, ...headers });
    expect([thrown, bed.received]).toEqual([code, []]);
  });

  it('that is no message is refused', async () => {
    const bed = makeBed();
    expect((await bed.post('{')).thrown).toBe('parse_error');
    expect((await bed.post('[]')).thrown).toBe('invalid_request');
    expect([bed.lines, bed.received]).toEqual([[], [1, 2]]);
  });
});

describe('a POST without a session', () => {
  it('opens one with initialize, which goes on as it was prepared', async () => {
    const bed = makeBed();
    const { peer } = await bed.post(initialize(), {});
    expect([bed.log, bed.lines]).toEqual([['open owner'], ['prepared']]);
    bed.session.channel.answer('"i"', ['{"id":"i"}']);
    await settle();
    expect([peer.status(), peer.messages()]).toEqual([200, [{ id: 'i' }]]);
    expect(peer.head()).toMatch(/mcp-session-id: the-session\r\n/);
    expect(peer.body()).toMatch(/^id: 1-1\nretry: 1000\n/);
  });

  it('is told nothing about streams that a client of its revision does not know, whatever its header says', async () => {
    for (const protocolVersion of ['2025-06-18', 7, undefined]) {
      const bed = makeBed();
      const { peer } = await bed.post(initialize({ protocolVersion }), { 'mcp-protocol-version': '2025-11-25' });
      vi.advanceTimersByTime(20);
      await settle();
      expect(peer.body()).toBe(':\n\n');
    }
  });

  it.each([
    call(),
    '{"jsonrpc":"2.0","method":"initialize","params":{}}',
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    `[${call()}]`,
  ])('is refused for anything else: %s', async (body) => {
    const bed = makeBed();
    const { peer } = await bed.post(body, {});
    expect([peer.status(), bed.refused, bed.log, bed.lines]).toEqual([400, ['session_missing'], [], []]);
  });

  it.each(['7', 'null', '[]', '"x"'])('is refused with the params %s', async (params) => {
    const bed = makeBed();
    const { peer } = await bed.post(initialize(JSON.parse(params)), {});
    expect([peer.status(), peer.json()['id'], bed.refused, bed.log]).toEqual([400, 'i', ['invalid_request'], []]);
  });

  it('is refused by its id as whoever opens sessions says', async () => {
    const full = new BridgeError('sessions_full', 'All taken.', { data: { retryAfterSeconds: 4.2 } });
    const bed = makeBed({
      open: () => {
        throw full;
      },
    });
    const { peer } = await bed.post(initialize(), {});
    expect([peer.status(), peer.json()['id'], bed.refused]).toEqual([503, 'i', ['sessions_full']]);
    expect(peer.head()).toMatch(/retry-after: 5\r\n/);
  });

  it('opens nothing when it cannot be written again, as one that is nested too deeply', async () => {
    const prepare = (body: ClientBody): ClientBody => ({ ...body, line: Buffer.from(JSON.stringify(body.messages)) });
    const bed = makeBed({ prepare, maxBodyBytes: 1_000_000 });
    const body = initialize({ deep: 0 }).replace('0}', `${'['.repeat(50_000)}${']'.repeat(50_000)}}`);
    const { peer, thrown } = await bed.post(body, {});
    expect([thrown, peer.status(), peer.json()['id']]).toEqual([undefined, 400, 'i']);
    expect([bed.refused, bed.log]).toEqual([['invalid_request'], []]);
  });

  it('does not take a failure of ours for one of the client', async () => {
    const bed = makeBed({
      open: () => {
        throw new Error('a bug');
      },
    });
    expect((await bed.post(initialize(), {})).thrown).toBe('Error: a bug');
  });
});

describe('a GET', () => {
  const events = { accept: 'text/event-stream' };

  it('listens, and the session is taken for used when it begins', async () => {
    const bed = makeBed();
    const { peer } = await bed.send('GET', { headers: { ...ours, ...events } });
    expect([bed.session.hasStream(), bed.log]).toEqual([true, ['touch']]);
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe(':\n\n');
  });

  it.each([
    ['2025-11-25', 'id: 0-1\nretry: 1000\ndata: \n\n'],
    ['2025-06-18', ':\n\n'],
  ])('of a client of %s begins with %j', async (version, first) => {
    const bed = makeBed();
    const headers = { ...ours, ...events, 'mcp-protocol-version': version, 'last-event-id': '' };
    const { peer } = await bed.send('GET', { headers });
    vi.advanceTimersByTime(20);
    await settle();
    expect(peer.body()).toBe(first);
  });

  it('with the id of an event goes on behind it, or is refused', async () => {
    const bed = makeBed();
    await bed.post(call(), { ...ours, 'mcp-protocol-version': '2025-11-25' });
    bed.session.channel.answer('1', ['{"id":1}']);
    const { peer } = await bed.send('GET', { headers: { ...ours, ...events, 'last-event-id': '1-1' } });
    expect([peer.body(), peer.isEnded()]).toEqual(['event: message\nid: 1-2\ndata: {"id":1}\n\n', true]);
    const primed = { ...ours, ...events, 'mcp-protocol-version': '2025-11-25', 'last-event-id': '1-1' };
    expect((await bed.send('GET', { headers: primed })).peer.body()).toMatch(/^id: 1-1\nretry: 1000\n/);
    const gone = await bed.send('GET', { headers: { ...ours, ...events, 'last-event-id': '1-99' } });
    expect(gone.thrown).toBe('replay_gone');
  });

  it.each([
    [{}, 'session_missing'],
    [{ 'mcp-session-id': 'unknown', accept: 'x', 'mcp-protocol-version': 'x' }, 'session_unknown'],
    [{ ...ours, accept: 'x', 'mcp-protocol-version': 'x' }, 'protocol_version'],
    [{ ...ours, accept: 'application/json' }, 'not_acceptable'],
    [ours, 'not_acceptable'],
  ])('with %j is refused: %s', async (headers, code) => {
    const bed = makeBed();
    expect([(await bed.send('GET', { headers })).thrown, bed.session.hasStream()]).toEqual([code, false]);
  });
});

describe('a DELETE', () => {
  it('is answered when all of the session is gone, and needs no media types', async () => {
    const bed = makeBed();
    const peer = makePeer('DELETE', { headers: ours });
    const end = vi.spyOn(peer.res, 'end').mockImplementationOnce(() => {
      bed.log.push('answered');
      return peer.res.end();
    });
    await bed.serve(peer);
    expect(end).toHaveBeenCalledTimes(2);
    expect([bed.log, peer.status(), peer.body(), peer.isEnded()]).toEqual([
      ['touch', 'end deleted', 'gone', 'answered'],
      200,
      '',
      true,
    ]);
    expect((await bed.send('DELETE', { headers: ours })).thrown).toBe('session_unknown');
  });

  it('of another owner, or without a session, ends nothing', async () => {
    const bed = makeBed();
    expect((await bed.send('DELETE', { headers: ours }, 'other')).thrown).toBe('session_unknown');
    expect((await bed.send('DELETE')).thrown).toBe('session_missing');
    expect((await bed.send('DELETE', { headers: { ...ours, 'mcp-protocol-version': 'x' } })).thrown).toBe(
      'protocol_version',
    );
    expect(bed.log).not.toContain('end deleted');
  });
});
