import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Access } from './access.ts';
import type { Address } from './address.ts';
import { answerOf, Refusal, refuse, refuseUpgrade, send } from './answers.ts';
import { askBrowser, type BrowserAnswer, rewrite } from './discovery.ts';
import type { CapabilityState, Door, Doors, DoorTarget } from './door.ts';
import { Rejections } from './rejections.ts';
import { isGatewayPath, readTarget, type Route } from './routes.ts';
import { openSplice, refuseSocket, type Splice } from './splice.ts';

/** What a gateway is made with. */
export interface GatewayParts {
  readonly doors: Doors;
  readonly access: Access;
  /** The base of the URLs that it tells. */
  readonly address: Address;
  readonly logger: Logger;
  /** Told of each request that is not served. */
  readonly onRefused: (code: string) => void;
}

interface Admitted {
  readonly door: Door;
  readonly state: CapabilityState;
  readonly capability: string;
  readonly target: DoorTarget;
  readonly route: Route;
  readonly query: string;
}

/** Bytes of what Chromium says to a refused request: a sentence. */
const longestQuoted = 200;
const json = 'application/json; charset=utf-8';

/**
 * Lets CDP clients in: first who has a capability, then by which name and from which page, then how many. Whoever has
 * none gets one and the same answer, whatever he asks for, and costs the browser nothing.
 */
export class Gateway {
  readonly #parts: GatewayParts;
  readonly #rejections: Rejections;
  /** Chromium's description of the protocol, 1.6 MB that never change: kept for the browser that it came from. */
  #protocol: { readonly browserId: string; readonly answer: BrowserAnswer } | undefined;
  #sockets = 0;

  constructor(parts: GatewayParts) {
    this.#parts = parts;
    this.#rejections = new Rejections(parts.logger, parts.onRefused);
  }

  /** True for a path that is for the gateway. */
  handles(path: string): boolean {
    return isGatewayPath(path);
  }

  /** Serves one HTTP request; whatever goes wrong is answered. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    // The time of the answer before, on the same connection, does not run on while the browser is asked.
    res.setTimeout(0);
    try {
      const admitted = this.#admit(req);
      checkMethod(req, admitted.route);
      checkBody(req);
      const release = admitted.door.admitRequest();
      if (release === undefined)
        throw new Refusal('too_many_requests', 'Too many requests of this browser are running.', {
          headers: { 'retry-after': '1' },
        });
      try {
        await this.#serve(req, res, admitted);
      } finally {
        release();
      }
    } catch (failure) {
      // Nobody is there any more to be refused.
      if (!res.destroyed) refuse(res, this.#asRefusal(failure));
    }
  }

  /**
   * Serves one request for a WebSocket; whatever goes wrong is answered. One that asks for something else in passing, as
   * Java's client does with `Upgrade: h2c`, is served as the plain request that it also is.
   */
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    // The client may go at any moment.
    socket.on('error', () => undefined);
    if (req.headers.upgrade?.toLowerCase() !== 'websocket') {
      const res = answerOf(req, socket);
      if (res === undefined) socket.destroy();
      else void this.handle(req, res);
      return;
    }
    this.#upgrade(req, socket, head).catch((failure: unknown) => {
      refuseUpgrade(socket, this.#asRefusal(failure));
    });
  }

  async #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { door, route, state } = this.#admit(req);
    const { policy, limits } = door.settings;
    if (state === 'staged' || (route.kind !== 'browser' && route.kind !== 'page')) throw unknown();
    if (req.method !== 'GET') throw new Refusal('bad_request', 'A WebSocket begins with GET.');
    if (door.connections >= limits.maxConnections) {
      this.#rejections.note('too_many_connections');
      refuseSocket({ req, socket, head }, 1013, `more than ${limits.maxConnections} connections`);
      return;
    }
    this.#sockets += 1;
    const id = this.#sockets;
    await door.admitSocket((target): Promise<Splice> => {
      const path = pathOf(route, target);
      const { logger } = this.#parts;
      logger.debug('CDP client came', { count: id, generation: target.generation });
      const events = {
        onMessage: () => {
          door.noteMessage();
        },
        onDenied: (method: string) => {
          door.noteDenied(method);
        },
      };
      const parts = { id, req, socket, head, target: { port: target.port, path }, limits, policy, logger };
      return openSplice({ ...parts, ...events });
    });
  }

  /** The order is that of facts/managed-cdp 7.5: nothing is told to somebody without a capability. */
  #admit(req: IncomingMessage): Admitted {
    const asked = readTarget(req.url ?? '');
    const found = asked === undefined ? undefined : this.#parts.doors.find(asked.capability);
    if (asked === undefined || found === undefined) throw unknown();
    const { door, state } = found;
    if (state === 'past')
      throw new Refusal(
        'generation_replaced',
        'The browser of this address has ended; the address is not used again.',
        {
          hint: 'cloakbrowser_bridge_info tells the address of the next browser once a call has started it.',
        },
      );
    const { target } = door;
    const { route, capability, query } = asked;
    if (target === undefined || route === undefined || !leadsTo(route, state, target)) throw unknown();
    this.#parts.access.check(req, isChanging(route.kind));
    return { door, state, capability, target, route, query };
  }

  async #serve(req: IncomingMessage, res: ServerResponse, admitted: Admitted): Promise<void> {
    const { route, door, target } = admitted;
    if (route.kind === 'browser' || route.kind === 'page')
      throw new Refusal('bad_request', 'This address is for a WebSocket.', { headers: { upgrade: 'websocket' } });
    if (isChanging(route.kind) && !door.settings.policy.allowsRoute(route.kind))
      throw new Refusal('denied_by_policy', `The policy ${door.settings.policy.name} of this bridge denies it.`);
    const answer = await this.#ask(req, res, admitted);
    // It may have ended meanwhile, and then this was another browser's port for all we know.
    if (door.target !== target) throw unavailable();
    checkAnswer(answer);
    const { stallTimeoutMs } = door.settings.limits;
    const isText = route.kind === 'activate' || route.kind === 'close';
    const isKept = isText || route.kind === 'protocol';
    const text = isKept ? answer.body : this.#rewrite(answer, admitted);
    const type = isText ? 'text/plain; charset=utf-8' : json;
    await send(res, 200, { text, type, stallTimeoutMs });
  }

  #rewrite(answer: BrowserAnswer, { route, capability, target }: Admitted): string {
    const text = rewrite(answer.body, { address: this.#parts.address, capability });
    // Another browser may have taken the port when the pinned one had ended.
    if (route.kind === 'version' && !text.includes(`/devtools/browser/${target.browserId}"`)) throw unavailable();
    return text;
  }

  async #ask(req: IncomingMessage, res: ServerResponse, admitted: Admitted): Promise<BrowserAnswer> {
    const { route, target, door, query } = admitted;
    if (route.kind === 'protocol' && this.#protocol?.browserId === target.browserId) return this.#protocol.answer;
    const gone = new AbortController();
    const abort = (): void => {
      gone.abort();
    };
    res.once('close', abort);
    try {
      const method = req.method === 'PUT' ? 'PUT' : 'GET';
      const path = innerPath(route, query);
      const answer = await askBrowser({ port: target.port, method, path, limits: door.settings.limits }, gone.signal);
      if (route.kind === 'protocol' && answer.status === 200) this.#protocol = { browserId: target.browserId, answer };
      return answer;
    } finally {
      res.off('close', abort);
    }
  }

  #asRefusal(failure: unknown): Refusal {
    const refusal = failure instanceof Refusal ? failure : undefined;
    this.#rejections.note(refusal?.code ?? 'internal');
    if (refusal !== undefined) return refusal;
    this.#parts.logger.error('CDP request failed', { reason: messageOf(failure) });
    return new Refusal('bad_gateway', 'The bridge failed to serve this request; its log tells more.');
  }
}

