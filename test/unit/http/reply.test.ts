import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import { refuse, refuseRaw, replyJson } from '../../../src/http/reply.ts';
import { finishRequest, makeAnswer, makeRequest } from './http-bed.ts';

const full = new BridgeError('sessions_full', 'All 32 sessions are open.', {
  hint: 'Raise --http-session-max.',
  data: { retryAfterSeconds: 4.2 },
});

async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

function bodyOf(sent: string): unknown {
  return JSON.parse(sent.slice(sent.indexOf('\r\n\r\n') + 4));
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a refusal', () => {
  it('is a JSON-RPC error with our code, the way to mend it and the id of the request', async () => {
    const { res, sent, isEnded } = makeAnswer(makeRequest(['Content-Length', '0']));
    refuse(res, full, { idText: '"a"', headers: { allow: 'POST' } });
    await settle();
    expect(sent()).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/);
    const names = ['content-type: application/json', 'cache-control: no-store', 'retry-after: 5', 'allow: POST'];
    for (const header of names) expect(sent()).toContain(`${header}\r\n`);
    expect(bodyOf(sent())).toEqual({
      jsonrpc: '2.0',
      id: 'a',
      error: {
        code: -32016,
        message: 'All 32 sessions are open.',
        data: { reason: 'sessions_full', hint: 'Raise --http-session-max.', retryAfterSeconds: 4.2 },
      },
    });
    expect(isEnded()).toBe(true);
  });

  it('has a null id when the request has none, and says how to authenticate when that is what is missing', async () => {
    const { res, sent } = makeAnswer(makeRequest());
    refuse(res, new BridgeError('unauthorized', 'no token'));
    await settle();
    expect(bodyOf(sent())).toMatchObject({ id: null, error: { data: { reason: 'unauthorized' } } });
    expect(sent()).toContain('www-authenticate: Bearer\r\n');
    expect(sent()).not.toContain('retry-after');
  });

  it('keeps the connection, but not for somebody without a token', async () => {
    const [known, stranger] = [makeAnswer(makeRequest()), makeAnswer(makeRequest())];
    refuse(known.res, full);
    refuse(stranger.res, new BridgeError('unauthorized', 'no token'));
    await settle();
    expect(known.sent()).toMatch(/connection: keep-alive/i);
    expect(stranger.sent()).toMatch(/connection: close/i);
  });

  it('is not sent after another answer', async () => {
    const { res, sent } = makeAnswer(makeRequest());
    replyJson(res, 200, { ok: true });
    refuse(res, full);
    await settle();
    expect(sent()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(bodyOf(sent())).toEqual({ ok: true });
  });

  it('is not sent to a client that is gone', async () => {
    const { res, sent } = makeAnswer(makeRequest());
    res.destroy();
    refuse(res, full);
    await settle();
    expect(sent()).toBe('');
  });
});

describe('a request whose body was not read', () => {
  it.each([
    ['up to 64 KiB', ['Content-Length', '65536'], false],
    ['of one byte more', ['Content-Length', '65537'], true],
    ['of unknown length', ['Transfer-Encoding', 'chunked'], true],
    ['that waits for our permission', ['Content-Length', '10', 'Expect', '100-continue'], true],
  ])('keeps its connection only if the body is small: %s', async (_what, headers, isClosed) => {
    const { res, sent, isEnded } = makeAnswer(makeRequest(headers));
    refuse(res, full);
    await settle();
    expect(sent().includes('connection: close')).toBe(isClosed);
    expect(isEnded()).toBe(!isClosed);
  });

  it('of a client that wants its connection closed is read first, or the answer would be lost to a reset', async () => {
    const req = makeRequest(['Content-Length', '10', 'Connection', 'close']);
    const { res, sent, isEnded } = makeAnswer(req);
    res.shouldKeepAlive = false;
    refuse(res, full);
    await settle();
    expect([sent().includes('sessions_full'), isEnded()]).toEqual([true, false]);
    finishRequest(req);
    await settle();
    expect(isEnded()).toBe(true);
  });

  it('is read to its end before the connection is closed, the whole answer being out before', async () => {
    const req = makeRequest(['Transfer-Encoding', 'chunked']);
    const { res, sent, isEnded } = makeAnswer(req);
    refuse(res, full);
    req.push('x'.repeat(100_000));
    await settle(1000);
    expect(bodyOf(sent())).toMatchObject({ error: { data: { reason: 'sessions_full' } } });
    expect(isEnded()).toBe(false);
    finishRequest(req);
    await settle();
    expect(isEnded()).toBe(true);
  });

  it('is read no longer than two seconds', async () => {
    const { res, isEnded } = makeAnswer(makeRequest(['Transfer-Encoding', 'chunked']));
    refuse(res, full);
    await settle(1999);
    expect(isEnded()).toBe(false);
    await settle(1);
    expect(isEnded()).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves no timer when its client goes', async () => {
    const req = makeRequest(['Transfer-Encoding', 'chunked']);
    refuse(makeAnswer(req).res, full);
    req.destroy();
    await settle();
    expect(vi.getTimerCount()).toBe(0);
  });
});

it('answers without a request in the same shape, and ends the connection', async () => {
  const channel = new PassThrough();
  refuseRaw(channel, new BridgeError('headers_too_large', 'too long'));
  await settle();
  const sent = String(channel.read());
  expect(sent).toMatch(/^HTTP\/1\.1 431 Request Header Fields Too Large\r\n/);
  expect(sent).toContain('Connection: close\r\n');
  expect(bodyOf(sent)).toMatchObject({ jsonrpc: '2.0', id: null, error: { data: { reason: 'headers_too_large' } } });
  expect(channel.writableEnded).toBe(true);
});
