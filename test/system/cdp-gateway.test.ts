import { afterEach, describe, expect, it } from 'vitest';

import { mintCapability } from '../../src/cdp/capability.ts';
import { askUrl, GatewayBed, type GatewayWish } from '../support/gateway-bed.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

const beds: GatewayBed[] = [];

async function open(wish?: GatewayWish): Promise<GatewayBed> {
  const bed = await GatewayBed.open(wish);
  beds.push(bed);
  return bed;
}

afterEach(async () => {
  for (const bed of beds.splice(0)) await bed.close();
});

function codeOf(text: string): string {
  return (JSON.parse(text) as { error: { code: string } }).error.code;
}

describe('an address', () => {
  it('that is live answers, one of a past browser is gone for good, and any other one is nothing', async () => {
    const bed = await open();
    const old = bed.base;
    expect((await askUrl(`${old}/json/version`)).status).toBe(200);
    bed.door.withdraw(4001, 'ended');
    const gone = await askUrl(`${old}/json/version`);
    expect([gone.status, codeOf(gone.text)]).toEqual([410, 'generation_replaced']);
    bed.publish(2);
    expect((await askUrl(`${old}/json/version`)).status).toBe(410);
    expect((await bed.ask('/json/version')).status).toBe(200);
    const unknown = await askUrl(`http://127.0.0.1:${bed.lease.port}/cdp/${mintCapability()}/json/version`);
    expect([unknown.status, codeOf(unknown.text)]).toEqual([404, 'not_found']);
  });

  it('is remembered for eight browsers, and forgotten at the end of its session', async () => {
    const bed = await open();
    const bases = [bed.base];
    for (let generation = 2; generation <= 10; generation += 1) {
      bed.door.withdraw(4001, 'ended');
      bed.publish(generation);
      bases.push(bed.base);
    }
    const statuses = await Promise.all(bases.map(async (base) => (await askUrl(`${base}/json/protocol`)).status));
    expect(statuses.slice(0, 9)).toEqual([404, 410, 410, 410, 410, 410, 410, 410, 410]);
    bed.door.close();
    expect((await askUrl(`${bases[5] ?? ''}/json/version`)).status).toBe(404);
    expect((await askUrl(`${bases[9] ?? ''}/json/version`)).status).toBe(404);
  });

  it('that is staged answers the bridge about the version, and nothing else to anybody', async () => {
    const bed = await open();
    const { port, browserId } = bed.browser;
    const staged = bed.door.stage({ generation: 2, port, browserId });
    const at = `http://127.0.0.1:${bed.lease.port}/cdp/${staged}`;
    expect((await askUrl(`${at}/json/version`)).status).toBe(200);
    expect((await askUrl(`${at}/json/list`)).status).toBe(404);
    await expect(bed.connectTo(at.replace('http', 'ws'))).rejects.toThrow('404');
    bed.door.withdraw(4001, 'never told');
    expect((await askUrl(`${at}/json/version`)).status).toBe(404);
  });

  it('leads to its own browser only, by the id of that browser or without one', async () => {
    const bed = await open();
    for (const path of ['', '/', '/devtools/browser', `/devtools/browser/${bed.browser.browserId}`]) {
      const socket = await bed.connect(path);
      expect(await socket.ask({ id: 1, method: 'Browser.getVersion' })).toMatchObject({
        id: 1,
        result: { product: 'Fake/1.0' },
      });
      socket.webSocket.close();
      await socket.closed;
    }
    await expect(bed.connect('/devtools/browser/00000000-0000-0000-0000-000000000000')).rejects.toThrow('404');
    await expect(bed.connect('/devtools/page/NONE')).rejects.toThrow('404');
    const [page = ''] = bed.browser.targets.keys();
    const socket = await bed.connect(`/devtools/page/${page}`);
    expect(await socket.ask({ id: 2, method: 'Browser.getVersion' })).toMatchObject({ id: 2 });
  });
});

