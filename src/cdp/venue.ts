import { get } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';

import { parseAdvertisedHost } from '../core/advertised-host.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { Access } from './access.ts';
import { type Address, authorityOf } from './address.ts';
import { type Door, Doors } from './door.ts';
import { Gateway } from './gateway.ts';
import type { Lease, Ports } from './lease.ts';

/** Time for the bridge's own look through the gateway. */
const verifyMs = 10_000;

/** What the operator says about addresses. */
export interface AdvertisedSettings {
  /** The host that is listened on. */
  readonly bindHost: string;
  /** `host[:port][/path]` that clients use, where it is another one. */
  readonly advertisedHost: string | undefined;
  readonly advertisedScheme: 'http' | 'https' | undefined;
  readonly allowedOrigins: readonly string[];
}

/** A door that is reachable. */
export interface OpenVenue {
  readonly address: Address;
  readonly port: number;
  /** Looks from outside whether the staged capability leads to the browser. Throws `cdp_start_failed`. */
  verify(capability: string, signal: AbortSignal): Promise<void>;
}

/** Where the door of one session is reached. */
export interface Venue {
  /** Makes the door reachable, once; later calls return the same. Throws `cdp_ports_busy`. */
  open(door: Door, signal: AbortSignal): Promise<OpenVenue>;
  /** Makes it unreachable and gives back what is exclusive. */
  close(): Promise<void>;
}

/** The address of which URLs are made: what the operator advertises, else the listener itself. */
export function addressOf(
  settings: AdvertisedSettings,
  listener: { readonly scheme: 'http' | 'https'; readonly port: number },
): Address {
  const { advertisedHost, advertisedScheme, bindHost } = settings;
  const scheme = advertisedScheme ?? listener.scheme;
  const advertised = advertisedHost === undefined ? undefined : parseAdvertisedHost(advertisedHost);
  if (advertised !== undefined) return { scheme, ...advertised, port: advertised.port ?? listener.port };
  return { scheme, host: isIPv6(bindHost) ? `[${bindHost}]` : bindHost, port: listener.port, path: '' };
}

/** What a venue of its own is made with. */
export interface LeasedVenueParts {
  readonly ports: Ports;
  readonly settings: AdvertisedSettings;
  readonly logger: Logger;
  readonly onRefused: (code: string) => void;
}

/** A port of the session's own, leased with its first browser and kept to the end. */
export class LeasedVenue implements Venue {
  readonly #parts: LeasedVenueParts;
  #opening: Promise<{ readonly lease: Lease; readonly opened: OpenVenue }> | undefined;

  constructor(parts: LeasedVenueParts) {
    this.#parts = parts;
  }

  async open(door: Door, signal: AbortSignal): Promise<OpenVenue> {
    const opening = (this.#opening ??= this.#lease(door, signal));
    try {
      return (await opening).opened;
    } catch (failure) {
      // The next browser may find a free port.
      if (this.#opening === opening) this.#opening = undefined;
      throw failure;
    }
  }

  async close(): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined);
    await opened?.lease.close();
  }

  async #lease(door: Door, signal: AbortSignal): Promise<{ readonly lease: Lease; readonly opened: OpenVenue }> {
    const { ports, settings, logger, onRefused } = this.#parts;
    const doors = new Doors();
    doors.add(door);
    const inner: { gateway?: Gateway } = {};
    const lease = await ports.acquire(
      {
        onRequest: (req, res) => {
          if (inner.gateway === undefined) res.destroy();
          else void inner.gateway.handle(req, res);
        },
        onUpgrade: (req, socket, head) => {
          if (inner.gateway === undefined) socket.destroy();
          else inner.gateway.upgrade(req, socket, head);
        },
      },
      signal,
    );
    const { port } = lease;
    const address = addressOf(settings, { scheme: 'http', port });
    const advertised = settings.advertisedHost === undefined ? undefined : address;
    const { bindHost, allowedOrigins } = settings;
    const access = new Access({ bindHost, port, advertised, allowedOrigins });
    inner.gateway = new Gateway({ doors, access, address, logger, onRefused });
    const at = isIPv6(bindHost) ? `[${bindHost}]` : bindHost;
    const own = { host: bindHost, port, authority: advertised === undefined ? `${at}:${port}` : authorityOf(address) };
    return { lease, opened: { address, port, verify: (capability, abort) => verify(own, capability, abort) } };
  }
}

/** One listener for the doors of all sessions, which outlives them. */
export class SharedVenue implements Venue {
  readonly #doors: Doors;
  readonly #address: () => Address | undefined;
  #remove: (() => void) | undefined;

  /** `address`: of the listener, once it listens. */
  constructor(doors: Doors, address: () => Address | undefined) {
    this.#doors = doors;
    this.#address = address;
  }

  open(door: Door): Promise<OpenVenue> {
    const address = this.#address();
    if (address === undefined) return Promise.reject(new BridgeError('closing', 'The server does not listen.'));
    this.#remove ??= this.#doors.add(door);
    // The listener serves already, or nobody could have opened this session.
    return Promise.resolve({ address, port: address.port, verify: () => Promise.resolve() });
  }

  close(): Promise<void> {
    this.#remove?.();
    this.#remove = undefined;
    return Promise.resolve();
  }
}

interface Own {
  readonly host: string;
  readonly port: number;
  readonly authority: string;
}

async function verify({ host, port, authority }: Own, capability: string, signal: AbortSignal): Promise<void> {
  const wildcards: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const options = {
      host: wildcards[host] ?? host,
      port,
      path: `/cdp/${capability}/json/version`,
      headers: { host: authority },
      signal: AbortSignal.any([signal, AbortSignal.timeout(verifyMs)]),
      agent: false,
    };
    const request = get(options, (response: IncomingMessage) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.once('error', reject);
  }).catch((failure: unknown) => {
    throw new BridgeError(
      'cdp_start_failed',
      `The port ${port} of managed CDP cannot be reached: ${messageOf(failure)}`,
    );
  });
  if (status !== 200)
    throw new BridgeError(
      'cdp_start_failed',
      `The browser is not reached through port ${port}: status ${status ?? 0}.`,
    );
}
