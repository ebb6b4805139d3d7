import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { LogFields } from '../../../src/core/logger.ts';
import { Redactor } from '../../../src/core/redact.ts';
import type { FileRoute } from '../../../src/http/file-route.ts';
import { Front, type FrontParts } from '../../../src/http/front.ts';
import { Guards } from '../../../src/http/guards.ts';
import type { McpRoute } from '../../../src/http/mcp-route.ts';
import type { ProbeFacts } from '../../../src/http/probes.ts';
import { Tokens } from '../../../src/http/tokens.ts';
import { type Peer, type RequestParts, fakedTimers, makePeer, settle } from './peer-bed.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
});

afterEach(() => {
  vi.useRealTimers();
});

const token = 'a-token-0123456789';
const known = { host: 'localhost:3000', authorization: `Bearer ${token}` };
const page = 'https://app.example.org';

interface Bed {
  /** What reached the parts behind the front. */
  readonly served: string[];
  readonly refused: string[];
  /** Route and status of each request that was done. */
  readonly done: [string, number][];
  readonly logged: [string, LogFields | undefined][];
  send(method: string, url: string, parts?: Omit<RequestParts, 'url'>): Promise<Peer>;
}

function makeBed(some: Partial<FrontParts> = {}): Bed {
  const [served, refused]: [string[], string[]] = [[], []];
  const done: [string, number][] = [];
  const logged: [string, LogFields | undefined][] = [];
  const log = (event: string, fields?: LogFields): void => void logged.push([event, fields]);
  const tokens = new Tokens({ tokens: [token], file: undefined, readFile: () => '', redactor: new Redactor() });
  tokens.load();
  const mcp: Pick<McpRoute, 'handle' | 'find'> = {
    handle: (req, res, owner) => {
      served.push(`mcp ${req.method} ${tokens.has(owner)}`);
      res.end('done');
      return Promise.resolve();
    },
    find: (req, owner) => ({ id: `${req.headers['mcp-session-id']?.toString()} ${tokens.has(owner)}` }) as never,
  };
  const files: Pick<FileRoute, 'handle'> = {
    handle: (res, session, path) => {
      served.push(`file ${session.id} ${path}`);
      res.end();
      return Promise.resolve();
    },
  };
  const probes = {
    version: '1',
    uptimeMs: () => 1,
    metrics: { contentType: 'text/plain', text: () => Promise.resolve('numbers') },
    status: () => Promise.resolve({ secret: 'status' }),
    sessions: () => ({ active: 0, pending: 0, max: 1 }),
    unready: () => undefined,
  } as unknown as ProbeFacts;
  const front = new Front({
    endpoint: '/mcp',
    guards: new Guards({ bindHost: '127.0.0.1', allowedHosts: [], allowedOrigins: [page] }),
    tokens,
    mcp: mcp as McpRoute,
    files: files as FileRoute,
    probes,
    logger: { debug: log, info: log, warn: log, error: log },
    logsRequests: true,
    onRefused: ({ code }) => refused.push(code),
    onDone: (route, status) => done.push([route, status]),
    ...some,
  });
  const send: Bed['send'] = async (method, url, { headers = known, ...rest } = {}) => {
    const peer = makePeer(method, { url, headers, ...rest });
    await front.handle(peer.req, peer.res);
    await settle();
    return peer;
  };
  return { served, refused, done, logged, send };
}

describe('the place of a request', () => {
  it.each([
    ['/mcp', 'mcp GET true'],
    ['/mcp?a=b', 'mcp GET true'],
    ['http://localhost:3000/mcp', 'mcp GET true'],
    ['/mcp/files/a/b.png?x', 'file undefined true a/b.png'],
    ['/mcp/files/%2e%2e%2fa', 'file undefined true %2e%2e%2fa'],
    ['/mcp/files/', 'file undefined true '],
  ])('%s is served: %s', async (url, what) => {
    const bed = makeBed();
    await bed.send('GET', url);
    expect(bed.served).toEqual([what]);
  });

  it.each([
    '/',
    '/mcp/',
    '//mcp',
    '/MCP',
    '/mcp%2f',
    '/%6dcp',
    '/mcpx',
    '/mcp/file/a',
    '/mcp/../healthz',
    '/healthz/',
    '',
  ])('%j is none, which is told before anything else', async (url) => {
    const bed = makeBed();
    const peer = await bed.send('PUT', url, { headers: { host: 'evil.example' } });
    expect([peer.status(), bed.refused, bed.served]).toEqual([404, ['http_path'], []]);
    expect(peer.json()).toMatchObject({ id: null, error: { data: { hint: expect.stringContaining('/mcp') } } });
    expect(bed.done).toEqual([['other', 404]]);
  });
});