describe('somebody without a capability', () => {
  const asked = ['', '/', '/json/version', '/json/new?x', '/json/close/A', '/devtools/browser/x', '/nothing/at/all'];

  it('gets one and the same answer, whatever is asked for and how', async () => {
    const bed = await open();
    const base = `http://127.0.0.1:${bed.lease.port}`;
    const wrong = mintCapability();
    const paths = [
      ...asked.map((path) => `/cdp/${wrong}${path}`),
      '/cdp/',
      '/cdp',
      '/',
      '/json/version',
      '/cdp/short',
      '//cdp/x',
    ];
    const answers = await Promise.all(
      paths.flatMap((path) =>
        ['GET', 'PUT', 'DELETE', 'OPTIONS'].map((method) =>
          askUrl(base + path, { method, headers: { origin: 'https://evil.example', host: 'evil.example' } }),
        ),
      ),
    );
    const [first] = answers;
    for (const { status, text } of answers) expect([status, text]).toEqual([404, first?.text]);
    await expect(bed.connectTo(`ws://127.0.0.1:${bed.lease.port}/cdp/${wrong}`)).rejects.toThrow('404');
    expect([bed.browser.requests, bed.browser.upgrades]).toEqual([[], []]);
  });

  it('costs no request of the browser and one line of the log, ten thousand times', async () => {
    const bed = await open();
    const connection = await RawConnection.open(bed.lease.port);
    const one = (): string =>
      `GET /cdp/${mintCapability()}/json/version HTTP/1.1\r\nHost: 127.0.0.1:${bed.lease.port}\r\n\r\n`;
    for (let round = 0; round < 100; round += 1) {
      connection.send(Array.from({ length: 100 }, one).join(''));
      await waitUntil('answers', () => (bed.refused.length >= (round + 1) * 100 ? true : undefined));
    }
    connection.socket.destroy();
    expect(bed.refused).toHaveLength(10_000);
    expect([bed.browser.requests, bed.browser.upgrades]).toEqual([[], []]);
    const lines = bed.logged.filter(({ level }) => level !== 'debug');
    expect(lines).toEqual([{ level: 'warn', event: 'CDP request rejected', fields: { code: 'not_found' } }]);
  });
});

