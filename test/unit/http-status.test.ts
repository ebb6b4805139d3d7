import { describe, expect, it } from 'vitest';

import type { DownloadState } from '../../src/browser/download-state.ts';
import { BridgeError } from '../../src/core/errors.ts';
import type { HttpSession } from '../../src/http/http-session.ts';
import type { Metrics } from '../../src/http/metrics.ts';
import { HttpStatus, type HttpStatusParts } from '../../src/http-status.ts';

interface FakeSession {
  readonly workspace?: string;
  readonly state?: string;
  readonly isBusy?: boolean;
  readonly inFlight?: number;
  readonly number?: number;
  readonly pid?: number;
}

function makeSession(name: string, some: FakeSession = {}): HttpSession {
  const { workspace, state = 'none', isBusy = false, inFlight = 0, number = 0, pid } = some;
  const now = performance.now();
  return {
    hash: name,
    client: { name, version: '1' },
    createdAt: now - 5000,
    lastUsedAt: now - 3000,
    workspace,
    isBusy: () => isBusy,
    callCount: () => 9,
    channel: { inFlight },
    session: { gate: { describe: () => ({ number, state, pid }) } },
  } as unknown as HttpSession;
}

interface Wish {
  readonly sessions?: readonly HttpSession[];
  readonly refusal?: BridgeError;
  readonly download?: DownloadState;
  readonly isDraining?: boolean;
  readonly replicaId?: string;
}

function makeStatus({ sessions = [], refusal, download, isDraining = false, replicaId }: Wish = {}): HttpStatus {
  const parts = {
    settings: { httpSessionMax: 8, replicaId },
    startsMax: 4,
    lodgings: {
      queue: { running: 1, waiting: 2, acquire: 'hidden' },
      spares: { counts: () => ({ children: 3, browsers: 5 }) },
    },
    meter: {
      read: () =>
        Promise.resolve(
          new Map([
            ['/s/1', { count: 2, memoryBytes: 100 }],
            ['/spare', { count: 3, memoryBytes: 1000 }],
          ]),
        ),
    },
    browser: () => (download === undefined ? undefined : { download }),
    registry: {
      sessions: () => new Set(sessions),
      counts: () => ({ open: sessions.length, closing: 2 }),
      refusal: () => refusal,
      isDraining,
    },
    self: () => ({ memoryBytes: 77, cpuSeconds: 1.5, startedAt: 12 }),
    url: () => 'http://h/mcp',
    cdpConnections: () => 6,
  };
  return new HttpStatus(parts as unknown as HttpStatusParts);
}

const factsOf = (wish?: Wish): ReturnType<HttpStatus['facts']> => makeStatus(wish).facts({} as Metrics);

describe('the numbers of a server', () => {
  it('are those of its parts, sessions and children together', async () => {
    const sessions = [makeSession('a', { inFlight: 2 }), makeSession('b', { inFlight: 3 })];
    expect(await makeStatus({ sessions, isDraining: true }).readings()).toEqual({
      sessions: { open: 2, closing: 2 },
      sessionsMax: 8,
      isDraining: true,
      callsInFlight: 5,
      cdpConnections: 6,
      startQueue: { running: 1, waiting: 2 },
      spares: { children: 3, browsers: 5 },
      bridge: { memoryBytes: 77, cpuSeconds: 1.5, startedAt: 12 },
      children: { count: 5, memoryBytes: 1100 },
    });
  });

  it('are none before there is anything', async () => {
    expect(await makeStatus().readings()).toMatchObject({ callsInFlight: 0, isDraining: false });
  });
});

describe('a server', () => {
  const full = new BridgeError('sessions_full', 'All taken.');

  it.each<[string, Wish, string | undefined]>([
    ['has its browser', { download: { state: 'ready' } }, undefined],
    ['leaves the browser to upstream', {}, undefined],
    ['has not looked for its browser', { download: { state: 'idle' } }, 'start_pending'],
    ['looks for its browser', { download: { state: 'checking' } }, 'start_pending'],
    [
      'found no browser',
      { download: { state: 'failed', code: 'binary_download', message: 'x' } as never },
      'binary_download',
    ],
    ['takes no session', { refusal: full, download: { state: 'checking' } }, 'sessions_full'],
  ])('that %s tells so: %3$s', (_what, wish, code) => {
    expect(factsOf(wish).unready()).toBe(code);
  });

  it('counts as taken what is ending, and tells whose browser is starting', () => {
    const sessions = [makeSession('a', { state: 'starting' }), makeSession('b', { state: 'ready' }), makeSession('c')];
    expect(factsOf({ sessions }).sessions()).toEqual({ active: 5, pending: 1, max: 8 });
  });

  it('tells its version, and since when it runs', () => {
    const facts = factsOf();
    expect(facts.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(facts.uptimeMs()).toBeGreaterThanOrEqual(0);
    expect(facts.uptimeMs()).toBeLessThan(10_000);
    expect(Number.isInteger(facts.uptimeMs())).toBe(true);
  });
});

describe('the status page', () => {
  it('tells of the server, and nothing of what its parts hold besides', async () => {
    expect(await factsOf({ replicaId: 'r1' }).status()).toEqual({
      name: 'cloakbrowser-mcp',
      version: expect.any(String),
      uptimeMs: expect.any(Number),
      url: 'http://h/mcp',
      replica: 'r1',
      draining: false,
      memoryBytes: 77,
      sessions: [],
      limits: { sessions: 8, starts: 4 },
      startQueue: { running: 1, waiting: 2 },
      spares: { children: 3, browsers: 5 },
    });
    expect((await factsOf().status()).replica).toBeNull();
  });

  it('tells of each session what it is doing, and the memory of its own processes', async () => {
    const sessions = [
      makeSession('a', { workspace: '/s/1', isBusy: true, inFlight: 1, number: 2, pid: 123 }),
      makeSession('b', { workspace: '/s/2' }),
      makeSession('c'),
    ];
    const { sessions: told } = await factsOf({ sessions }).status();
    expect(told).toMatchObject([
      { hash: 'a', idleMs: 0, calls: 9, inFlight: 1, generation: 2, pid: 123, memoryBytes: 100 },
      { hash: 'b', inFlight: 0, generation: 0, pid: null, memoryBytes: null },
      { hash: 'c', client: { name: 'c', version: '1' }, state: 'open', memoryBytes: null },
    ]);
    expect(Math.round((told[1]?.ageMs ?? 0) / 1000)).toBe(5);
    expect(Math.round((told[1]?.idleMs ?? 0) / 1000)).toBe(3);
  });
});
