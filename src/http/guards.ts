import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';

import { BridgeError } from '../core/errors.ts';
import { type Authority, canonicalHost, isLoopbackName, parseAuthority } from './authority.ts';

/** Which hosts and pages may use the server. */
export interface GuardSettings {
  /** The host that the server listens on. */
  readonly bindHost: string;
  /** `name` (any port), `name:port`, or `*` for all. */
  readonly allowedHosts: readonly string[];
  /** Origins of web pages, as `https://app.example.org`. */
  readonly allowedOrigins: readonly string[];
}

/** What of a request the guards look at. */
export type GuardedRequest = Pick<IncomingMessage, 'headers' | 'rawHeaders' | 'url'> & {
  readonly socket: Pick<IncomingMessage['socket'], 'localAddress'>;
};

/** Path and query of a request, as they were sent: nothing is decoded or joined, so `//a` is not `/a`. */
export interface Target {
  readonly path: string;
  /** Without its question mark; empty when there is none. */
  readonly query: string;
  /** The host of an absolute target (`GET http://host/path`). */
  readonly authority?: string;
}

const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i;
/** A page that may use the server may keep the answer to its preflight for ten minutes. */
const preflightSeconds = '600';
const pageMethods = 'GET, POST, DELETE';
const pageHeaders = 'accept, authorization, content-type, last-event-id, mcp-protocol-version, mcp-session-id';
const shownHeaders = 'mcp-session-id, retry-after, www-authenticate';
/** Enough of a refused name to recognise it. */
const shownLength = 100;

/** The target of a request line. */
export function targetOf(url: string | undefined): Target {
  const [, authority, rest] = absoluteForm.exec(url ?? '') ?? [];
  const [path = '', ...query] = (rest ?? url ?? '').split('?');
  const target = { path: path === '' ? '/' : path, query: query.join('?') };
  return authority === undefined ? target : { ...target, authority };
}

/** All values of a header, by its name in lower case; Node itself keeps only the first of some. */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const found = rawHeaders[index];
    if (found?.length === name.length && found.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '');
  }
  return values;
}

/**
 * Checks where a request was sent to and which page sent it, so that no web page can use the server through the user's
 * browser: not under a name of its own that it lets point here (DNS rebinding), and not across origins.
 */
export class Guards {
  readonly #isLoopback: boolean;
  readonly #isAnyHost: boolean;
  readonly #hosts: readonly Authority[];
  readonly #origins: ReadonlySet<string>;

  constructor({ bindHost, allowedHosts, allowedOrigins }: GuardSettings) {
    this.#isLoopback = isLoopbackName(bindHost);
    this.#isAnyHost = allowedHosts.includes('*');
    this.#hosts = allowedHosts.flatMap((host) => parseAuthority(isIP(host) === 6 ? `[${host}]` : host) ?? []);
    this.#origins = new Set(allowedOrigins.map(canonicalOrigin));
  }