function unknown(): Refusal {
  return new Refusal('not_found', 'There is nothing at this address.');
}

/** A staged capability is for the bridge's own look only, and a browser's address for exactly this browser. */
function leadsTo(route: Route, state: CapabilityState, { browserId }: DoorTarget): boolean {
  if (state === 'staged') return route.kind === 'version';
  return route.kind !== 'browser' || route.id === undefined || route.id === browserId;
}

function unavailable(): Refusal {
  return new Refusal('browser_unavailable', 'The browser of this address is not there any more.');
}

function isChanging(kind: Route['kind']): kind is 'new' | 'activate' | 'close' {
  return kind === 'new' || kind === 'activate' || kind === 'close';
}

function methodsOf(kind: Route['kind']): readonly string[] {
  if (kind === 'new') return ['PUT'];
  return kind === 'activate' || kind === 'close' ? ['GET', 'PUT'] : ['GET'];
}

function checkMethod({ method }: IncomingMessage, { kind }: Route): void {
  const methods = methodsOf(kind);
  if (methods.includes(method ?? '')) return;
  throw new Refusal('method_not_allowed', `The method ${method ?? ''} is not used here; ${methods.join(', ')} is.`, {
    headers: { allow: methods.join(', ') },
  });
}

function checkBody({ headers }: IncomingMessage): void {
  const length = Number(headers['content-length'] ?? 0);
  if (length === 0 && headers['transfer-encoding'] === undefined) return;
  throw new Refusal('body_not_allowed', 'Requests have no body here.');
}

function checkAnswer({ status, body }: BrowserAnswer): void {
  if (status === 200) return;
  if (status < 400 || status >= 500) throw new Refusal('bad_gateway', `The browser answered with ${status}.`);
  const text = body.toString('utf8', 0, longestQuoted);
  throw new Refusal('upstream_refused', `The browser refused it: ${text}`, { status });
}

/** What Chromium is asked; the query of a reading request is the client's own and means nothing to it. */
function innerPath(route: Route, query: string): string {
  if (route.kind === 'new') return `/json/new${query === '' ? '' : `?${query}`}`;
  if (route.kind === 'activate' || route.kind === 'close') return `/json/${route.kind}/${route.id}`;
  return `/json/${route.kind}`;
}

function pathOf(route: Route, { browserId }: DoorTarget): string {
  return route.kind === 'page' ? `/devtools/page/${route.id}` : `/devtools/browser/${browserId}`;
}
