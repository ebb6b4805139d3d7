import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';

import { BridgeError } from '../../src/core/errors.ts';
import { readBody } from '../../src/http/body.ts';
import { refuse, replyJson } from '../../src/http/reply.ts';
import { closeListeners, openListener, shortLimits } from '../support/listener-bed.ts';
import { RawConnection, reasonOf } from '../support/raw-connection.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

const get = 'GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n';

function post(body: string, ...headers: string[]): string {
  const lines = ['POST /mcp HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`, ...headers];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

async function echoBody(req: IncomingMessage, res: ServerResponse): Promise<void> {
  replyJson(res, 200, (await readBody(req, 1000)).toString());
}

afterEach(closeListeners);

describe('listening', () => {
  it('names an address that works', async () => {
    for (const host of ['127.0.0.1', 'localhost', '0.0.0.0']) {
      const { url, port } = await openListener(undefined, { host });
      expect(url).toBe(`http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`);
      expect(await (await fetch(`${url}/x`)).json()).toEqual({ method: 'GET', path: '/x' });
    }
  });

  it('on a port that is in use fails with its address and the setting, and leaves the other alone', async () => {
    const first = await openListener();
    const second = openListener(undefined, { port: first.port });
    await expect(second).rejects.toMatchObject({
      code: 'listen_failed',
      message: `Cannot listen on 127.0.0.1 port ${first.port}: the port is in use.`,
      hint: expect.stringContaining('--http-port'),
    });
    expect((await fetch(first.url)).status).toBe(200);
  });

  it('on an address of another computer, or a name that is none, fails with the setting', async () => {
    // 192.0.2.0/24 and .invalid are reserved and never belong to anybody (RFC 5737, RFC 2606).
    for (const host of ['192.0.2.1', 'no-such-host.invalid']) {
      await expect(openListener(undefined, { host })).rejects.toMatchObject({
        code: 'listen_failed',
        message: expect.stringContaining(host),
        hint: expect.stringContaining('--http-host'),
      });
    }
  });

  it('again on the same port is possible as soon as the first one is closed', async () => {
    const first = await openListener();
    const connection = await first.connect();
    connection.send(get);
    await connection.answer();
    await first.listener.close();
    expect((await openListener(undefined, { port: first.port })).port).toBe(first.port);
  });
});

describe('a request that cannot be served', () => {
  it('because the server failed is answered without what went wrong, which is logged', async () => {
    for (const fail of [failAtOnce, failLater]) {
      const { url, logged, refused } = await openListener(fail);
      const answer = await fetch(`${url}/a?token=secret`);
      const text = await answer.text();
      expect([answer.status, reasonOf({ body: text })]).toEqual([500, 'internal']);
      expect(text).not.toContain('inner');
      expect(logged).toEqual([
        { level: 'error', event: 'request failed', fields: { method: 'GET', path: '/a', reason: 'inner detail' } },
      ]);
      expect(refused).toEqual(['internal']);
    }
  });

  it('because it is refused is answered with that refusal', async () => {
    const { url, logged, refused } = await openListener(() => {
      throw new BridgeError('http_path', 'Nothing is there.');
    });
    const answer = await fetch(url);
    expect([answer.status, reasonOf({ body: await answer.text() })]).toEqual([404, 'http_path']);
    expect([logged, refused]).toEqual([[], ['http_path']]);
  });

  it('because it fails in the middle of its answer is cut off', async () => {
    const { connect, logged } = await openListener((_req, res) => {
      res.writeHead(200).write('begun');
      throw new Error('inner');
    });
    const received = await (await connect()).send(get).ended();
    // Without the last chunk no client takes it for the whole answer.
    expect(received).not.toContain('\r\n0\r\n');
    expect(logged).toMatchObject([{ event: 'request failed', fields: { reason: 'inner' } }]);
  });
});

it('a request without Host is left to the guards, which refuse it in our shape', async () => {
  const { connect } = await openListener();
  const connection = await connect();
  connection.send('GET /a HTTP/1.1\r\n\r\n');
  expect((await connection.answer()).status).toBe(200);
});

describe('a body that is not read', () => {
  it.each([5, 50])('of %i MB does not keep its client from reading the refusal', async (megabytes) => {
    // Sending takes its time on a busy machine, and the limit on it is not what is looked at here.
    const limits = { ...shortLimits, headerTimeoutMs: 30_000, bodyTimeoutMs: 30_000 };
    const serve = (_req: IncomingMessage, res: ServerResponse): void => {
      refuse(res, new BridgeError('message_too_large', 'too long'));
    };
    const { url, listener } = await openListener(serve, { limits });
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const answer = await fetch(url, { method: 'POST', body: 'x'.repeat(megabytes * 1_000_000) });
      expect([answer.status, reasonOf({ body: await answer.text() })]).toEqual([413, 'message_too_large']);
    }
    await waitUntil('no connection', () => (listener.connections === 0 ? true : undefined));
  });

  it('does not keep one from reading the refusal who reads only after everything was sent', async () => {
    const limits = { ...shortLimits, headerTimeoutMs: 30_000, bodyTimeoutMs: 30_000 };
    const serve = (_req: IncomingMessage, res: ServerResponse): void => {
      refuse(res, new BridgeError('message_too_large', 'too long'));
    };
    const connection = await (await openListener(serve, { limits })).connect();
    connection.socket.pause();
    const sent = new Promise((resolve) => connection.socket.write(post('x'.repeat(20_000_000)), resolve));
    expect(await withDeadline('the body to be sent', sent)).toBeFalsy();
    connection.socket.resume();
    expect((await connection.answer()).status).toBe(413);
  });

  it('costs no connection when it is small', async () => {
    const { connect } = await openListener((_req, res) => {
      refuse(res, new BridgeError('session_unknown', 'unknown'));
    });
    const connection = await connect();
    for (let attempt = 0; attempt < 3; attempt += 1) {
      connection.send(post('x'.repeat(1000)));
      expect((await connection.answer()).status).toBe(404);
    }
  });
});

describe('a client that waits with its body', () => {
  it('sends it when it is wanted', async () => {
    const { connect } = await openListener(echoBody);
    const connection = await connect();
    connection.send(post('', 'Expect: 100-continue').replace('Length: 0', 'Length: 2'));
    await connection.sees('HTTP/1.1 100 Continue\r\n\r\n');
    connection.send('{}');
    expect(await connection.answer()).toMatchObject({ status: 100 });
    expect(await connection.answer()).toMatchObject({ status: 200, body: '"{}"' });
  });

  it('never sends one that is refused', async () => {
    const { connect } = await openListener(echoBody);
    const connection = await connect();
    connection.send(post('', 'Expect: 100-continue').replace('Length: 0', 'Length: 1001'));
    const answer = await connection.answer();
    expect([answer.status, reasonOf(answer)]).toEqual([413, 'message_too_large']);
    connection.socket.end();
    await connection.ended();
  });

  it('is served although it expects something that nobody knows', async () => {
    const { connect } = await openListener(echoBody);
    const connection = await connect();
    connection.send(post('{}', 'Expect: something'));
    expect(await connection.answer()).toMatchObject({ status: 200, body: '"{}"' });
  });
});

describe('a request for another protocol', () => {
  it('WebSocket is answered as the plain request that it is', async () => {
    const { connect } = await openListener((_req, res) => {
      refuse(res, new BridgeError('session_missing', 'missing'));
    });
    const connection = await connect();
    const wanted = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='];
    connection.send(get.replace('\r\n\r\n', `\r\n${wanted.join('\r\n')}\r\nSec-WebSocket-Version: 13\r\n\r\n`));
    const answer = await connection.answer();
    expect([answer.status, reasonOf(answer)]).toEqual([400, 'session_missing']);
  });

  it('HTTP/2 in clear text, which some clients offer with every request, is passed over', async () => {
    const { connect } = await openListener(echoBody);
    const connection = await connect();
    const offer = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk'];
    for (let attempt = 0; attempt < 2; attempt += 1) {
      connection.send(post('{"a":1}', ...offer));
      expect(await connection.answer()).toMatchObject({ status: 200, body: '"{\\"a\\":1}"' });
    }
  });

  it.each([
    ['HTTP/2 at once', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'invalid_request'],
    ['TLS', Buffer.from('16030100f1010000ed0303', 'hex'), 400, 'invalid_request'],
    ['a proxy', 'CONNECT evil.test:443 HTTP/1.1\r\nHost: localhost\r\n\r\n', 405, 'http_method'],
    ['an unknown method', 'BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n', 400, 'invalid_request'],
    ['two lengths', post('{}', 'Content-Length: 3'), 400, 'invalid_request'],
    ['a length and chunks', post('{}', 'Transfer-Encoding: chunked'), 400, 'invalid_request'],
    ['a length that is none', post('').replace('Length: 0', 'Length: +5'), 400, 'invalid_request'],
    ['a coding that is none', post('{}', 'Transfer-Encoding: xchunked').replace(/Content-L.*\r\n/, ''), 400, ''],
    ['a header without name', get.replace('Host', ': x\r\nHost'), 400, 'invalid_request'],
    ['a space before the colon', get.replace('Host:', 'Host :'), 400, 'invalid_request'],
  ])('%s is refused in our shape, and its connection closed', async (_what, bytes, status, reason) => {
    const { connect, listener, refused } = await openListener(echoBody);
    const connection = await connect();
    connection.send(bytes);
    const answer = await connection.answer();
    const code = reason === '' ? 'invalid_request' : reason;
    expect([answer.status, reasonOf(answer), refused]).toEqual([status, code, [code]]);
    expect(answer.headers.get('connection')).toBe('close');
    await connection.ended();
    connection.close();
    await waitUntil('no connection', () => (listener.connections === 0 ? true : undefined));
  });
});

describe('closing', () => {
  it('takes no new connection, serves the open ones, and cuts an open stream after a second', async () => {
    let pending: ServerResponse | undefined;
    const { listener, port, connect } = await openListener((req, res) => {
      if (req.url === '/a') {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      } else pending = res;
    });
    const [stream, call, idle] = [await connect(), await connect(), await connect()];
    stream.send(get);
    call.send(get.replace('/a', '/call'));
    await stream.sees('data: 1');
    await waitUntil('the call', () => pending);
    listener.stopAccepting();
    await expect(RawConnection.open(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });

    const begin = performance.now();
    const closing = listener.close();
    expect(listener.close()).toBe(closing);
    await idle.ended(500);
    if (pending !== undefined) replyJson(pending, 200, 'late');
    expect(await call.answer(500)).toMatchObject({ status: 200, body: '"late"' });
    await call.ended(500);
    expect(stream.isEnded).toBe(false);
    await withDeadline('the close', closing);
    expect(performance.now() - begin).toBeGreaterThan(900);
    expect(performance.now() - begin).toBeLessThan(2500);
    await stream.ended();
    expect(listener.connections).toBe(0);
  });

  it('is done at once when nothing is open, and is harmless before and after', async () => {
    const { listener, connect } = await openListener();
    const connection = await connect();
    connection.send(get);
    await connection.answer();
    const begin = performance.now();
    await listener.close();
    await listener.close();
    listener.stopAccepting();
    expect(performance.now() - begin).toBeLessThan(500);
  });

  it('tells clients with their next answer to connect anew', async () => {
    const pending: ServerResponse[] = [];
    const { listener, connect } = await openListener((_req, res) => void pending.push(res));
    const connection = await connect();
    connection.send(get);
    await waitUntil('the first call', () => pending[0]);
    listener.stopAccepting();
    connection.send(get);
    await waitUntil('the second call', () => pending[1]);
    for (const res of pending) replyJson(res, 200, {});
    expect((await connection.answer()).headers.get('connection')).toBe('keep-alive');
    expect((await connection.answer()).headers.get('connection')).toBe('close');
    await connection.ended();
  });
});

function failAtOnce(): void {
  throw new Error('inner detail');
}

async function failLater(): Promise<void> {
  await new Promise(setImmediate);
  throw new Error('inner detail');
}
