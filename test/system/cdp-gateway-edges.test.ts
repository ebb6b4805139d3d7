import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import { mintCapability } from '../../src/cdp/capability.ts';
import { askUrl, GatewayBed, type GatewayWish } from '../support/gateway-bed.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

const beds: GatewayBed[] = [];
const servers: Server[] = [];
const connections: RawConnection[] = [];

async function open(wish?: GatewayWish): Promise<GatewayBed> {
  const bed = await GatewayBed.open(wish);
  beds.push(bed);
  return bed;
}

async function connect(bed: GatewayBed): Promise<RawConnection> {
  const connection = await RawConnection.open(bed.lease.port);
  connections.push(connection);
  return connection;
}

/** Puts a program in the browser's place that answers over HTTP as it likes; returns what it was asked. */
async function replace(bed: GatewayBed, serve: RequestListener): Promise<IncomingMessage[]> {
  const seen: IncomingMessage[] = [];
  const server = createServer((req, res) => {
    seen.push(req);
    serve(req, res);
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  bed.door.stage({ generation: 2, port, browserId: 'b' });
  bed.door.publish();
  return seen;
}

afterEach(async () => {
  for (const connection of connections.splice(0)) connection.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  for (const bed of beds.splice(0)) await bed.close();
});

function head(bed: GatewayBed, rest: string, lines: readonly string[] = [], method = 'GET'): string {
  const own = [`Host: 127.0.0.1:${bed.lease.port}`, ...lines];
  return `${method} /cdp/${bed.door.capability ?? ''}${rest} HTTP/1.1\r\n${own.join('\r\n')}\r\n\r\n`;
}

function codeOf(text: string): string {
  return (JSON.parse(text) as { error: { code: string } }).error.code;
}

const h2c = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAEAAEAAAAIAAAAB'];

describe('a request that asks for HTTP/2 in passing, as Java does', () => {
  it('is answered as the plain request that it also is, and its connection ends', async () => {
    const bed = await open();
    const connection = await connect(bed);
    connection.send(head(bed, '/json/version', h2c));
    const answer = await connection.answer();
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close']);
    expect(JSON.parse(answer.body)).toMatchObject({ Browser: 'Fake/1.0' });
    await connection.ended();
    expect(Object.keys(bed.browser.requests[0]?.headers ?? {}).toSorted()).toEqual(['connection', 'host']);
  });

  it('is refused by the same rules in the same words', async () => {
    const bed = await open();
    const wrong = `GET /cdp/${mintCapability()} HTTP/1.1\r\nHost: x\r\n${h2c.join('\r\n')}\r\n\r\n`;
    for (const [text, code] of [
      [wrong, 'not_found'],
      [head(bed, '/json/version', [...h2c, 'Origin: https://evil.example']), 'origin_refused'],
      [head(bed, '/json/new', h2c), 'method_not_allowed'],
      [`${head(bed, '/json/new', [...h2c, 'Content-Length: 1'], 'PUT')}x`, 'body_not_allowed'],
      [head(bed, '', h2c), 'bad_request'],
    ] as const) {
      const connection = await connect(bed);
      connection.send(text);
      expect(codeOf((await connection.answer()).body)).toBe(code);
      await connection.ended();
    }
    expect(bed.browser.requests).toEqual([]);
  });

  it('ends nothing but its own connection when it comes behind one that still waits', async () => {
    const bed = await open();
    bed.browser.isSilent = true;
    const connection = await connect(bed);
    connection.send(head(bed, '/json/list') + head(bed, '/json/list', h2c));
    await connection.ended();
    bed.browser.isSilent = false;
    expect((await bed.ask('/json/list')).status).toBe(200);
  });

  it('asks nobody any more when its client goes', async () => {
    const bed = await open({ limits: { httpTimeoutMs: 60_000 } });
    bed.browser.isSilent = true;
    const connection = await connect(bed);
    connection.send(head(bed, '/json/list', h2c));
    await waitUntil('the question', () => (bed.browser.requests.length === 1 ? true : undefined));
    connection.close();
    await waitUntil('its end', () => (bed.browser.openSockets === 0 ? true : undefined));
  });
});

describe('a WebSocket', () => {
  it('is refused by the same rules as a request, in an answer of HTTP', async () => {
    const bed = await open();
    const asked = [
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    ];
    for (const [text, status, code] of [
      [head(bed, '/json/version', asked), 404, 'not_found'],
      [head(bed, '/nothing', asked), 404, 'not_found'],
      [head(bed, '', asked, 'PUT'), 400, 'bad_request'],
      [head(bed, '', [...asked, 'Origin: null']), 403, 'origin_refused'],
      [head(bed, '', ['Host: again', ...asked]), 403, 'host_refused'],
    ] as const) {
      const connection = await connect(bed);
      connection.send(text);
      const answer = await connection.answer();
      expect([answer.status, codeOf(answer.body)]).toEqual([status, code]);
      await connection.ended();
    }
    expect(bed.browser.upgrades).toEqual([]);
  });

  it('is told why when there are too many, and the next one is let in when one has gone', async () => {
    const bed = await open({ limits: { maxConnections: 2 } });
    const first = await bed.connect();
    await bed.connect();
    const third = await bed.connect();
    expect(await third.closed).toEqual({ code: 1013, reason: 'more than 2 connections' });
    expect(bed.refused).toEqual(['too_many_connections']);
    first.webSocket.close();
    await waitUntil('a free place', () => (bed.door.connections === 1 ? true : undefined));
    const fourth = await bed.connect();
    expect(await fourth.ask({ id: 1, method: 'Browser.getVersion' })).toMatchObject({ id: 1 });
  });
});

describe('places for requests', () => {
  it('are sixteen at once', async () => {
    const bed = await open({ limits: { httpMax: 16, httpTimeoutMs: 5000 } });
    const waiting: (() => void)[] = [];
    const seen = await replace(bed, (_req, res) => void waiting.push(() => res.end('[]')));
    const running = Array.from({ length: 16 }, () => bed.ask('/json/list'));
    await waitUntil('sixteen questions', () => (seen.length === 16 ? true : undefined));
    expect((await bed.ask('/json/list')).status).toBe(503);
    for (const answer of waiting) answer();
    expect(new Set((await Promise.all(running)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('are held until the answer is read, and a client that reads none of it is cut', async () => {
    const bed = await open({
      limits: { httpMax: 1, httpMaxBytes: 20_000_000, httpTimeoutMs: 10_000, stallTimeoutMs: 1000 },
    });
    const list = JSON.stringify([{ title: 'x'.repeat(12_000_000) }]);
    await replace(bed, (_req, res) => res.end(list));
    const connection = await connect(bed);
    connection.socket.once('data', () => connection.socket.pause());
    connection.send(head(bed, '/json/list'));
    await connection.sees('HTTP/1.1 200');
    expect((await bed.ask('/json/list')).status).toBe(503);
    const { text } = await waitUntil('the free place', async () => {
      const answer = await bed.ask('/json/list');
      return answer.status === 200 ? answer : undefined;
    });
    expect(text).toHaveLength(list.length);
    connection.socket.resume();
    expect((await connection.ended()).length).toBeLessThan(list.length);
  });

  it('are held for a client that reads slowly for as long as it reads', async () => {
    const bed = await open({ limits: { httpMaxBytes: 20_000_000, httpTimeoutMs: 10_000, stallTimeoutMs: 500 } });
    const list = JSON.stringify([{ title: 'x'.repeat(16_000_000) }]);
    await replace(bed, (_req, res) => res.end(list));
    const connection = await connect(bed);
    connection.send(head(bed, '/json/list'));
    const startedAt = performance.now();
    const { socket } = connection;
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < 500_000) return;
      bytes = 0;
      socket.pause();
      setTimeout(() => socket.resume(), 50);
    });
    const { body } = await connection.answer(50_000);
    expect(body).toHaveLength(list.length);
    expect(performance.now() - startedAt).toBeGreaterThan(900);
  });

  it('are not taken by a client that goes, and its going is no refusal', async () => {
    const bed = await open({ limits: { httpMax: 1, httpTimeoutMs: 60_000 } });
    bed.browser.isSilent = true;
    const connection = await connect(bed);
    connection.send(head(bed, '/json/list'));
    await waitUntil('the question', () => (bed.browser.requests.length === 1 ? true : undefined));
    connection.close();
    await waitUntil('the end of the question', () => (bed.browser.openSockets === 0 ? true : undefined));
    bed.browser.isSilent = false;
    expect((await bed.ask('/json/list')).status).toBe(200);
    expect(bed.refused).toEqual([]);
  });

  it('serve requests that come one after the other on a connection, in their order', async () => {
    const bed = await open({ limits: { httpTimeoutMs: 5000, stallTimeoutMs: 100 } });
    let release = (): void => undefined;
    const seen = await replace(bed, ({ url }, res) => {
      if (url === '/json/list') release = () => void res.end('[]');
      else res.end('Target activated');
    });
    const connection = await connect(bed);
    connection.send(head(bed, '/json/activate/A') + head(bed, '/json/list'));
    expect((await connection.answer()).body).toBe('Target activated');
    await waitUntil('the second question', () => (seen.length === 2 ? true : undefined));
    // Longer than what a client may leave unread: this one waits for us.
    await new Promise((resolve) => setTimeout(resolve, 300));
    release();
    expect((await connection.answer()).body).toBe('[]');
  });
});

describe('an answer of the browser', () => {
  it.each([
    [302, 502, 'bad_gateway'],
    [204, 502, 'bad_gateway'],
    [500, 502, 'bad_gateway'],
    [404, 404, 'upstream_refused'],
    [403, 403, 'upstream_refused'],
  ] as const)('with status %i becomes %i %s', async (inner, status, code) => {
    const bed = await open();
    const seen = await replace(bed, (_req, res) =>
      res
        .writeHead(inner, { location: '/json/version', 'set-cookie': 'a=b' })
        .end(inner === 204 ? '' : 'No such target'),
    );
    const answer = await bed.ask('/json/activate/A');
    expect([answer.status, codeOf(answer.text)]).toEqual([status, code]);
    expect(answer.headers).not.toHaveProperty('location');
    expect(answer.headers).not.toHaveProperty('set-cookie');
    expect(seen).toHaveLength(1);
  });

  it('that is no JSON is not passed on', async () => {
    const bed = await open();
    await replace(bed, (_req, res) => res.end('<html>'));
    expect(codeOf((await bed.ask('/json/version')).text)).toBe('bad_gateway');
    expect(codeOf((await bed.ask('/json/list')).text)).toBe('bad_gateway');
  });

  it('that breaks off is not passed on', async () => {
    const bed = await open();
    await replace(bed, (_req, res) => {
      res.writeHead(200, { 'content-length': 100 }).write('[]', () => res.destroy());
    });
    expect(codeOf((await bed.ask('/json/list')).text)).toBe('browser_unavailable');
  });

  it('that drips is given up at the time for all of it', async () => {
    const bed = await open({ limits: { httpTimeoutMs: 300 } });
    await replace(bed, (_req, res) => {
      const timer = setInterval(() => res.write(' '), 20);
      res.once('close', () => {
        clearInterval(timer);
      });
    });
    expect(codeOf((await bed.ask('/json/list')).text)).toBe('gateway_timeout');
  });

  it('of exactly the limit passes, and one byte more does not', async () => {
    const bed = await open({ limits: { httpMaxBytes: 1000 } });
    const sizes = [1000, 1001];
    await replace(bed, (_req, res) => res.end(`{"domains":"${'x'.repeat((sizes.shift() ?? 0) - 14)}"}`));
    expect((await bed.ask('/json/protocol')).text).toHaveLength(1000);
    bed.door.stage({ generation: 3, port: bed.door.target?.port ?? 0, browserId: 'c' });
    bed.door.publish();
    expect(codeOf((await bed.ask('/json/protocol')).text)).toBe('bad_gateway');
  });

  it('that comes when its browser was withdrawn is not passed on', async () => {
    const bed = await open();
    await replace(bed, (_req, res) => {
      bed.door.withdraw(4001, 'ended');
      bed.publish(3);
      res.end('[]');
    });
    expect(codeOf((await bed.ask('/json/list')).text)).toBe('browser_unavailable');
  });

  it('is asked for with the bytes of the query as they came', async () => {
    const bed = await open();
    for (const query of ['%00', '#x', '??a&b=c', '//x/../y', '%zz', "'<>{}|\\^`"]) {
      const connection = await connect(bed);
      connection.send(head(bed, `/json/new?${query}`, ['Connection: close'], 'PUT'));
      expect(await connection.ended()).toContain('HTTP/1.1 200');
      expect(bed.browser.requests.at(-1)?.url).toBe(`/json/new?${query}`);
    }
  });
});

describe('the log', () => {
  it('never has a capability in it, nor what was asked for', async () => {
    const bed = await open({ policy: { name: 'observe' } });
    const socket = await bed.connect();
    await socket.ask({ id: 1, method: 'Page.navigate', params: { url: 'https://secret.example' } });
    await bed.ask('/json/new?https://secret.example', { method: 'PUT' });
    await bed.ask('/json/version', { headers: { origin: 'https://secret.example' } });
    await bed.browser.close();
    await bed.ask('/json/version');
    const past = bed.door.capability ?? '';
    bed.door.withdraw(4001, 'ended');
    await askUrl(`http://127.0.0.1:${bed.lease.port}/cdp/${past}/json/version`);
    const text = JSON.stringify(bed.logged);
    expect(text).toContain('denied_by_policy');
    expect(text).not.toContain(past);
    expect(text).not.toContain('secret.example');
  });
});