describe('a request', () => {
  it.each([
    [{ host: 'evil.example' }, 'host_refused', 403],
    [{}, 'host_refused', 403],
    [{ ...known, origin: 'https://evil.example' }, 'origin_refused', 403],
    [{ host: 'localhost' }, 'unauthorized', 401],
    [{ host: 'localhost', authorization: 'Bearer wrong-token-012345' }, 'unauthorized', 401],
  ])('with %j goes no further: %s', async (headers, code, status) => {
    const bed = makeBed();
    const peer = await bed.send('POST', '/mcp', { headers });
    expect([peer.status(), bed.refused, bed.served]).toEqual([status, [code], []]);
    expect(bed.done).toEqual([['mcp', status]]);
  });

  it('that is refused for its token says what kind is wanted', async () => {
    expect((await makeBed().send('GET', '/mcp', { headers: { host: 'localhost' } })).head()).toMatch(
      /www-authenticate: Bearer\r\n/,
    );
  });

  it.each([
    ['PUT', '/mcp', 'POST, GET, DELETE'],
    ['HEAD', '/mcp', 'POST, GET, DELETE'],
    ['OPTIONS', '/mcp', 'POST, GET, DELETE'],
    ['POST', '/mcp/files/a', 'GET, HEAD'],
    ['DELETE', '/status', 'GET, HEAD'],
  ])('with %s on %s is told the methods, before it is asked for a token', async (method, url, allowed) => {
    const bed = makeBed();
    const peer = await bed.send(method, url, { headers: { host: 'localhost' } });
    expect([peer.status(), bed.refused]).toEqual([405, ['http_method']]);
    expect(peer.head()).toMatch(new RegExp(`allow: ${allowed}\r\n`));
  });

  it('is checked for its host and origin before its method', async () => {
    const bed = makeBed();
    await bed.send('PUT', '/mcp', { headers: { host: 'evil.example' } });
    await bed.send('PUT', '/mcp', { headers: { ...known, origin: 'https://evil.example' } });
    expect(bed.refused).toEqual(['host_refused', 'origin_refused']);
  });
});

describe('a page of a listed origin', () => {
  const headers = { host: 'localhost', origin: page };

  it('is told before a request that it may send it, without a token', async () => {
    const bed = makeBed();
    const peer = await bed.send('OPTIONS', '/mcp', {
      headers: { ...headers, 'access-control-request-method': 'POST' },
    });
    expect([peer.status(), bed.served, bed.refused, bed.done]).toEqual([204, [], [], [['mcp', 204]]]);
    expect(peer.head()).toMatch(/access-control-allow-origin: https:\/\/app\.example\.org\r\n/);
  });

  it('can read answers, and refusals as well', async () => {
    const bed = makeBed();
    const [served, refused] = [
      await bed.send('GET', '/mcp', { headers: { ...known, origin: page } }),
      await bed.send('GET', '/mcp', { headers }),
    ];
    expect([served.status(), refused.status()]).toEqual([200, 401]);
    for (const peer of [served, refused]) expect(peer.head()).toMatch(/access-control-allow-origin: https:\/\/app/);
    expect((await bed.send('GET', '/mcp')).head()).not.toMatch(/access-control/);
  });
});

describe('a probe', () => {
  it.each(['/healthz', '/readyz'])('at %s needs no token', async (url) => {
    const bed = makeBed();
    const peer = await bed.send('GET', url, { headers: { host: 'localhost' } });
    expect([peer.status(), bed.done]).toEqual([200, [[url.slice(1), 200]]]);
  });

  it.each(['/metrics', '/status'])('at %s needs one', async (url) => {
    const bed = makeBed();
    expect((await bed.send('GET', url, { headers: { host: 'localhost' } })).status()).toBe(401);
    const peer = await bed.send('GET', url);
    expect([peer.status(), peer.body()]).toEqual([200, url === '/metrics' ? 'numbers' : '{"secret":"status"}']);
  });

  it('is for known hosts only', async () => {
    expect((await makeBed().send('GET', '/healthz', { headers: { host: 'evil.example' } })).status()).toBe(403);
  });
});

describe('a file', () => {
  it('is of the session that the request names, with its token', async () => {
    const bed = makeBed();
    await bed.send('GET', '/mcp/files/a', { headers: { ...known, 'mcp-session-id': 'mine' } });
    expect((await bed.send('HEAD', '/mcp/files/a', { headers: { host: 'localhost' } })).status()).toBe(401);
    expect([bed.served, bed.done]).toEqual([
      ['file mine true a'],
      [
        ['files', 200],
        ['files', 401],
      ],
    ]);
  });

  it('is none where files are not served, which is told to nobody without a token', async () => {
    const bed = makeBed({ files: undefined });
    await bed.send('GET', '/mcp/files/a', { headers: { host: 'localhost' } });
    const peer = await bed.send('GET', '/mcp/files/a');
    expect([peer.status(), bed.refused]).toEqual([404, ['unauthorized', 'file_unknown']]);
    expect(peer.body()).toContain('--http-files');
  });
});