  /** Why a request is refused: `host_refused` or `origin_refused`; undefined when it may pass. */
  check(req: GuardedRequest): BridgeError | undefined {
    const hosts = headerValues(req, 'host');
    const [sent = ''] = hosts;
    const authority = hosts.length === 1 ? parseAuthority(sent) : undefined;
    const target = req.url?.startsWith('/') === false ? targetOf(req.url).authority : undefined;
    if (!this.#isHostAllowed(authority, req)) return refusedHost(hosts);
    // An absolute target outranks the Host header, so it must not name another host than that may.
    if (target !== undefined && !this.#isHostAllowed(parseAuthority(target), req)) return refusedHost([target]);
    const { origin } = req.headers;
    return origin === undefined || this.#isListed(origin) || this.#isOwnOrigin(origin, authority, req)
      ? undefined
      : refusedOrigin(origin);
  }

  /** The headers that let the page of a listed origin read the answer; undefined for every other request. */
  cors({ headers: { origin } }: Pick<IncomingMessage, 'headers'>): Record<string, string> | undefined {
    if (origin === undefined || !this.#isListed(origin)) return undefined;
    return {
      'access-control-allow-origin': origin,
      'access-control-expose-headers': shownHeaders,
      vary: 'origin',
    };
  }

  /** Answers the question of a browser whether a page of a listed origin may send a request; false for anything else. */
  preflight(req: IncomingMessage, res: ServerResponse): boolean {
    const headers = this.cors(req);
    if (req.method !== 'OPTIONS' || headers === undefined) return false;
    if (req.headers['access-control-request-method'] === undefined) return false;
    const isPrivate = req.headers['access-control-request-private-network'] === 'true';
    const answer: Record<string, string> = {
      ...headers,
      'access-control-allow-methods': pageMethods,
      // Whatever the page of a listed origin asks for: clients add tracing headers and the like.
      'access-control-allow-headers': req.headers['access-control-request-headers'] ?? pageHeaders,
      'access-control-max-age': preflightSeconds,
      ...(isPrivate ? { 'access-control-allow-private-network': 'true' } : {}),
    };
    res.writeHead(204, answer);
    res.end();
    return true;
  }

  #isHostAllowed(authority: Authority | undefined, req: GuardedRequest): boolean {
    if (authority === undefined) return false;
    return this.#isAnyHost || this.#isKnownHost(authority, req);
  }

  #isKnownHost(authority: Authority, { socket }: GuardedRequest): boolean {
    const { name, port } = authority;
    if (this.#isLoopback && isLoopbackName(name)) return true;
    if (isIP(name) !== 0 && name === canonicalHost(socket.localAddress ?? '')) return true;
    return this.#hosts.some((host) => host.name === name && isSamePort(host.port, port));
  }

  #isListed(origin: string): boolean {
    return this.#origins.size > 0 && this.#origins.has(canonicalOrigin(origin));
  }

  /** A name that passes only because all do proves nothing: it may be the page's own, pointed here. */
  #isOwnOrigin(origin: string, host: Authority | undefined, req: GuardedRequest): boolean {
    const [, scheme = '', rest = ''] = /^(https?):\/\/(.+)$/i.exec(origin) ?? [];
    const own = parseAuthority(rest);
    if (own === undefined || host === undefined || own.name !== host.name) return false;
    const defaultPort = scheme.toLowerCase() === 'https' ? 443 : 80;
    return (own.port ?? defaultPort) === (host.port ?? defaultPort) && this.#isKnownHost(host, req);
  }
}

/** An entry without port fits every port; a browser leaves out 80 and 443, whichever was meant. */
function isSamePort(allowed: number | undefined, sent: number | undefined): boolean {
  return allowed === undefined || allowed === sent || (sent === undefined && (allowed === 80 || allowed === 443));
}

/** Browsers send an origin in lower case and without the default port; people write it otherwise. */
function canonicalOrigin(origin: string): string {
  const lower = origin.toLowerCase();
  return lower.replace(/^(http:\/\/[^/]*):80$|^(https:\/\/[^/]*):443$/, '$1$2');
}

/** Quoted, and short enough for a message. */
function show(value: string): string {
  return JSON.stringify(value.length > shownLength ? `${value.slice(0, shownLength)}...` : value);
}

function refusedHost(hosts: readonly string[]): BridgeError {
  const [host] = hosts;
  const message =
    host === undefined || hosts.length > 1
      ? `The request has ${hosts.length} Host headers in place of one.`
      : `The host ${show(host)} is not one that this server answers to.`;
  return new BridgeError('host_refused', message, {
    hint: 'If clients reach the server by that name, list it in --http-allowed-hosts.',
  });
}

function refusedOrigin(origin: string): BridgeError {
  return new BridgeError('origin_refused', `Web pages of the origin ${show(origin)} may not use this server.`, {
    hint: 'If this page is to use the server, list its origin in --http-allowed-origins.',
  });
}
