import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

import type { BinarySource } from './browser/binary.ts';
import type { BridgeError } from './core/errors.ts';
import { availableMemory } from './core/memory.ts';
import { ProcessMeter } from './core/process-meter.ts';
import { bridgeVersion } from './core/version.ts';
import type { Foundation } from './foundation.ts';
import { FileRoute } from './http/file-route.ts';
import { Front } from './http/front.ts';
import { Guards } from './http/guards.ts';
import type { HttpSession } from './http/http-session.ts';
import { Listener } from './http/listener.ts';
import { McpRoute } from './http/mcp-route.ts';
import { Metrics, type Readings } from './http/metrics.ts';
import type { Tokens } from './http/tokens.ts';
import { Lodgings } from './http-lodgings.ts';
import { HttpSessions } from './http-sessions.ts';
import { HttpStatus } from './http-status.ts';
import type { MakeSurfaces } from './load-surfaces.ts';
import { Registry } from './session/registry.ts';
import { MemoryStore } from './session/store.ts';
import type { Surfaces } from './surfaces.ts';

/** So many children boot at once for each core: one waits for the disk while another computes. */
const startsPerCore = 2;
/** What a session's end may take beyond the grace of its child: the killing, and the wait for a start that is broken off. */
const forcedEndMs = 25_000;

/** What the server is put together from. */
export interface HttpServerParts {
  readonly foundation: Foundation;
  readonly tokens: Tokens;
  /** Memory and processor time of the program itself. */
  readonly self: () => Readings['bridge'];
  /** The address that was printed at the start. */
  readonly url: () => string;
  /** Makes managed CDP; undefined where no session may have it. */
  readonly makeSurfaces: MakeSurfaces | undefined;
}

/** The parts of an HTTP server that live as long as it does. */
export interface HttpServer {
  readonly registry: Registry<HttpSession>;
  readonly lodgings: Lodgings;
  readonly listener: Listener;
  readonly surfaces: Surfaces | undefined;
}

/** Puts an HTTP server together; nothing is started. */
export function makeHttpServer(parts: HttpServerParts): HttpServer {
  const { foundation, self, url } = parts;
  const { settings } = foundation.setup;
  const startsMax = settings.httpStartsMax ?? startsPerCore * availableParallelism();
  const lodgings = new Lodgings(foundation, startsMax);
  const registry = makeRegistry(foundation, (reason) => {
    metrics.sessionEnded(reason);
  });
  const meter = new ProcessMeter({ host: foundation.parts.host, folders: () => lodgings.folders() });
  const browser = (): BinarySource | undefined => foundation.binary(settings.headless);
  const surfaces = parts.makeSurfaces?.(settings, foundation.parts.logger, (reason) => {
    metrics.cdpRefused(reason);
  });
  const cdpConnections = (): number => surfaces?.connections ?? 0;
  const readings = { settings, startsMax, lodgings, meter, browser, registry, self, url, cdpConnections };
  const status = new HttpStatus(readings);
  const metrics = new Metrics({
    version: bridgeVersion,
    endReasons: ['deleted', 'idle', 'unused', 'age', 'revoked', 'abandoned', 'shutdown'],
    lossReasons: ['exit', 'signal', 'failure', 'browser'],
    read: () => status.readings(),
  });
  const filesPath = settings.httpFiles ? `${settings.httpEndpoint}/files/` : undefined;
  const sessions = new HttpSessions({ foundation, lodgings, registry, metrics, filesPath, surfaces });
  const inner = { registry, status, metrics, sessions, surfaces };
  return { registry, lodgings, listener: makeListener(parts, inner), surfaces };
}

function makeRegistry({ setup, parts }: Foundation, onEnded: (reason: string) => void): Registry<HttpSession> {
  const { settings } = setup;
  return new Registry<HttpSession>({
    limits: {
      max: settings.httpSessionMax,
      maxPerOwner: settings.httpSessionMaxPerToken,
      idleTtlMs: settings.httpSessionIdleTtlMs,
      unusedTtlMs: settings.httpSessionUnusedTtlMs,
      maxAgeMs: settings.httpSessionMaxAgeMs,
      minFreeMemory: settings.httpMinFreeMemory,
      replicaId: settings.replicaId,
    },
    store: new MemoryStore(),
    logger: parts.logger,
    availableMemory,
    now: () => performance.now(),
    closeLimitMs: settings.closeGraceMs + forcedEndMs,
    onEnded: (_session, reason) => {
      onEnded(reason);
    },
  });
}

interface Inner {
  readonly registry: Registry<HttpSession>;
  readonly status: HttpStatus;
  readonly metrics: Metrics;
  readonly sessions: HttpSessions;
  readonly surfaces: Surfaces | undefined;
}

function makeFront({ foundation, tokens }: HttpServerParts, inner: Inner): Front {
  const { settings } = foundation.setup;
  const { registry, status, metrics, sessions } = inner;
  const onRefused = ({ code }: BridgeError): void => {
    metrics.refused(code);
  };
  const mcp = new McpRoute({
    registry,
    maxBodyBytes: settings.httpMaxBodyBytes,
    maxCalls: settings.httpSessionMaxCalls,
    open: (owner, params) => sessions.open(owner, params),
    prepare: (body) => sessions.prepare(body),
    onReceived: (bytes) => {
      metrics.bytes('in', bytes);
    },
    onRefused,
  });
  return new Front({
    endpoint: settings.httpEndpoint,
    guards: new Guards({
      bindHost: settings.httpHost,
      allowedHosts: settings.httpAllowedHosts,
      allowedOrigins: settings.httpAllowedOrigins,
    }),
    tokens,
    mcp,
    files: settings.httpFiles ? new FileRoute(settings.httpWriteTimeoutMs) : undefined,
    ...(inner.surfaces?.isShared === true ? { cdp: inner.surfaces } : {}),
    probes: status.facts(metrics),
    logger: foundation.parts.logger,
    logsRequests: ['trace', 'debug'].includes(settings.logLevel),
    onRefused,
    onDone: (route, code) => {
      metrics.requestDone(route, code);
    },
  });
}

function makeListener(server: HttpServerParts, inner: Inner): Listener {
  const { setup, parts } = server.foundation;
  const { settings } = setup;
  const { metrics, surfaces } = inner;
  const front = makeFront(server, inner);
  return new Listener({
    protocol: settings.httpProtocol,
    host: settings.httpHost,
    port: settings.httpPort,
    tls: {
      cert: settings.httpsCert,
      key: settings.httpsKey,
      pfx: settings.httpsPfx,
      passphrase: settings.httpsPassphrase,
    },
    limits: {
      maxHeaderBytes: settings.httpMaxHeaderBytes,
      headerTimeoutMs: settings.httpHeaderTimeoutMs,
      bodyTimeoutMs: settings.httpBodyTimeoutMs,
      keepAliveTimeoutMs: settings.httpKeepAliveTimeoutMs,
    },
    onRequest: (req, res) => front.handle(req, res),
    ...(surfaces?.isShared === true ? { upgrades: surfaces } : {}),
    onRefused: (code) => {
      metrics.refused(code);
    },
    onExpiry: parts.tell,
    logger: parts.logger,
    readFile: (path) => readFileSync(path),
  });
}
