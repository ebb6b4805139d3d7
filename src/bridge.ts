import type { BinarySource } from './browser/binary.ts';
import { type DownloadState, describeDownload } from './browser/download-state.ts';
import type { Children } from './children.ts';
import { describeSettings } from './config/resolve.ts';
import type { Logger } from './core/logger.ts';
import { bridgeVersion } from './core/version.ts';
import type { Foundation } from './foundation.ts';
import { describeBinary, describeBridge } from './relay/bridge-info.ts';
import type { ClientPort } from './relay/client-port.ts';
import { Listing } from './relay/listing.ts';
import { binaryInfoTool, bridgeInfoTool } from './relay/local-tools.ts';
import type { Surface } from './cdp/surface.ts';
import type { StartedChild } from './session/generation.ts';
import { Session, type SessionEvents } from './session/session.ts';
import type { Surfaces } from './surfaces.ts';

const instructions =
  'The browser tools are those of Playwright MCP. cloakbrowser_bridge_info tells the state of this server and why a call failed.';

/** Children of a session, and the first of them if it was started ahead of need. */
export interface Lodging {
  readonly children: Children;
  readonly spare?: StartedChild | undefined;
}

/** What a bridge is made with. */
export interface BridgeParts {
  readonly foundation: Foundation;
  readonly client: ClientPort;
  readonly logger: Logger;
  /** True to start the first child with the client's `initialize`. */
  readonly isEager: boolean;
  readonly headless: boolean;
  /** Gives the session its children, when it first needs one. */
  readonly lodge: () => Lodging;
  readonly events?: SessionEvents;
  /** What `cloakbrowser_bridge_info` tells of the session's place on an HTTP server. */
  readonly describeHttp?: () => Readonly<Record<string, unknown>>;
  /** Managed CDP; undefined where the session has none. */
  readonly surfaces?: Pick<Surfaces, 'make'> | undefined;
  /** A CDP client of the session sent something. */
  readonly onCdpActivity?: () => void;
}

/** One session with everything below it, over whatever transport brings its lines. */
export class Bridge {
  readonly session: Session;
  readonly #parts: BridgeParts;
  readonly #binary: BinarySource | undefined;
  readonly #listing: Listing;
  readonly #surface: Surface | undefined;
  readonly #startedAt = performance.now();
  readonly #unwatch: () => void;
  #children: Children | undefined;

