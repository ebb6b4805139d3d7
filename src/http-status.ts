import type { BinarySource } from './browser/binary.ts';
import type { Settings } from './config/options.ts';
import type { ErrorCode } from './core/errors.ts';
import type { ProcessMeter, Usage } from './core/process-meter.ts';
import type { ServerStatus, SessionStatus } from './core/server-status.ts';
import { bridgeVersion } from './core/version.ts';
import type { HttpSession } from './http/http-session.ts';
import type { Metrics, Readings } from './http/metrics.ts';
import type { ProbeFacts } from './http/probes.ts';
import type { Lodgings } from './http-lodgings.ts';
import type { Registry } from './session/registry.ts';

/** What the status of a server is read from. */
export interface HttpStatusParts {
  readonly settings: Settings;
  readonly startsMax: number;
  readonly lodgings: Lodgings;
  readonly meter: ProcessMeter;
  /** The search for the browser program; undefined where upstream chooses it. */
  readonly browser: () => BinarySource | undefined;
  readonly registry: Registry<HttpSession>;
  /** Memory and processor time of the bridge itself. */
  readonly self: () => Readings['bridge'];
  /** The address that was printed at the start. */
  readonly url: () => string;
  /** WebSockets of CDP clients that are open. */
  readonly cdpConnections: () => number;
}

/** Tells how an HTTP server is, for probes, metrics and the status page. */
export class HttpStatus {
  readonly #parts: HttpStatusParts;
  readonly #startedAt = performance.now();

  constructor(parts: HttpStatusParts) {
    this.#parts = parts;
  }

  /** What a scrape shows. */
  async readings(): Promise<Readings> {
    const { lodgings, settings, self, meter } = this.#parts;
    const { registry } = this.#parts;
    const usages = [...(await meter.read()).values()];
    const { queue, spares } = lodgings;
    const { children, browsers } = spares.counts();
    return {
      sessions: registry.counts(),
      sessionsMax: settings.httpSessionMax,
      isDraining: registry.isDraining,
      callsInFlight: [...registry.sessions()].reduce((sum, { channel }) => sum + channel.inFlight, 0),
      cdpConnections: this.#parts.cdpConnections(),
      startQueue: { running: queue.running, waiting: queue.waiting },
      spares: { children, browsers },
      bridge: self(),
      children: {
        count: usages.reduce((sum, { count }) => sum + count, 0),
        memoryBytes: usages.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
      },
    };
  }

  /** What the probes answer from. */
  facts(metrics: Metrics): ProbeFacts {
    return {
      version: bridgeVersion,
      uptimeMs: () => this.#uptimeMs(),
      sessions: () => this.#counts(),
      unready: () => this.#parts.registry.refusal()?.code ?? this.#missingBrowser(),
      metrics,
      status: () => this.#status(),
    };
  }

  /** Why a new session would get no browser now; undefined if it would. */
  #missingBrowser(): ErrorCode | undefined {
    const download = this.#parts.browser()?.download;
    if (download === undefined || download.state === 'ready') return undefined;
    return download.state === 'failed' ? download.code : 'start_pending';
  }

  #uptimeMs(): number {
    return Math.round(performance.now() - this.#startedAt);
  }

  #counts(): { readonly active: number; readonly pending: number; readonly max: number } {
    const { registry } = this.#parts;
    const { open, closing } = registry.counts();
    const pending = [...registry.sessions()].filter(
      ({ session }) => session.gate.describe().state === 'starting',
    ).length;
    return { active: open + closing, pending, max: this.#parts.settings.httpSessionMax };
  }

  async #status(): Promise<ServerStatus> {
    const { settings, startsMax, lodgings, meter, self, url } = this.#parts;
    const { registry } = this.#parts;
    const usages = await meter.read();
    const { queue, spares } = lodgings;
    return {
      name: 'cloakbrowser-mcp',
      version: bridgeVersion,
      uptimeMs: this.#uptimeMs(),
      url: url(),
      replica: settings.replicaId ?? null,
      draining: registry.isDraining,
      memoryBytes: self().memoryBytes,
      sessions: [...registry.sessions()].map((session) => describe(session, usages)),
      limits: { sessions: settings.httpSessionMax, starts: startsMax },
      startQueue: { running: queue.running, waiting: queue.waiting },
      spares: spares.counts(),
    };
  }
}

function describe(session: HttpSession, usages: ReadonlyMap<string, Usage>): SessionStatus {
  const now = performance.now();
  const { number, pid } = session.session.gate.describe();
  const { workspace } = session;
  return {
    hash: session.hash,
    state: 'open',
    client: session.client,
    ageMs: Math.round(now - session.createdAt),
    idleMs: session.isBusy() ? 0 : Math.round(now - session.lastUsedAt),
    calls: session.callCount(),
    inFlight: session.channel.inFlight,
    generation: number,
    pid: pid ?? null,
    memoryBytes: workspace === undefined ? null : (usages.get(workspace)?.memoryBytes ?? null),
  };
}
