import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';

/** Headers of CDP clients are a few hundred bytes; a capability is 43 characters (facts/managed-cdp 7.5). */
const maxHeaderBytes = 16_384;
/** Time for the headers of a request to arrive. */
const headerTimeoutMs = 10_000;
/** Discovery is a request or two, so that an idle connection is not worth keeping for longer. */
const keepAliveTimeoutMs = 5000;

/** What serves a leased port. */
export interface LeaseHandlers {
  readonly onRequest: (req: IncomingMessage, res: ServerResponse) => void;
  readonly onUpgrade: (req: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

/** An exclusive hold on one port. */
export interface Lease {
  readonly port: number;
  /** Ends every connection and frees the port. */
  close(): Promise<void>;
}

/** What ports are leased from. */
export interface PortsParts {
  /** Both ends included; undefined lets the system choose. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  readonly host: string;
  readonly logger: Logger;
}

/** The ports that sessions of this program may lease. To listen is to hold: there is no moment between choice and use. */
export class Ports {
  readonly #parts: PortsParts;
  readonly #leased = new Set<number>();
  /** Where the next search begins, so that whoever still has an address of an ended session meets nobody else's soon. */
  #start: number;

  constructor(parts: PortsParts) {
    this.#parts = parts;
    this.#start = parts.range?.from ?? 0;
  }

  /** Listens on a port that nobody else holds. Throws `cdp_ports_busy`, or `closing` when aborted. */
  async acquire(handlers: LeaseHandlers, signal: AbortSignal): Promise<Lease> {
    const { range, logger } = this.#parts;
    const failures: unknown[] = [];
    for (const port of range === undefined ? [0] : portsOf(range, this.#start)) {
      if (signal.aborted) throw new BridgeError('closing', 'The session is ending.');
      // Noted before the system is asked, so that two sessions that come at once do not both ask for it.
      if (this.#leased.has(port)) continue;
      if (range !== undefined) {
        this.#leased.add(port);
        this.#start = port === range.to ? range.from : port + 1;
      }
      try {
        return await this.#listen(port, handlers);
      } catch (failure) {
        this.#leased.delete(port);
        failures.push(failure);
        logger.debug('CDP port skipped', { port, reason: messageOf(failure) });
        if (range === undefined || !isTaken(failure)) throw this.#unusable(failure);
      }
    }
    throw this.#busy(failures);
  }

  async #listen(port: number, handlers: LeaseHandlers): Promise<Lease> {
    const server = makeServer(handlers);
    const sockets = new Set<Duplex>();
    server.on('connection', (socket: Duplex) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: this.#parts.host, port, exclusive: true }, resolve);
    });
    server.removeAllListeners('error');
    server.on('error', (failure) => {
      this.#parts.logger.error('CDP listener failed', { port, reason: messageOf(failure) });
    });
    const address = server.address();
    const actual = typeof address === 'object' ? (address?.port ?? port) : port;
    let closing: Promise<void> | undefined;
    const close = async (): Promise<void> => {
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      for (const socket of sockets) socket.destroy();
      await closed;
      this.#leased.delete(actual);
    };
    return { port: actual, close: () => (closing ??= close()) };
  }

  #unusable(cause: unknown): BridgeError {
    return new BridgeError('cdp_ports_busy', `Managed CDP cannot listen on ${this.#parts.host}: ${messageOf(cause)}.`, {
      hint: 'Correct --cdp-host, or the ports of --cdp-port-range.',
      cause,
    });
  }

  #busy(failures: readonly unknown[]): BridgeError {
    const { range: { from, to } = { from: 0, to: 0 }, host } = this.#parts;
    const range = from === to ? String(from) : `${from}-${to}`;
    const count = to - from + 1;
    const denied = failures.filter((failure) => codeOf(failure) === 'EACCES').length;
    const others = failures.length - denied;
    const held = [
      `${count - failures.length} leased by sessions of this program`,
      `${others} held by other programs`,
      ...(denied === 0 ? [] : [`${denied} not open to this user`]),
    ];
    return new BridgeError(
      'cdp_ports_busy',
      `No port of --cdp-port-range ${range} is free on ${host}: ${held.join(', ')}.`,
      {
        hint: 'Give a wider range, or end what holds the ports; then try the call again.',
        cause: failures.at(-1),
      },
    );
  }
}

/** All of a range, each once, from one of them on. */
function portsOf({ from, to }: { readonly from: number; readonly to: number }, start: number): number[] {
  const count = to - from + 1;
  return Array.from({ length: count }, (_none, index) => from + ((start - from + index) % count));
}

/** Held by another program, or not ours to take. */
function isTaken(failure: unknown): boolean {
  return ['EADDRINUSE', 'EACCES'].includes(codeOf(failure));
}

function codeOf(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? String(failure.code) : '';
}

function makeServer({ onRequest, onUpgrade }: LeaseHandlers): Server {
  const server = createServer({
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: headerTimeoutMs,
    requestTimeout: headerTimeoutMs,
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: keepAliveTimeoutMs,
    insecureHTTPParser: false,
    // The gateway refuses a request without Host in the one shape of all refusals.
    requireHostHeader: false,
  });
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    // A write after the client has gone is nothing to end the program for.
    res.on('error', () => undefined);
    onRequest(req, res);
  };
  server.on('request', serve);
  // No permission to send a body is ever given, and an expectation that we do not know may be ignored.
  for (const event of ['checkContinue', 'checkExpectation']) server.on(event, serve);
  server.on('upgrade', onUpgrade);
  server.on('connect', (_req, socket: Duplex) => {
    socket.destroy();
  });
  return server;
}