  constructor(parts: BridgeParts) {
    const { foundation, logger } = parts;
    const { setup } = foundation;
    this.#parts = parts;
    this.#binary = foundation.binary(parts.headless);
    this.#listing = new Listing({
      logger,
      localTools: [binaryInfoTool(() => this.#binaryInfo()), bridgeInfoTool(() => this.#bridgeInfo())],
      hidden: setup.settings.hideTools,
      serverInfo: { name: 'cloakbrowser-mcp', title: 'CloakBrowser MCP', version: bridgeVersion },
      instructions,
      hasLog: parts.surfaces !== undefined,
    });
    this.#surface = this.#makeSurface();
    this.session = new Session({
      client: parts.client,
      listing: this.#listing,
      logger,
      limits: setup.settings,
      catalog: foundation.catalog(),
      storeCatalog: (catalog) => {
        foundation.correctCatalog(catalog);
      },
      startChild: (number, signal) => this.#startChild(number, signal),
      describeWait: () => this.#children?.describeWait() ?? 'the browser server is being started',
      isEager: parts.isEager,
      surface: this.#surface,
      opensSurface: setup.settings.cdpEager,
      ...(parts.events === undefined ? {} : { events: parts.events }),
    });
    this.#unwatch = foundation.watchDownload((state) => {
      this.#tellDownload(state);
    });
  }

  /** Where the session's children put files: working folder and output folder. None before the first child. */
  get fileFolders(): readonly string[] {
    const place = this.#children?.place;
    return place === undefined ? [] : [place.cwd, ...(place.outputDir === undefined ? [] : [place.outputDir])];
  }

  /** Ends the session and its children, once; their folders are given back by whoever made them. */
  close(): Promise<void> {
    this.#unwatch();
    return this.session.close();
  }

  #makeSurface(): Surface | undefined {
    const { surfaces, logger, onCdpActivity } = this.#parts;
    return surfaces?.make({
      logger,
      tell: (level, data) => {
        this.session.relay.tellLog(level, data);
      },
      calls: () => {
        const { relay, gate } = this.session;
        return { count: relay.forwarded, isRunning: gate.link !== undefined && relay.toolsAt(gate.link).length > 0 };
      },
      onActivity: () => onCdpActivity?.(),
    });
  }

  #startChild(number: number, signal: AbortSignal): Promise<StartedChild> {
    if (this.#children === undefined) {
      const { children, spare } = this.#parts.lodge();
      this.#children = children;
      if (spare !== undefined) return Promise.resolve(spare);
    }
    return this.#children.start(number, signal);
  }

  #tellDownload(state: DownloadState): void {
    if (state.state !== 'downloading') return;
    const total = state.totalBytes === undefined ? {} : { total: state.totalBytes };
    this.session.relay.tellProgress({ progress: state.receivedBytes, ...total, message: describeDownload(state) });
  }

  async #binaryInfo(): Promise<Readonly<Record<string, unknown>>> {
    const { host } = this.#parts.foundation.parts;
    const { releaseChannel, binaryPath } = this.#parts.foundation.setup.settings;
    const known = { platform: host.platform, releaseChannel, binaryPath };
    return describeBinary(await this.#binary?.info(), known);
  }

  #bridgeInfo(): Promise<Readonly<Record<string, unknown>>> {
    const { foundation, describeHttp } = this.#parts;
    const { resolved, nodeVersion, host, redactor } = foundation.parts;
    const { setup } = foundation;
    const { settings } = setup;
    const { gate, lastLoss, state, relay } = this.session;
    const place = this.#children?.place;
    const facts = describeBridge({
      version: bridgeVersion,
      transport: settings.transport,
      nodeVersion,
      upstream: setup.upstream,
      tools: this.#listing.counts(),
      localTools: this.#listing.localNames(),
      session: {
        state,
        uptimeMs: Math.round(performance.now() - this.#startedAt),
        forwardedCalls: relay.forwarded,
        workingFolder: place?.cwd ?? (describeHttp === undefined ? host.cwd : 'made with the first browser'),
        profile: place?.profile ?? this.#describeProfile(),
      },
      http: describeHttp?.(),
      generation: gate.describe(),
      lastLoss,
      startFailure: setup.error ?? gate.lastFailure,
      sandbox: this.#describeSandbox(),
      settings: describeSettings(setup),
      problems: resolved.problems.map((problem) => problem.message),
      warnings: resolved.warnings,
    });
    const clean = (_key: string, value: unknown): unknown =>
      typeof value === 'string' ? redactor.clean(value) : value;
    const shown = JSON.parse(JSON.stringify(facts, clean)) as Record<string, unknown>;
    // The one place where the address is told: it is what this client is to have.
    return Promise.resolve(this.#surface === undefined ? shown : { ...shown, cdp: this.#surface.describe() });
  }

  #describeProfile(): string {
    const { isolated, userDataDir } = this.#parts.foundation.setup.settings;
    if (this.#parts.describeHttp !== undefined) return 'temporary, of this session alone';
    return isolated ? 'in memory' : (userDataDir ?? "upstream's default");
  }

  #describeSandbox(): string {
    const chosen = this.#children?.launch?.chromiumSandbox ?? this.#parts.foundation.setup.settings.sandbox;
    if (chosen !== undefined) return chosen ? 'on' : 'off';
    return this.#binary === undefined ? 'left to upstream' : 'decided at the first start';
  }
}
