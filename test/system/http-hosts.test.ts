import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import { initializeBody, postHeaders, send, type Answer, type Sent } from '../support/http-exchange.ts';
import { HttpServer } from '../support/http-server.ts';
import { RawConnection, reasonOf as reasonOfRaw } from '../support/raw-connection.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;
/** A server as it is by default, and one that has names and pages listed. */
let plain: HttpServer;
let listing: HttpServer;
const page = 'https://app.example.org';

beforeAll(async () => {
  testbed = await Testbed.make();
  const settings = { 'http-session-max': 200 };
  [plain, listing] = await Promise.all([
    HttpServer.start(testbed, { settings }),
    HttpServer.start(testbed, {
      settings: {
        ...settings,
        'allowed-hosts': 'cloak-svc,mcp.example.org:8443',
        'http-allowed-origins': `${page},http://localhost:5173`,
      },
    }),
  ]);
});

afterAll(async () => {
  await testbed.close();
});

const routes: readonly (readonly [string, Sent])[] = [
  ['/mcp', { method: 'POST', headers: postHeaders, body: initializeBody() }],
  ['/healthz', { method: 'GET' }],
  ['/readyz', { method: 'GET' }],
  ['/metrics', { method: 'GET' }],
  ['/status', { method: 'GET' }],
];

async function statuses(server: HttpServer, headers: Record<string, string>): Promise<number[]> {
  const answers = await Promise.all(
    routes.map(([path, sent]) => server.ask(path, { ...sent, headers: { ...sent.headers, ...fill(server, headers) } })),
  );
  for (const answer of answers) await answer.ended();
  return [...new Set(answers.map(({ status }) => status))];
}

function fill(server: HttpServer, headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value.replace('PORT', String(server.port))]),
  );
}

async function refusal(answer: Answer): Promise<NonNullable<Message['error']>> {
  expect(answer.contentType).toBe('application/json');
  const { error } = JSON.parse(await answer.ended()) as Message;
  if (error === undefined) throw new Error('No error');
  return error;
}

