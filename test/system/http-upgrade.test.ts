import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';

import type { UpgradeRoute } from '../../src/http/listener-upgrade.ts';
import { closeListeners, openListener, shortLimits, type ListenerBed } from '../support/listener-bed.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

afterEach(closeListeners);

/** Answers with all that a request was: what an upgrade changes would show. */
function tell(req: IncomingMessage, res: ServerResponse): void {
  let body = '';
  req.setEncoding('utf8').on('data', (part: string) => {
    body += part;
  });
  req.on('end', () => {
    const { method, url, headers } = req;
    const { upgrade: _upgrade, connection: _connection, 'http2-settings': _settings, ...others } = headers;
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ method, url, others, body }));
  });
}

const taken: string[] = [];
const upgrades: UpgradeRoute = {
  handles: (path) => path.startsWith('/cdp/'),
  upgrade: (req, socket, head) => {
    taken.push(`${req.url} ${head.toString()}`);
    socket.end('HTTP/1.1 418 Taken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  },
};

const folder = join(import.meta.dirname, '../fixtures/tls');
const tls = { cert: join(folder, 'first-cert.pem'), key: join(folder, 'first-key.pem') };
const asking = 'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n';
const bodies: readonly (readonly [string, string])[] = [
  ['with its body in the same packet', 'Content-Length: 5\r\n\r\nhello'],
  ['with a body in chunks', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'],
  ['with a body of 100 kB', `Content-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`],
  ['without a body', 'Content-Length: 0\r\n\r\n'],
];

function request(extra: string, rest: string): string {
  return `POST /mcp?a=%20b HTTP/1.1\r\nHost: a\r\nX-Odd:  kept \r\nCookie: a=b\r\n${extra}${rest}`;
}

async function answersTo(bed: ListenerBed, texts: readonly string[]): Promise<string[]> {
  const connection = await bed.connect();
  connection.send(texts.join(''));
  const answers: string[] = [];
  for (const _text of texts) answers.push((await connection.answer()).body);
  return answers;
}

const websocket = 'GET /cdp/x?a=/cdp HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n';

describe('an upgrade request that nobody takes', () => {
  it.each(bodies)('%s is served as the plain request that it also is', async (_what, rest) => {
    const bed = await openListener(tell, { upgrades });
    const plain = await answersTo(bed, [request('', rest)]);
    expect(await answersTo(bed, [request(asking, rest)])).toEqual(plain);
    expect(plain[0]).toContain('"method":"POST"');
    expect(taken).toEqual([]);
  });

  it('waits for the answers to the requests before it', async () => {
    const serve = (req: IncomingMessage, res: ServerResponse): void => {
      setTimeout(tell, req.url === '/slow' ? 50 : 0, req, res);
    };
    const bed = await openListener(serve, { upgrades });
    const slow = 'GET /slow HTTP/1.1\r\nHost: a\r\n\r\n';
    const answers = await answersTo(bed, [slow, request(asking, 'Content-Length: 5\r\n\r\nhello')]);
    expect(answers).toEqual([expect.stringContaining('/slow'), expect.stringContaining('"body":"hello"')]);
  });

  it('leaves nothing on its connection, however often it comes', async () => {
    const counts: number[] = [];
    const serve = (req: IncomingMessage, res: ServerResponse): void => {
      counts.push(req.socket.eventNames().reduce((sum, name) => sum + req.socket.listenerCount(name), 0));
      tell(req, res);
    };
    const connection = await (await openListener(serve, { upgrades })).connect();
    for (let count = 0; count < 20; count += 1) {
      connection.send(request(asking, 'Content-Length: 5\r\n\r\nhello'));
      await connection.answer();
    }
    expect(counts[19]).toBe(counts[1]);
  });

  it('is one also where its query, or another host, only looks like a path that is taken', async () => {
    taken.length = 0;
    const bed = await openListener(tell, { upgrades });
    for (const target of ['/mcp?/cdp/', 'http://a/cdp/x', '/CDP/x', '//cdp/x', '/cdp']) {
      const [answer] = await answersTo(bed, [websocket.replace('/cdp/x?a=/cdp', target)]);
      expect(answer).toContain(`"url":"${target}"`);
    }
    expect(taken).toEqual([]);
  });

  it('is served when its body comes later, and so is what the connection is used for afterwards', async () => {
    const bed = await openListener(tell, { upgrades });
    const connection = await bed.connect();
    connection.send(request(asking, 'Content-Length: 5\r\n\r\n'));
    await new Promise((resolve) => setTimeout(resolve, 50));
    connection.send('hello');
    expect((await connection.answer()).body).toContain('"body":"hello"');
    for (const word of ['one', 'two']) {
      connection.send(request(asking, `Content-Length: 3\r\n\r\n${word}`));
      expect((await connection.answer()).body).toContain(`"body":"${word}"`);
    }
  });

  it('may expect to be told to go on', async () => {
    const bed = await openListener(tell, { upgrades });
    const connection = await bed.connect();
    connection.send(request(asking, 'Expect: 100-continue\r\nContent-Length: 5\r\n\r\n'));
    await new Promise((resolve) => setTimeout(resolve, 50));
    connection.send('hello');
    await waitUntil('an answer', () => (connection.received.includes('"body":"hello"') ? true : undefined));
  });

  it('is still held to the limit of its headers and of its time', async () => {
    const bed = await openListener(tell, { upgrades });
    const connection = await bed.connect();
    connection.send(request(asking, 'Content-Length: 5\r\n\r\nhel'));
    expect(await connection.ended(5000)).toContain('HTTP/1.1 408');
    const large = await bed.connect();
    large.send(request(`${asking}X: ${'x'.repeat(5000)}\r\n`, '\r\n'));
    expect(await large.ended()).toContain('HTTP/1.1 431');
  });

  it('ends with the listener', async () => {
    const bed = await openListener(() => undefined, { upgrades });
    const connection = await bed.connect();
    connection.send(request(asking, 'Content-Length: 0\r\n\r\n'));
    await waitUntil('the connection', () => (bed.listener.connections === 1 ? true : undefined));
    await bed.listener.close();
    await connection.ended();
    expect(bed.listener.connections).toBe(0);
  });

  it('is served over TLS as well', async () => {
    const bed = await openListener(tell, { protocol: 'https', tls, upgrades });
    const socket = connectTls({ port: bed.port, host: '127.0.0.1', rejectUnauthorized: false });
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
    });
    socket.on('error', () => undefined);
    socket.write(request(asking, 'Content-Length: 5\r\n\r\nhello'));
    await waitUntil('an answer', () => (received.includes('"body":"hello"') ? true : undefined));
    socket.write(request('', 'Content-Length: 3\r\n\r\ntwo'));
    await waitUntil('another one', () => (received.includes('"body":"two"') ? true : undefined));
    socket.destroy();
  });
});

describe('an upgrade request that is taken', () => {
  it('is not served as a request, and brings what came behind it', async () => {
    taken.length = 0;
    let served = 0;
    const bed = await openListener(() => void (served += 1), { upgrades });
    const connection = await bed.connect();
    connection.send(`${websocket}frames`);
    expect(await connection.ended()).toContain('418 Taken');
    expect([taken, served]).toEqual([['/cdp/x?a=/cdp frames'], 0]);
  });

  it('is held to the limits of headers and of their time', async () => {
    taken.length = 0;
    const bed = await openListener(tell, { upgrades });
    const [slow, large] = [await bed.connect(), await bed.connect()];
    slow.send(websocket.slice(0, -2));
    large.send(websocket.replace('Host: a', `X: ${'x'.repeat(5000)}`));
    expect(await large.ended()).toContain('HTTP/1.1 431');
    expect(await slow.ended(5000)).toContain('HTTP/1.1 408');
    expect(taken).toEqual([]);
  });

  it('may come on a connection that was used before, and has no time limit from then on', async () => {
    const keepAliveTimeoutMs = 200;
    const sockets: Duplex[] = [];
    const route = { ...upgrades, upgrade: (_req: unknown, socket: Duplex) => void sockets.push(socket) };
    const limits = { ...shortLimits, keepAliveTimeoutMs };
    const bed = await openListener(tell, { upgrades: route, limits });
    const connection = await bed.connect();
    connection.send(request('', 'Content-Length: 0\r\n\r\n'));
    await connection.answer();
    connection.send(websocket);
    const socket = await waitUntil('the upgrade', () => sockets[0]);
    // Longer than each limit, and than the second that Node adds to that of an idle connection.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    socket.write('still here');
    await connection.sees('still here');
  });

  it('breaks nothing when the requests before it have not been answered', async () => {
    const pending: ServerResponse[] = [];
    const route = {
      ...upgrades,
      upgrade: (_req: unknown, socket: Duplex) => void socket.on('end', () => socket.destroy()).resume(),
    };
    const bed = await openListener((_req, res) => void pending.push(res), { upgrades: route });
    const connection = await bed.connect();
    connection.send(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${websocket}frames`);
    const res = await waitUntil('the request', () => pending[0]);
    res.end('late');
    await connection.sees('late');
    connection.close();
    await waitUntil('no connection', () => (bed.listener.connections === 0 ? true : undefined));
    const next = (await bed.connect()).send('GET /next HTTP/1.1\r\nHost: a\r\n\r\n');
    (await waitUntil('the next request', () => pending[1])).end('served');
    await next.sees('served');
  });

  it.each(['http', 'https'] as const)('ends at once when the %s listener closes', async (protocol) => {
    const sockets: Duplex[] = [];
    const route = { ...upgrades, upgrade: (_req: unknown, socket: Duplex) => void sockets.push(socket) };
    const bed = await openListener(tell, { protocol, tls, upgrades: route });
    const client =
      protocol === 'http'
        ? connect({ port: bed.port, host: '127.0.0.1' })
        : connectTls({ port: bed.port, host: '127.0.0.1', rejectUnauthorized: false });
    client.on('error', () => undefined);
    client.write(websocket);
    const socket = await waitUntil('the upgrade', () => sockets[0]);
    bed.listener.stopAccepting();
    expect(socket.destroyed).toBe(false);
    const begin = performance.now();
    await bed.listener.close();
    expect(performance.now() - begin).toBeLessThan(500);
    expect(socket.destroyed).toBe(true);
    await waitUntil('no connection', () => (bed.listener.connections === 0 ? true : undefined));
    client.destroy();
  });
});

it('without anybody who takes upgrades they are served as ever', async () => {
  const bed = await openListener(tell);
  expect(await answersTo(bed, [request(asking, 'Content-Length: 5\r\n\r\nhello')])).toEqual([
    expect.stringContaining('"body":"hello"'),
  ]);
});

it('CONNECT is refused as ever', async () => {
  const connection = await (await openListener(tell, { upgrades })).connect();
  connection.send('CONNECT /cdp/x HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
  expect((await connection.answer()).status).toBe(405);
});

it('headers that only look like it are kept', async () => {
  const bed = await openListener(tell, { upgrades });
  const connection = await RawConnection.open(bed.port);
  connection.send(
    request(`Upgrade: h2c\r\nConnection: Upgrade, X-Odd, keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n`, '\r\n'),
  );
  const { body } = await connection.answer();
  expect(body).toContain('"upgrade-insecure-requests":"1"');
  expect(body).toContain('"x-odd":"kept"');
  connection.socket.destroy();
});
