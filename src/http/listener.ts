import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { isIPv6, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';

import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, type ErrorCode, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { holdBody } from './body.ts';
import { targetOf } from './guards.ts';
import { brokenRequestError, codeOf, listenError } from './listener-errors.ts';
import { requestClass, takeUpgrades, type UpgradeRoute } from './listener-upgrade.ts';
import { refuse, refuseRaw } from './reply.ts';
import { expiryWarning, loadTls, type TlsFiles } from './tls.ts';

/** Time for answers under way to leave when the listener closes. */
const closeMs = 1000;
/** Time for a client that sends nonsense to read what is wrong with it. */
const lingerMs = 1000;
/** A peer that vanished without a word is asked for from this silence on; the system's own default is two hours. */
const tcpKeepAliveMs = 60_000;
/** How late a time limit may be noticed; a shorter limit is looked at four times within it. */
const checkMs = 1000;

/** What `Listener` needs. */
export interface ListenerSettings {
  readonly protocol: 'http' | 'https';
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly tls?: TlsFiles | undefined;
  readonly limits: {
    readonly maxHeaderBytes: number;
    readonly headerTimeoutMs: number;
    /** For the whole request, from its first byte to the last of its body. */
    readonly bodyTimeoutMs: number;
    /** For a connection without a request. */
    readonly keepAliveTimeoutMs: number;
  };
  /** Serves one request; what it throws is answered, and logged unless it is a `BridgeError`. */
  onRequest(req: IncomingMessage, res: ServerResponse): void | Promise<void>;
  /** Takes the upgrade requests to its paths; every other one is served as the plain request that it also is. */
  readonly upgrades?: UpgradeRoute;
  /** Told of every request that the listener itself refuses. */
  onRefused?(code: ErrorCode): void;
  /** Told in a sentence of a certificate that has expired or soon will. */
  readonly onExpiry?: (warning: string) => void;
  readonly logger: Logger;
  readonly readFile: (path: string) => Buffer;
}

/** The HTTP server as a thing that opens and closes, with every limit on what a connection may do before its request is known. */
export class Listener {
  readonly #settings: ListenerSettings;
  /** As they are accepted, below TLS. */
  readonly #connections = new Set<Socket>();
  /** As HTTP sees them, above TLS. */
  readonly #channels = new Set<Duplex>();
  /** The latest answer under way on a channel. */
  readonly #answers = new Map<Duplex, ServerResponse>();
  /** Channels that were told that they send nonsense. */
  readonly #broken = new WeakSet<Duplex>();
  #server: Server | undefined;
  #setTls: ((options: SecureContextOptions) => void) | undefined;
  #isStopping = false;
  #closed: Promise<void> | undefined;

  constructor(settings: ListenerSettings) {
    this.#settings = settings;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Listens. Returns the base URL, without a final slash, and the port. Throws `listen_failed` or `tls`. */
  async open(): Promise<{ url: string; port: number }> {
    const { protocol, host, port, logger } = this.#settings;
    const server = this.#makeServer();
    this.#wire(server);
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) => {
        reject(listenError({ host, port }, cause));
      });
      server.listen({ host, port }, resolve);
    });
    this.#server = server;
    server.removeAllListeners('error');
    server.on('error', (cause) => {
      logger.error('server failed', { reason: messageOf(cause) });
    });
    const address = server.address();
    const actual = typeof address === 'object' ? (address?.port ?? port) : port;
    return { url: `${protocol}://${reachableHost(host)}:${actual}`, port: actual };
  }

  /** Reads certificate and key again for new connections. Throws `tls` and keeps the old ones when they cannot be used. */
  reloadTls(): void {
    this.#setTls?.(this.#loadTls());
  }

  /** Takes no new connection; each of the open ones is served until its next answer. */
  stopAccepting(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#server?.close();
  }

  /** Closes idle connections at once and the others when they are answered, at most a second later. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    if (server === undefined || (!server.listening && this.#connections.size === 0)) return;
    const ended = new Promise<void>((resolve) => server.once('close', resolve));
    this.stopAccepting();
    for (const channel of this.#channels) if (!this.#answers.has(channel)) channel.destroy();
    if ((await within(ended, closeMs)) !== timedOut) return;
    for (const channel of [...this.#channels, ...this.#connections]) channel.destroy();
    await ended;
  }

  #makeServer(): Server {
    const { protocol, limits, upgrades } = this.#settings;
    const { maxHeaderBytes, headerTimeoutMs, bodyTimeoutMs, keepAliveTimeoutMs } = limits;
    const options: ServerOptions = {
      maxHeaderSize: maxHeaderBytes,
      // Node counts both from the first byte, and the time for the headers may not be the longer one.
      headersTimeout: Math.min(headerTimeoutMs, bodyTimeoutMs),
      requestTimeout: bodyTimeoutMs,
      connectionsCheckingInterval: Math.min(checkMs, Math.ceil(Math.min(headerTimeoutMs, bodyTimeoutMs) / 4)),
      keepAliveTimeout: keepAliveTimeoutMs,
      keepAlive: true,
      keepAliveInitialDelay: tcpKeepAliveMs,
      // The guards refuse a request without Host, in the one shape of all refusals.
      requireHostHeader: false,
      // Whatever NODE_OPTIONS says.
      insecureHTTPParser: false,
      ...(upgrades === undefined ? {} : { IncomingMessage: requestClass(upgrades) }),
    };
    if (protocol === 'http') return createServer(options);
    const server = createTlsServer({ ...options, ...this.#loadTls(), handshakeTimeout: headerTimeoutMs });
    this.#setTls = (fresh) => {
      server.setSecureContext(fresh);
    };
    return server;
  }

  #loadTls(): SecureContextOptions {
    const { tls = {}, readFile, onExpiry } = this.#settings;
    const options = loadTls(tls, readFile);
    const warning = expiryWarning(tls.cert, options.cert, Date.now());
    if (warning !== undefined) onExpiry?.(warning);
    return options;
  }

  #wire(server: Server): void {
    const { protocol, upgrades } = this.#settings;
    const opened = protocol === 'http' ? 'connection' : 'secureConnection';
    keepWhileOpen(server, 'connection', this.#connections);
    keepWhileOpen(server, opened, this.#channels);
    if (upgrades !== undefined) takeUpgrades(server, upgrades);
    const serve = this.#serve.bind(this);
    server.on('request', serve);
    server.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
      holdBody(req, () => {
        res.writeContinue();
      });
      serve(req, res);
    });
    // An expectation that we do not know may be ignored (RFC 9110, 10.1.1).
    server.on('checkExpectation', serve);
    server.on('connect', (_req: IncomingMessage, channel: Duplex) => {
      this.#reject(channel, new BridgeError('http_method', 'This server is no proxy: CONNECT is not served.'));
    });
    server.on('clientError', (cause, channel) => {
      this.#onBroken(cause, channel);
    });
  }

  #serve(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req;
    this.#answers.set(socket, res);
    res.once('close', () => {
      if (this.#answers.get(socket) === res) this.#answers.delete(socket);
      if (this.#closed !== undefined) socket.destroySoon();
    });
    // A write after the client has gone is nothing to end the program for.
    res.on('error', (cause) => {
      this.#settings.logger.debug('answer failed', { reason: messageOf(cause) });
    });
    if (this.#isStopping) res.shouldKeepAlive = false;
    void this.#answer(req, res);
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      await this.#settings.onRequest(req, res);
    } catch (thrown) {
      const isRefusal = thrown instanceof BridgeError;
      if (!isRefusal) {
        const { path } = targetOf(req.url);
        this.#settings.logger.error('request failed', { method: req.method, path, reason: messageOf(thrown) });
      }
      // What went wrong inside of us is for the log.
      const error = isRefusal ? thrown : new BridgeError('internal', 'The server failed to serve this request.');
      if (res.headersSent) {
        res.destroy();
        return;
      }
      this.#settings.onRefused?.(error.code);
      refuse(res, error);
    }
  }

  /** The bytes of a client are no request, or did not come in time. */
  #onBroken(cause: Error, channel: Duplex): void {
    if (this.#broken.has(channel)) return;
    this.#settings.logger.debug('connection broken', { code: codeOf(cause) });
    const error = brokenRequestError(cause);
    const isSilent = 'bytesRead' in channel && channel.bytesRead === 0;
    // One who is gone, or failed at the handshake, hears nothing, and one who never said a word expects no answer.
    if (error === undefined || isSilent) channel.destroy();
    else this.#reject(channel, error);
  }

  /** Answers what is no proper request and closes its connection. */
  #reject(channel: Duplex, error: BridgeError): void {
    const res = this.#answers.get(channel);
    if (!channel.writable || res?.headersSent === true) {
      channel.destroy();
      return;
    }
    this.#broken.add(channel);
    this.#settings.onRefused?.(error.code);
    channel.on('error', () => undefined);
    if (res === undefined) refuseRaw(channel, error);
    else refuse(res, error, { headers: { connection: 'close' } });
    // One who has said its last word can be left at once, any other one not so fast that the answer is lost.
    if (channel.readableEnded && channel instanceof Socket) channel.destroySoon();
    else setTimeout(() => channel.destroy(), lingerMs).unref();
  }
}

function keepWhileOpen(server: Server, event: string, sockets: Set<Duplex>): void {
  server.on(event, (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
}

/** The host as it stands in a URL; for every network the loopback address, which is one of them. */
function reachableHost(host: string): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return isIPv6(reachable) ? `[${reachable.replace('%', '%25')}]` : reachable;
}