describe('the Host of a request', () => {
  const always = ['localhost:PORT', '127.0.0.1:PORT', '[::1]:PORT', 'LocalHost', '127.0.0.1:9', 'localhost.'];
  const listed = ['cloak-svc', 'cloak-svc:3000', 'CLOAK-SVC:PORT', 'mcp.example.org:8443'];
  const never = [
    'mcp.example.org',
    'mcp.example.org:8444',
    'evil.test',
    'evil.test:PORT',
    'localhost.evil.test',
    '127.0.0.1.evil.test:PORT',
    'cloak-svc.evil.test',
    'localhost@evil.test',
    'evil.test#localhost',
    '10.0.0.1',
    '0.0.0.0:PORT',
    '[::]:PORT',
  ];

  test.each(always)('"%s" passes on every route, whatever is listed', async (host) => {
    for (const server of [plain, listing]) expect(await statuses(server, { host })).toEqual([200]);
  });

  test.each(listed)('"%s" passes only where it is listed', async (host) => {
    expect(await statuses(plain, { host })).toEqual([403]);
    expect(await statuses(listing, { host })).toEqual([200]);
  });

  test.each(never)('"%s" is refused on every route, whatever is listed', async (host) => {
    for (const server of [plain, listing]) expect(await statuses(server, { host })).toEqual([403]);
  });

  test('that is refused is named with the setting that would allow it, and nothing is opened for it', async () => {
    const opened = await plain.metric('sessions_opened_total');
    const [, sent] = routes[0] ?? [];
    const answer = await send(plain.url, { ...sent, headers: { ...postHeaders, host: 'cloak-svc:3000' } });
    const error = await refusal(answer);
    expect(error.message).toContain('cloak-svc:3000');
    expect(error.data).toMatchObject({ reason: 'host_refused', hint: expect.stringContaining('--http-allowed-hosts') });
    expect(await plain.metric('sessions_opened_total')).toBe(opened);
    expect(await plain.metric('refusals_total', '"host_refused"')).toBeGreaterThan(0);
  });

  test.each([
    ['none', 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['nothing', 'GET /healthz HTTP/1.1\r\nHost: \r\n\r\n'],
    ['two', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n'],
    ['another one in the target', 'GET http://evil.test/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('with %s of it is refused', async (_what, text) => {
    const connection = await RawConnection.open(plain.port);
    const answer = await connection.send(text).answer();
    expect([answer.status, reasonOfRaw(answer)]).toEqual([403, 'host_refused']);
    connection.close();
  });
});

describe('the Origin of a request', () => {
  const own = ['http://localhost:PORT', 'http://127.0.0.1:PORT'];
  const listed = [page, 'http://localhost:5173', 'HTTPS://APP.example.org:443'];
  const never = [
    'null',
    'http://evil.test',
    'http://app.example.org',
    'https://app.example.org.evil.test',
    'http://localhost:1',
    'file://',
    'chrome-extension://abcdef',
    'http://localhost:PORT@evil.test',
  ];

  test.each(own)('that is the one of the server itself, %s, passes', async (origin) => {
    const host = origin.slice('http://'.length);
    for (const server of [plain, listing]) expect(await statuses(server, { origin, host })).toEqual([200]);
  });

  test.each(listed)('%s passes only where it is listed', async (origin) => {
    expect(await statuses(plain, { origin })).toEqual([403]);
    expect(await statuses(listing, { origin })).toEqual([200]);
  });

  test.each(never)('%s is refused on every route, whatever is listed', async (origin) => {
    for (const server of [plain, listing]) expect(await statuses(server, { origin })).toEqual([403]);
  });

  test('that is refused is named with the setting, and its page could not read even that', async () => {
    for (const server of [plain, listing]) {
      const answer = await server.ask('/healthz', { headers: { origin: 'http://evil.test' } });
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
      const error = await refusal(answer);
      expect(error.message).toContain('http://evil.test');
      expect(error.data).toMatchObject({
        reason: 'origin_refused',
        hint: expect.stringContaining('--http-allowed-origins'),
      });
    }
  });

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', undefined])(
    'of a page that needs no permission to send %s opens no session, whatever the body says',
    async (contentType) => {
      const opened = await plain.metric('sessions_opened_total');
      const type = contentType === undefined ? {} : { 'content-type': contentType };
      for (const origin of [{ origin: 'http://evil.test' }, {}]) {
        const answer = await send(plain.url, {
          headers: { accept: '*/*', ...type, ...origin },
          body: initializeBody(),
        });
        expect([403, 415]).toContain(answer.status);
        await answer.ended();
      }
      expect(await plain.metric('sessions_opened_total')).toBe(opened);
    },
  );
});

describe('a page of a listed origin', () => {
  const asks = {
    origin: page,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type,mcp-session-id,mcp-protocol-version',
  };

  test('may send what a client sends, and read what it needs of the answer', async () => {
    const answer = await listing.ask('/mcp', { method: 'OPTIONS', headers: asks });
    expect([answer.status, await answer.ended()]).toEqual([204, '']);
    expect(answer.headers['access-control-allow-origin']).toBe(page);
    for (const method of ['POST', 'GET', 'DELETE']) {
      expect(answer.headers['access-control-allow-methods']).toContain(method);
    }
    expect(answer.headers['access-control-allow-headers']).toContain('mcp-session-id');
    expect(answer.headers['access-control-allow-credentials']).toBeUndefined();
    const opened = await send(listing.url, { headers: { ...postHeaders, origin: page }, body: initializeBody() });
    await opened.ended();
    expect(opened.headers).toMatchObject({
      'access-control-allow-origin': page,
      vary: expect.stringMatching(/origin/i),
    });
    expect(opened.headers['access-control-expose-headers']).toContain('mcp-session-id');
  });

  test('may read a refusal too', async () => {
    const answer = await send(listing.url, { headers: { ...postHeaders, origin: page }, body: 'no JSON' });
    expect(answer.status).toBe(400);
    expect(answer.headers['access-control-allow-origin']).toBe(page);
    await answer.ended();
  });

  test('is not asked for by a page of any other one, nor where none is listed', async () => {
    const foreign = await listing.ask('/mcp', { method: 'OPTIONS', headers: { ...asks, origin: 'http://evil.test' } });
    const nowhere = await plain.ask('/mcp', { method: 'OPTIONS', headers: asks });
    const without = await listing.ask('/mcp', { method: 'OPTIONS' });
    expect([foreign.status, nowhere.status, without.status]).toEqual([403, 403, 405]);
    for (const answer of [foreign, nowhere, without]) {
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      await answer.ended();
    }
  });
});

test("paths that are not served are 404 as JSON, upstream's older endpoint among them", async () => {
  for (const path of ['/', '/sse', '/messages', '/mcp/', '/MCP', '//mcp', '/mcp/x', '/favicon.ico', '/mcp%2f']) {
    const answer = await plain.ask(path);
    expect([path, answer.status]).toEqual([path, 404]);
    const error = await refusal(answer);
    expect(error.data).toMatchObject({ reason: 'http_path', hint: expect.stringContaining('/mcp') });
  }
});