describe('what goes wrong behind the front', () => {
  const failing = (failure: unknown, begin?: (peer: Peer['res']) => void): Partial<FrontParts> => ({
    mcp: {
      handle: (_req: unknown, res: Peer['res']) => {
        begin?.(res);
        return Promise.reject(failure as Error);
      },
    } as unknown as McpRoute,
  });

  it('and has a name is answered as what it is', async () => {
    const bed = makeBed(failing(new BridgeError('session_unknown', 'Gone.')));
    const peer = await bed.send('GET', '/mcp');
    expect([peer.status(), peer.json()]).toMatchObject([404, { error: { message: 'Gone.' } }]);
    expect([bed.refused, bed.logged.map(([event]) => event)]).toEqual([['session_unknown'], ['request done']]);
  });

  it('and has none is for the log, and not for whoever asked', async () => {
    const bed = makeBed(failing(new Error('a secret path')));
    const peer = await bed.send('GET', '/mcp');
    expect([peer.status(), peer.body()]).toEqual([500, expect.not.stringContaining('secret')]);
    expect([bed.refused, bed.logged[0]]).toEqual([['internal'], ['request failed', { reason: 'a secret path' }]]);
    expect(peer.isEnded()).toBe(true);
  });

  it('after the answer began cuts the connection, so that nobody waits for the rest', async () => {
    const bed = makeBed(failing(new Error('x'), (res) => void res.write('half')));
    const peer = await bed.send('GET', '/mcp');
    expect([peer.isCut(), peer.isEnded()]).toEqual([true, false]);
  });
});

it('tells of each request when it is over, and without its query', async () => {
  const bed = makeBed();
  await bed.send('GET', '/mcp?key=secret');
  expect(bed.done).toEqual([['mcp', 200]]);
  expect(bed.logged).toEqual([
    ['request done', { method: 'GET', path: '/mcp', code: 200, durationMs: expect.any(Number) }],
  ]);
});

it('spares itself the log of requests where nobody reads it, and counts them all the same', async () => {
  const bed = makeBed({ logsRequests: false });
  await bed.send('GET', '/mcp');
  expect([bed.done, bed.logged]).toEqual([[['mcp', 200]], []]);
});

describe('managed CDP', () => {
  const secret = 'x'.repeat(43);
  const cdp = {
    handles: (path: string) => path.startsWith('/cdp/'),
    handle: (_req: unknown, res: ServerResponse) => {
      res.statusCode = 410;
      res.end();
      return Promise.resolve();
    },
  };

  it('serves its paths with guards of its own, and they are not logged', async () => {
    const bed = makeBed({ cdp });
    // No token, a host that the guards of everything else refuse, and a method that nothing else serves.
    for (const method of ['GET', 'PUT', 'BREW']) {
      const peer = await bed.send(method, `/cdp/${secret}/json/new?a`, { headers: { host: 'elsewhere' } });
      expect(peer.status()).toBe(410);
    }
    expect(bed.done).toEqual(Array(3).fill(['cdp', 410]));
    expect(bed.refused).toEqual([]);
    expect(bed.logged.map(([, fields]) => fields?.['path'])).toEqual(Array(3).fill('/cdp/'));
    expect(JSON.stringify(bed.logged)).not.toContain(secret);
  });

  it('takes no other path, and none where it is off', async () => {
    const bed = makeBed({ cdp });
    await bed.send('POST', '/mcp');
    await bed.send('GET', '/healthz?/cdp/');
    await bed.send('GET', '/cdp');
    const off = makeBed();
    await off.send('GET', `/cdp/${secret}`);
    expect([bed.served, bed.done, off.done]).toEqual([
      ['mcp POST true'],
      [
        ['mcp', 200],
        ['healthz', 200],
        ['other', 404],
      ],
      [['other', 404]],
    ]);
  });

  it('that fails is answered without what went wrong', async () => {
    const bed = makeBed({ cdp: { ...cdp, handle: () => Promise.reject(new Error('inner')) } });
    const peer = await bed.send('GET', `/cdp/${secret}`);
    expect(peer.status()).toBe(500);
    expect(peer.body()).not.toContain('inner');
    expect(bed.logged[0]).toEqual(['request failed', { reason: 'inner' }]);
  });
});
