import { once } from 'node:events';
import { describe, expect, it } from 'vitest';

import type { ServerStatus } from '../../../src/core/server-status.ts';
import { handleProbe, needsToken, type ProbeFacts, probeMethods, probeOf } from '../../../src/http/probes.ts';
import { finishRequest, makeAnswer, makeRequest } from './http-bed.ts';

const status: ServerStatus = {
  name: 'cloakbrowser-mcp',
  version: '1.2.3',
  uptimeMs: 1234,
  url: 'http://127.0.0.1:3000/mcp',
  replica: null,
  draining: false,
  memoryBytes: 1,
  sessions: [],
  limits: { sessions: 32, starts: 4 },
  startQueue: { running: 0, waiting: 0 },
  spares: { children: 1, browsers: 0 },
};

function makeFacts(parts: Partial<ProbeFacts> = {}): ProbeFacts {
  return {
    version: '1.2.3',
    uptimeMs: () => 1234.56,
    sessions: () => ({ active: 3, pending: 1, max: 32 }),
    unready: () => undefined,
    metrics: { contentType: 'text/plain; version=0.0.4', text: () => Promise.resolve('ä 1\n') },
    status: () => Promise.resolve(status),
    ...parts,
  };
}

interface Answer {
  readonly code: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

function readHeaders(head: string): Record<string, string> {
  const lines = [...head.matchAll(/^([^:\r\n]+): (.*)\r?$/gm)];
  return Object.fromEntries(lines.map(([, name = '', value = '']) => [name.toLowerCase(), value]));
}

/** What goes over the wire for a request. */
async function ask(url: string, facts: ProbeFacts, method = 'GET'): Promise<Answer> {
  const request = makeRequest([], url, method);
  finishRequest(request);
  const answer = makeAnswer(request);
  const { res } = answer;
  const finished = once(res, 'finish');
  const route = probeOf(url.split('?', 1)[0] ?? '');
  if (route === undefined) throw new Error(`${url} is no probe`);
  await handleProbe(route, request, res, facts);
  await finished;
  const [head = '', text = ''] = answer.sent().split('\r\n\r\n');
  return { code: res.statusCode, headers: readHeaders(head), text };
}

describe('the paths of the probes', () => {
  it.each([
    ['/healthz', 'healthz', false],
    ['/readyz', 'readyz', false],
    ['/metrics', 'metrics', true],
    ['/status', 'status', true],
  ] as const)('%s is counted as %s, and needs the token: %s', (path, route, isProtected) => {
    expect(probeOf(path)).toBe(route);
    expect(needsToken(route)).toBe(isProtected);
  });

  it.each(['/', '/mcp', '/healthz/', '/HEALTHZ', '/status/x', 'healthz', '__proto__', 'constructor'])(
    '%s is none of them',
    (path) => {
      expect(probeOf(path)).toBeUndefined();
    },
  );

  it('take GET and HEAD', () => {
    expect(probeMethods).toEqual(['GET', 'HEAD']);
  });
});

describe('/healthz', () => {
  it('says that the server lives, even when it takes no sessions', async () => {
    const { code, headers, text } = await ask('/healthz', makeFacts({ unready: () => 'draining' }));
    expect(code).toBe(200);
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
    expect(JSON.parse(text)).toEqual({
      status: 'ok',
      version: '1.2.3',
      transport: 'streamable-http',
      uptimeMs: 1235,
    });
  });

  it('answers HEAD with the head of GET and no body', async () => {
    const { code, headers, text } = await ask('/healthz', makeFacts(), 'HEAD');
    const whole = await ask('/healthz', makeFacts());
    expect(code).toBe(200);
    expect(headers['content-length']).toBe(String(whole.text.length));
    expect(text).toBe('');
  });
});

describe('/readyz', () => {
  it('tells how many sessions there is room for', async () => {
    const { code, text } = await ask('/readyz', makeFacts());
    expect(code).toBe(200);
    expect(JSON.parse(text)).toEqual({
      status: 'ready',
      version: '1.2.3',
      transport: 'streamable-http',
      uptimeMs: 1235,
      sessions: { active: 3, pending: 1, max: 32, available: 29 },
    });
  });

  it.each(['draining', 'sessions_full', 'memory_low'] as const)('is 503 with the reason %s', async (reason) => {
    const { code, text } = await ask('/readyz', makeFacts({ unready: () => reason }));
    expect(code).toBe(503);
    expect(JSON.parse(text)).toMatchObject({ status: 'unready', reason });
  });

  it('is 404 where the balancer asks for it, so that it keeps the sessions that are here', async () => {
    const facts = makeFacts({ unready: () => 'draining' });
    expect((await ask('/readyz?unready=404', facts)).code).toBe(404);
    expect((await ask('/readyz?unready=503', facts)).code).toBe(503);
    expect((await ask('/readyz?unready=200', facts)).code).toBe(503);
    expect((await ask('/readyz?unready=404', makeFacts())).code).toBe(200);
  });

  it('never tells less than no room', async () => {
    const facts = makeFacts({ sessions: () => ({ active: 33, pending: 0, max: 32 }) });
    expect(JSON.parse((await ask('/readyz', facts)).text)).toMatchObject({ sessions: { available: 0 } });
  });
});

describe('/metrics', () => {
  it('answers with the text as it is and its own content type', async () => {
    const { code, headers, text } = await ask('/metrics', makeFacts());
    expect(code).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/plain; version=0.0.4',
      'content-length': '5',
      'cache-control': 'no-store',
    });
    expect(text).toBe('ä 1\n');
  });

  it('leaves a failure to its caller, before anything is answered', async () => {
    const text = (): Promise<string> => Promise.reject(new Error('broken'));
    await expect(ask('/metrics', makeFacts({ metrics: { contentType: 'x', text } }))).rejects.toThrow('broken');
  });
});

describe('/status', () => {
  it('answers with what the server tells of itself', async () => {
    const { code, text } = await ask('/status', makeFacts());
    expect(code).toBe(200);
    expect(JSON.parse(text)).toEqual(status);
  });
});
