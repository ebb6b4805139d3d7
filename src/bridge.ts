import { BinarySource, type LaunchPlan } from './browser/binary.ts';
import { type DownloadState, describeDownload } from './browser/download-state.ts';
import { type Profile, resolveProfile } from './browser/profile.ts';
import { describeSettings } from './config/resolve.ts';
import type { Catalog } from './core/catalog.ts';
import { messageOf } from './core/errors.ts';
import type { LineParts } from './core/framing.ts';
import type { Logger } from './core/logger.ts';
import { Scope } from './core/scope.ts';
import { bridgeVersion } from './core/version.ts';
import { describeBinary, describeBridge } from './relay/bridge-info.ts';
import { Listing } from './relay/listing.ts';
import { binaryInfoTool, bridgeInfoTool } from './relay/local-tools.ts';
import { findCatalog } from './session/catalog-source.ts';
import { ChildFactory } from './session/child-factory.ts';
import type { StartedChild } from './session/generation.ts';
import { Session } from './session/session.ts';
import { type WorkingFolder, chooseWorkingFolder } from './session/working-folder.ts';
import { sweepWorkspaces } from './session/workspace.ts';
import { type Setup, type SetupParts, prepareSetup } from './setup.ts';
import { CatalogStore, defaultCacheFolder } from './upstream/catalog.ts';
import { type Child, startChild } from './upstream/child.ts';
import { missingUpstream } from './upstream/package.ts';

const instructions =
  'The browser tools are those of Playwright MCP. cloakbrowser_bridge_info tells the state of this server and why a call failed.';

/** What a bridge is made with. */
export interface BridgeParts extends SetupParts {
  readonly logger: Logger;
  readonly nodeVersion: string;
  /** Sends a line to the client. */
  readonly send: (parts: LineParts) => void;
  /** Called with each child, so that a slow client can hold its output back. */
  readonly onChild: (child: Child) => void;
  /** Prints a sentence for people. */
  readonly tell: (text: string) => void;
  /** The worker that finds the browser program. */
  readonly binaryWorkerUrl: URL;
}

/** One running bridge: one session over whatever transport brings its lines. */
export class Bridge {
  readonly session: Session;
  readonly #parts: BridgeParts;
  readonly #setup: Setup;
  readonly #settings: Setup['settings'];
  readonly #scope = new Scope();
  readonly #abort = new AbortController();
  readonly #factory: ChildFactory;
  readonly #binary: BinarySource | undefined;
  readonly #listing: Listing;
  readonly #told = new Set<string>();
  readonly #startedAt = performance.now();
  #catalog: Promise<Catalog | undefined> | undefined;
  #sweep: Promise<unknown> | undefined;
  #launch: LaunchPlan | undefined;
  #working: WorkingFolder | undefined;
  #profile: Profile | undefined;

