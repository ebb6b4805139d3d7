import type { IncomingMessage, ServerResponse } from 'node:http';

import { BridgeError, messageOf, toBridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { sessionHash } from '../session/registry.ts';
import type { FileRoute } from './file-route.ts';
import { type Guards, targetOf } from './guards.ts';
import { type McpRoute, endpointMethods } from './mcp-route.ts';
import type { Route } from './metrics.ts';
import { type ProbeFacts, type ProbeRoute, handleProbe, needsToken, probeMethods, probeOf } from './probes.ts';
import { refuse } from './reply.ts';
import type { Tokens } from './tokens.ts';

/** Of a path in the log; ours are shorter. */
const longestLogged = 200;

/** Serves the paths of managed CDP. */
export interface CdpRoute {
  handles(path: string): boolean;
  handle(req: IncomingMessage, res: ServerResponse): Promise<void>;
}

/** What the front is made with. */
export interface FrontParts {
  readonly endpoint: string;
  readonly guards: Guards;
  readonly tokens: Tokens;
  readonly mcp: McpRoute;
  /** Undefined where clients may not fetch files. */
  readonly files: FileRoute | undefined;
  readonly probes: ProbeFacts;
  /** Managed CDP on this listener: it has its own guards, and its paths are secrets. */
  readonly cdp?: CdpRoute;
  readonly logger: Logger;
  /** True where anybody reads what is logged of each request. */
  readonly logsRequests: boolean;
  readonly onRefused: (error: BridgeError) => void;
  readonly onDone: (route: Route, status: number) => void;
}

type Place =
  | { readonly kind: 'mcp' }
  | { readonly kind: 'files'; readonly path: string }
  | { readonly kind: 'cdp'; readonly route: CdpRoute }
  | { readonly kind: 'probe'; readonly probe: ProbeRoute };

/** Where every request arrives: refuses what may not pass, in a fixed order, and hands the others on. */
export class Front {
  readonly #parts: FrontParts;

  constructor(parts: FrontParts) {
    this.#parts = parts;
  }

  /** Serves one request; whatever goes wrong is answered. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { path } = targetOf(req.url);
    const place = this.#placeOf(path);
    const startedAt = performance.now();
    res.once('close', () => {
      this.#parts.onDone(routeOf(place), res.statusCode);
      if (!this.#parts.logsRequests) return;
      const id = req.headers['mcp-session-id'];
      this.#parts.logger.debug('request done', {
        sessionId: typeof id === 'string' ? sessionHash(id) : undefined,
        method: req.method,
        path: place?.kind === 'cdp' ? '/cdp/' : path.slice(0, longestLogged),
        code: res.statusCode,
        durationMs: Math.round(performance.now() - startedAt),
      });
    });
    try {
      await this.#serve(req, res, place);
    } catch (failure) {
      this.#refuse(res, failure);
    }
  }

  #refuse(res: ServerResponse, failure: unknown): void {
    const error = toBridgeError(failure);
    // Nobody is there any more to be refused.
    if (res.destroyed) return;
    if (!res.headersSent) this.#parts.onRefused(error);
    if (error.code === 'internal') this.#parts.logger.error('request failed', { reason: messageOf(failure) });
    // An answer that has begun can only be broken off.
    if (res.headersSent) res.destroy();
    else refuse(res, error.code === 'internal' ? hiddenError() : error);
  }

  #placeOf(path: string): Place | undefined {
    const { endpoint, cdp } = this.#parts;
    if (path === endpoint) return { kind: 'mcp' };
    if (cdp?.handles(path) === true) return { kind: 'cdp', route: cdp };
    const probe = probeOf(path);
    if (probe !== undefined) return { kind: 'probe', probe };
    const files = `${endpoint}/files/`;
    return path.startsWith(files) ? { kind: 'files', path: path.slice(files.length) } : undefined;
  }

  async #serve(req: IncomingMessage, res: ServerResponse, place: Place | undefined): Promise<void> {
    const { guards, tokens, mcp, files, probes } = this.#parts;
    if (place === undefined) throw unknownPath(this.#parts.endpoint);
    if (place.kind === 'cdp') {
      await place.route.handle(req, res);
      return;
    }
    const refusal = guards.check(req);
    if (refusal !== undefined) throw refusal;
    for (const [name, value] of Object.entries(guards.cors(req) ?? {})) {
      if (value !== undefined) res.setHeader(name, value);
    }
    if (guards.preflight(req, res)) return;
    checkMethod(req, res, place);
    if (place.kind === 'probe') {
      if (needsToken(place.probe)) tokens.admit(req);
      await handleProbe(place.probe, req, res, probes);
      return;
    }
    const owner = tokens.admit(req);
    if (place.kind === 'mcp') {
      await mcp.handle(req, res, owner);
    } else {
      if (files === undefined) throw filesOff();
      await files.handle(res, mcp.find(req, owner), place.path);
    }
  }
}

/** What went wrong inside is for the log, not for whoever asked. */
function hiddenError(): BridgeError {
  return new BridgeError('internal', 'The server failed to handle this request; its log tells more.');
}

function routeOf(place: Place | undefined): Route {
  if (place === undefined) return 'other';
  return place.kind === 'probe' ? place.probe : place.kind;
}

function checkMethod(req: IncomingMessage, res: ServerResponse, { kind }: Place): void {
  const methods = kind === 'mcp' ? endpointMethods : probeMethods;
  if (methods.includes(req.method ?? '')) return;
  res.setHeader('allow', methods.join(', '));
  throw new BridgeError('http_method', `The method ${req.method ?? ''} is not used here; ${methods.join(', ')} are.`);
}

function unknownPath(endpoint: string): BridgeError {
  return new BridgeError('http_path', 'Nothing is served at this path.', {
    hint: `The MCP endpoint of this server is ${endpoint} (--http-endpoint).`,
  });
}

function filesOff(): BridgeError {
  return new BridgeError('file_unknown', 'Files of a session cannot be fetched from this server.', {
    hint: '--http-files switches it on.',
  });
}