describe('names and pages', () => {
  it.each([
    ['127.0.0.1', 200],
    ['localhost', 200],
    ['LOCALHOST', 200],
    ['[::1]', 200],
    ['evil.example', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.', 403],
  ])('the host %s with the right port is answered with %i', async (host, status) => {
    const bed = await open();
    const answer = await bed.ask('/json/version', { headers: { host: `${host}:${bed.lease.port}` } });
    expect(answer.status).toBe(status);
    expect(answer.text.includes('"host_refused"')).toBe(status === 403);
  });

  it('another port, no port, no host and two hosts are refused', async () => {
    const bed = await open();
    for (const host of ['127.0.0.1:1', '127.0.0.1', ':80'])
      expect((await bed.ask('/json/version', { headers: { host } })).status).toBe(403);
    const connection = await RawConnection.open(bed.lease.port);
    const own = `127.0.0.1:${bed.lease.port}`;
    const none = await RawConnection.open(bed.lease.port);
    none.send(`GET /cdp/${bed.door.capability ?? ''}/json/version HTTP/1.1\r\nConnection: close\r\n\r\n`);
    expect(await none.ended()).toContain('HTTP/1.1 403');
    connection.send(
      `GET /cdp/${bed.door.capability ?? ''}/json/version HTTP/1.1\r\nHost: ${own}\r\nHost: ${own}\r\nConnection: close\r\n\r\n`,
    );
    expect(await connection.ended()).toContain('HTTP/1.1 403');
    expect(bed.browser.requests).toEqual([]);
  });

  it('a page is refused over HTTP and as a WebSocket, unless its origin is listed', async () => {
    const bed = await open({ allowedOrigins: ['devtools://devtools'] });
    for (const origin of ['https://evil.example', 'null', `http://127.0.0.1:${bed.lease.port}`, 'devtools://other']) {
      const answer = await bed.ask('/json/list', { headers: { origin } });
      expect([answer.status, codeOf(answer.text)]).toEqual([403, 'origin_refused']);
      await expect(bed.connect('', { origin })).rejects.toThrow('403');
    }
    const origin = 'devtools://devtools';
    expect((await bed.ask('/json/list', { headers: { origin } })).status).toBe(200);
    const socket = await bed.connect('', { origin });
    expect(await socket.ask({ id: 1, method: 'Browser.getVersion' })).toMatchObject({ id: 1 });
    expect(bed.browser.upgrades.map(({ headers }) => headers.origin)).toEqual([undefined]);
  });

  it('the advertised host is answered with or without the port that its scheme implies', async () => {
    const advertised = { scheme: 'https', host: 'cdp.example.org', port: 443, path: '/a' } as const;
    const bed = await open({ advertised });
    for (const host of ['cdp.example.org', 'cdp.example.org:443', 'CDP.example.org'])
      expect((await bed.ask('/json/version', { headers: { host } })).status).toBe(200);
    expect((await bed.ask('/json/version', { headers: { host: 'cdp.example.org:80' } })).status).toBe(403);
  });
});

describe('a request over HTTP', () => {
  it.each([
    ['GET', '/json/version', 200],
    ['GET', '/json/version/', 200],
    ['GET', '/json/version?t=1', 200],
    ['GET', '/json', 200],
    ['GET', '/json/', 200],
    ['GET', '/json/list', 200],
    ['GET', '/json/list/', 200],
    ['GET', '/json/protocol', 200],
    ['GET', '/json/protocol/', 200],
    ['PUT', '/json/new', 200],
    ['PUT', '/json/new?about:blank?x=1&y', 200],
    ['GET', '/json/new', 405],
    ['POST', '/json/new', 405],
    ['HEAD', '/json/version', 405],
    ['OPTIONS', '/json/version', 405],
    ['DELETE', '/json/list', 405],
    ['POST', '/json/version', 405],
    ['GET', '/json/close/NONE', 404],
    ['GET', '/json/close/a/b', 404],
    ['GET', `/json/close/${'A'.repeat(65)}`, 404],
    ['GET', '/json/other', 404],
    ['GET', '/JSON/version', 404],
    ['GET', '/%6Ason/version', 404],
    ['GET', '/devtools/inspector.html', 404],
    ['GET', '/../../json/version', 404],
    ['GET', '', 400],
  ])('%s %s is answered with %i', async (method, path, status) => {
    const bed = await open();
    expect((await bed.ask(path, { method })).status).toBe(status);
    // What is refused for its form is not asked of the browser.
    const isAsked = status === 200 || path === '/json/close/NONE';
    expect(bed.browser.requests).toHaveLength(isAsked ? 1 : 0);
  });

  it('says by Allow what is used', async () => {
    const bed = await open();
    expect((await bed.ask('/json/new')).headers['allow']).toBe('PUT');
    expect((await bed.ask('/json/close/A', { method: 'POST' })).headers['allow']).toBe('GET, PUT');
  });

  it('opens, activates and closes a page, with the query as it came', async () => {
    const bed = await open();
    const made = await bed.ask('/json/new?data:text/html,a%20b&c', { method: 'PUT' });
    const { id } = JSON.parse(made.text) as { id: string };
    expect(bed.browser.requests.at(-1)?.url).toBe('/json/new?data:text/html,a%20b&c');
    expect((await bed.ask(`/json/activate/${id}`)).text).toBe('Target activated');
    expect((await bed.ask(`/json/close/${id}`, { method: 'PUT' })).text).toBe('Target is closing');
    expect(bed.browser.targets.has(id)).toBe(false);
  });

  it('has no body', async () => {
    const bed = await open();
    const answer = await bed.ask('/json/new', { method: 'PUT', body: 'x' });
    expect([answer.status, codeOf(answer.text)]).toEqual([413, 'body_not_allowed']);
    expect(bed.browser.requests).toEqual([]);
  });

  it('reaches the browser without a header of the client, with a host that Chromium takes', async () => {
    const bed = await open();
    await bed.ask('/json/version?secret=1', { headers: { cookie: 'a=b', 'x-forwarded-host': 'evil.example' } });
    const [seen] = bed.browser.requests;
    expect(seen?.url).toBe('/json/version');
    expect(Object.keys(seen?.headers ?? {}).toSorted()).toEqual(['connection', 'host']);
    expect(seen?.headers.host).toBe(`127.0.0.1:${bed.browser.port}`);
  });

  it('is answered with the outer address in the two fields that hold addresses, and nowhere else', async () => {
    const advertised = { scheme: 'https', host: 'cdp.example.org', port: 8443, path: '/agents' } as const;
    const bed = await open({ advertised });
    const inner = `http://127.0.0.1:${bed.browser.port}/devtools/page/`;
    const id = bed.browser.openPage(inner);
    const { text, headers } = await bed.ask('/json/list', { headers: { host: 'cdp.example.org:8443' } });
    const found = (JSON.parse(text) as Record<string, unknown>[]).find((target) => target['id'] === id);
    expect(found).toMatchObject({
      url: inner,
      title: inner,
      webSocketDebuggerUrl: `wss://cdp.example.org:8443/agents/cdp/${bed.door.capability ?? ''}/devtools/page/${id}`,
    });
    expect(found).not.toHaveProperty('devtoolsFrontendUrl');
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'content-length': String(Buffer.byteLength(text)),
    });
  });

  it('asks for the protocol once for each browser', async () => {
    const bed = await open();
    for (let round = 0; round < 3; round += 1) await bed.ask('/json/protocol');
    expect(bed.browser.requests).toHaveLength(1);
  });

  it('gets 503 from a browser that is another one now, or none', async () => {
    const bed = await open();
    bed.door.stage({ generation: 2, port: bed.browser.port, browserId: 'another' });
    bed.door.publish();
    expect(codeOf((await bed.ask('/json/version')).text)).toBe('browser_unavailable');
    bed.publish(3);
    await bed.browser.close();
    expect(codeOf((await bed.ask('/json/version')).text)).toBe('browser_unavailable');
  });

  it('gets 504 from a browser that says nothing, and one more than may run gets 503 meanwhile', async () => {
    const bed = await open();
    bed.browser.isSilent = true;
    const slow = [bed.ask('/json/list'), bed.ask('/json/list')];
    await waitUntil('both at the browser', () => (bed.browser.requests.length === 2 ? true : undefined));
    const refused = await bed.ask('/json/list');
    expect([refused.status, codeOf(refused.text), refused.headers['retry-after']]).toEqual([
      503,
      'too_many_requests',
      '1',
    ]);
    for (const { status, text } of await Promise.all(slow))
      expect([status, codeOf(text)]).toEqual([504, 'gateway_timeout']);
    bed.browser.isSilent = false;
    expect((await bed.ask('/json/list')).status).toBe(200);
  });

  it('gets 502 for an answer that is too long', async () => {
    const bed = await open();
    bed.browser.openPage(`about:blank#${'x'.repeat(20_000)}`);
    const { status, text } = await bed.ask('/json/list');
    expect([status, codeOf(text)]).toEqual([502, 'bad_gateway']);
  });

  it('changes nothing under a policy that only looks', async () => {
    const bed = await open({ policy: { name: 'observe' } });
    const [page = ''] = bed.browser.targets.keys();
    for (const [method, path] of [
      ['PUT', '/json/new'],
      ['GET', `/json/activate/${page}`],
      ['GET', `/json/close/${page}`],
    ] as const)
      expect(codeOf((await bed.ask(path, { method })).text)).toBe('denied_by_policy');
    expect((await bed.ask('/json/list')).status).toBe(200);
    expect(bed.browser.targets.size).toBe(1);
  });
});

