import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { Access } from './cdp/access.ts';
import type { Address } from './cdp/address.ts';
import { Door, Doors } from './cdp/door.ts';
import { Gateway } from './cdp/gateway.ts';
import { Ports } from './cdp/lease.ts';
import { makePolicy } from './cdp/policy.ts';
import { removePortFile } from './cdp/port-file.ts';
import { Surface, type SurfaceParts } from './cdp/surface.ts';
import { addressOf, type AdvertisedSettings, LeasedVenue, SharedVenue, type Venue } from './cdp/venue.ts';
import type { Settings } from './config/options.ts';
import type { Logger } from './core/logger.ts';
import { isLoopbackHost } from './core/loopback.ts';

/** Time for a client or a browser to finish the opening of a WebSocket, in milliseconds (facts/managed-cdp 7.7). */
const handshakeTimeoutMs = 10_000;

/** What the surface of one session is made with. */
export interface SurfaceWish {
  readonly logger: Logger;
  readonly tell: SurfaceParts['tell'];
  readonly calls: SurfaceParts['idle']['calls'];
  /** A CDP client sent something. */
  readonly onActivity: () => void;
}

/** Managed CDP of a program: makes the surface of each session, and holds what they share. Loaded only where it is used. */
export class Surfaces {
  readonly #settings: Settings;
  readonly #logger: Logger;
  readonly #onRefused: (reason: string) => void;
  readonly #doors = new Doors();
  readonly #ports: Ports | undefined;
  #gateway: Gateway | undefined;
  #address: Address | undefined;
  #connections = 0;

  /** `onRefused` is told of each request of a CDP client that is not served. */
  constructor(settings: Settings, logger: Logger, onRefused: (reason: string) => void = () => undefined) {
    this.#settings = settings;
    this.#logger = logger;
    this.#onRefused = onRefused;
    const { transport, cdpPortRange, cdpHost } = settings;
    if (transport === 'stdio' || cdpPortRange !== undefined)
      this.#ports = new Ports({ range: readRange(cdpPortRange), host: cdpHost, logger });
  }

  /** True where the main listener serves the doors. */
  get isShared(): boolean {
    return this.#ports === undefined;
  }

  /** WebSockets of CDP clients that are open. */
  get connections(): number {
    return this.#connections;
  }

  /** Tells where the main listener listens. */
  listen(listener: { readonly scheme: 'http' | 'https'; readonly port: number }): void {
    if (!this.isShared) return;
    const advertised = this.#advertised(this.#settings.httpHost);
    const { bindHost, allowedOrigins, advertisedHost } = advertised;
    const address = addressOf(advertised, listener);
    this.#address = address;
    const access = new Access({
      bindHost,
      port: listener.port,
      advertised: advertisedHost === undefined ? undefined : address,
      allowedOrigins,
    });
    this.#gateway = new Gateway({
      doors: this.#doors,
      access,
      address,
      logger: this.#logger,
      onRefused: this.#onRefused,
    });
  }

  /** True for a path of the main listener that is managed CDP's. */
  handles(path: string): boolean {
    return this.#gateway?.handles(path) === true;
  }

  /** Serves a request of the main listener to such a path. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    await this.#gateway?.handle(req, res);
  }

  /** Serves a request of the main listener for a WebSocket at such a path. */
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#gateway?.upgrade(req, socket, head);
  }

  /** Removes what an earlier browser left in a profile that a later one will say anew. */
  forget(userDataDir: string): void {
    removePortFile(userDataDir);
  }

  /** The surface of one session; nothing is listened on and no browser is started for it yet. */
  make(wish: SurfaceWish): Surface {
    const { cdpHeartbeatMs, cdpLossTimeoutMs, cdpIdleTtlMs } = this.#settings;
    const { logger, tell, calls } = wish;
    return new Surface({
      venue: this.#venue(logger),
      door: this.#door(wish),
      logger,
      heartbeatMs: cdpHeartbeatMs,
      lossTimeoutMs: cdpLossTimeoutMs,
      idle: { idleTtlMs: cdpIdleTtlMs, calls },
      tell,
    });
  }

  #advertised(bindHost: string): AdvertisedSettings {
    const { cdpAdvertisedHost, cdpAdvertisedScheme, cdpAllowOrigin } = this.#settings;
    return {
      bindHost,
      advertisedHost: cdpAdvertisedHost,
      advertisedScheme: cdpAdvertisedScheme,
      allowedOrigins: cdpAllowOrigin,
    };
  }

  #venue(logger: Logger): Venue {
    if (this.#ports === undefined) return new SharedVenue(this.#doors, () => this.#address);
    const settings = this.#advertised(this.#settings.cdpHost);
    return new LeasedVenue({ ports: this.#ports, settings, logger, onRefused: this.#onRefused });
  }

  #door({ logger, onActivity }: SurfaceWish): Door {
    const settings = this.#settings;
    const bindHost = this.isShared ? settings.httpHost : settings.cdpHost;
    // Whoever reaches it from elsewhere shares the browser with people who cannot see him.
    const name = settings.cdpPolicy ?? (isLoopbackHost(bindHost) ? 'full' : 'guarded');
    return new Door({
      settings: {
        policy: makePolicy({ name, allow: settings.cdpAllow, deny: settings.cdpDeny }),
        limits: {
          maxConnections: settings.cdpMaxConnections,
          maxRequestBytes: settings.cdpMaxRequestBytes,
          maxAnswerBytes: settings.cdpMaxAnswerBytes,
          bufferBytes: settings.cdpBufferBytes,
          stallTimeoutMs: settings.cdpStallTimeoutMs,
          pingIntervalMs: settings.cdpPingIntervalMs,
          httpMax: settings.cdpHttpMax,
          httpMaxBytes: settings.cdpHttpMaxBytes,
          httpTimeoutMs: settings.cdpHttpTimeoutMs,
          handshakeTimeoutMs,
        },
      },
      events: {
        onActivity,
        onOpened: () => {
          this.#connections += 1;
        },
        onClosed: () => {
          this.#connections -= 1;
        },
      },
      logger,
    });
  }
}

function readRange(text: string | undefined): { readonly from: number; readonly to: number } | undefined {
  const [from, to = from] = (text ?? '').split('-').map(Number);
  return text === undefined || from === undefined || to === undefined ? undefined : { from, to };
}