  constructor(parts: BridgeParts) {
    const setup = prepareSetup(parts);
    this.#parts = parts;
    this.#setup = setup;
    this.#settings = setup.settings;
    this.#factory = this.#scope.own(this.#makeFactory());
    this.#binary = setup.settings.browserEngine === 'cloak' ? this.#scope.own(this.#makeBinary()) : undefined;
    this.#listing = new Listing({
      logger: parts.logger,
      localTools: [binaryInfoTool(() => this.#binaryInfo()), bridgeInfoTool(() => this.#bridgeInfo())],
      hidden: setup.settings.hideTools,
      serverInfo: { name: 'cloakbrowser-mcp', title: 'CloakBrowser MCP', version: bridgeVersion },
      instructions,
    });
    this.session = this.#scope.own(this.#makeSession());
    this.#scope.defer(async () => {
      this.#abort.abort();
      await this.#catalog?.catch(() => undefined);
      await this.#sweep;
    });
  }

  /** Kills and removes everything at once. */
  force(): void {
    this.#factory.force();
  }

  /** After `close`: waits until the system has told the end of every child. */
  settle(): Promise<void> {
    return this.#factory.settle();
  }

  /** Ends the session and everything below it, once. */
  close(): Promise<void> {
    return this.#scope.close();
  }

  #makeFactory(): ChildFactory {
    return new ChildFactory({
      host: this.#parts.host,
      logger: this.#parts.logger,
      cliPath: this.#setup.upstream.cliPath,
      maxMessageBytes: this.#settings.maxMessageBytes,
      spawn: (command) => {
        const child = startChild(command, this.#parts);
        this.#parts.onChild(child);
        return child;
      },
    });
  }

  #makeBinary(): BinarySource {
    const { host, logger, redactor, binaryWorkerUrl } = this.#parts;
    const settings = this.#settings;
    return new BinarySource(
      { ...settings, engine: 'cloak', proxy: this.#setup.proxy, env: host.env },
      {
        logger,
        redactor,
        workerUrl: binaryWorkerUrl,
        host,
        onProgress: (state) => {
          this.#tellDownload(state);
        },
      },
    );
  }

  #makeSession(): Session {
    const { logger, send, host } = this.#parts;
    const settings = this.#settings;
    const key = {
      ...this.#setup.planner.listingKey(),
      cliPath: this.#setup.upstream.cliPath,
      upstreamVersion: this.#setup.upstream.version,
    };
    const store = new CatalogStore(settings.cacheDir ?? defaultCacheFolder(host), key, logger);
    this.#catalog = this.#findCatalog(store);
    return new Session({
      client: { send },
      listing: this.#listing,
      logger,
      limits: settings,
      catalog: this.#catalog,
      storeCatalog: (catalog) => {
        store.write(catalog);
      },
      startChild: (number, signal) => this.#startChild(number, signal),
      describeWait: () => this.#describeWait(),
    });
  }

  #findCatalog(store: CatalogStore): Promise<Catalog | undefined> {
    if (this.#setup.upstream === missingUpstream) return Promise.resolve(undefined);
    const parts = {
      logger: this.#parts.logger,
      store,
      version: bridgeVersion,
      hasSettings: this.#setup.planner.hasSettings(),
      onClosing: (closing: Promise<void>): void => {
        this.#scope.defer(() => closing);
      },
      timeoutMs: this.#settings.startTimeoutMs,
      startListing: (isPlain: boolean): StartedChild =>
        this.#factory.start(0, (folders) =>
          this.#setup.planner.planListing(
            { folder: folders.generation, tempDir: folders.temp, cwd: folders.session },
            isPlain,
          ),
        ),
    };
    return findCatalog(parts, this.#abort.signal);
  }

  async #startChild(number: number, signal: AbortSignal): Promise<StartedChild> {
    if (this.#setup.error !== undefined) throw this.#setup.error;
    const { host, logger } = this.#parts;
    const session = this.#factory.folder;
    this.#sweep ??= sweepWorkspaces(host, logger).catch((failure: unknown) => {
      logger.debug('abandoned folders not swept', { reason: messageOf(failure) });
    });
    this.#launch = await this.#binary?.resolve(signal);
    // Each time, since the one of the last start may be gone.
    this.#working = chooseWorkingFolder(host, session);
    const place = { env: host.env, platform: host.platform, home: host.homeDir, sessionFolder: session };
    this.#profile ??= resolveProfile({ ...this.#settings, ...place });
    signal.throwIfAborted();
    for (const note of [...(this.#launch?.notes ?? []), this.#working.note, this.#profile.note]) this.#tellOnce(note);
    const { path: cwd } = this.#working;
    const { userDataDir } = this.#profile;
    const launch = this.#launch;
    const started = this.#factory.start(number, (folders) =>
      this.#setup.planner.plan({ folder: folders.generation, tempDir: folders.temp, cwd, userDataDir }, launch),
    );
    return started;
  }

  #describeWait(): string {
    const state = this.#binary?.download;
    return state === undefined || state.state === 'ready'
      ? 'the browser server is being started'
      : describeDownload(state);
  }

  #tellDownload(state: DownloadState): void {
    if (state.state !== 'downloading') return;
    const total = state.totalBytes === undefined ? {} : { total: state.totalBytes };
    this.session.relay.tellProgress({ progress: state.receivedBytes, ...total, message: describeDownload(state) });
  }

  #tellOnce(note: string | undefined): void {
    if (note === undefined || this.#told.has(note)) return;
    this.#told.add(note);
    this.#parts.tell(note);
  }

  async #binaryInfo(): Promise<Readonly<Record<string, unknown>>> {
    const { releaseChannel, binaryPath } = this.#settings;
    const known = { platform: this.#parts.host.platform, releaseChannel, binaryPath };
    return describeBinary(await this.#binary?.info(), known);
  }

  #bridgeInfo(): Promise<Readonly<Record<string, unknown>>> {
    const { resolved, nodeVersion, host, redactor } = this.#parts;
    const settings = this.#settings;
    const { gate, lastLoss, state, relay } = this.session;
    const facts = describeBridge({
      version: bridgeVersion,
      transport: settings.transport,
      nodeVersion,
      upstream: this.#setup.upstream,
      tools: this.#listing.counts(),
      localTools: this.#listing.localNames(),
      session: {
        state,
        uptimeMs: Math.round(performance.now() - this.#startedAt),
        forwardedCalls: relay.forwarded,
        workingFolder: this.#working?.path ?? host.cwd,
        profile: settings.isolated
          ? 'in memory'
          : (this.#profile?.userDataDir ?? settings.userDataDir ?? "upstream's default"),
      },
      generation: gate.describe(),
      lastLoss,
      startFailure: this.#setup.error ?? gate.lastFailure,
      sandbox: this.#describeSandbox(),
      settings: describeSettings(this.#setup),
      problems: resolved.problems.map((problem) => problem.message),
      warnings: resolved.warnings,
    });
    const clean = (_key: string, value: unknown): unknown =>
      typeof value === 'string' ? redactor.clean(value) : value;
    return Promise.resolve(JSON.parse(JSON.stringify(facts, clean)) as Record<string, unknown>);
  }

  #describeSandbox(): string {
    const chosen = this.#launch?.chromiumSandbox ?? this.#settings.sandbox;
    if (chosen !== undefined) return chosen ? 'on' : 'off';
    return this.#binary === undefined ? 'left to upstream' : 'decided at the first start';
  }
}