it('an upgrade to something else than a WebSocket is refused, and one that is none is answered', async () => {
  const bed = await open();
  for (const lines of ['Upgrade: h2c\r\nConnection: Upgrade', 'Upgrade: websocket\r\nConnection: Upgrade']) {
    const connection = await RawConnection.open(bed.lease.port);
    connection.send(
      `GET /cdp/${bed.door.capability ?? ''} HTTP/1.1\r\nHost: 127.0.0.1:${bed.lease.port}\r\n${lines}\r\n\r\n`,
    );
    expect(await connection.ended()).toMatch(/^HTTP\/1\.1 400/);
  }
  await waitUntil('no connection to the browser', () => (bed.browser.connections.size === 0 ? true : undefined));
  expect(bed.door.connections).toBe(0);
});

it('a headerless, an endless and a wrong request each get an end', async () => {
  const bed = await open();
  const big = await RawConnection.open(bed.lease.port);
  big.send(`GET /cdp/${bed.door.capability ?? ''}/json HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`);
  expect(await big.ended()).toMatch(/^HTTP\/1\.1 431/);
  const none = await RawConnection.open(bed.lease.port);
  none.send('\r\n\r\nnonsense\r\n\r\n');
  expect(await none.ended()).toMatch(/^HTTP\/1\.1 400/);
});
