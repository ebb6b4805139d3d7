import { BinarySource } from './browser/binary.ts';
import type { DownloadState } from './browser/download-state.ts';
import type { Catalog } from './core/catalog.ts';
import { messageOf } from './core/errors.ts';
import type { Logger } from './core/logger.ts';
import { Scope } from './core/scope.ts';
import { bridgeVersion } from './core/version.ts';
import { findCatalog } from './session/catalog-source.ts';
import { ChildFactory } from './session/child-factory.ts';
import type { StartedChild } from './session/generation.ts';
import { sweepWorkspaces } from './session/workspace.ts';
import { type Setup, type SetupParts, prepareSetup } from './setup.ts';
import { CatalogStore, defaultCacheFolder } from './upstream/catalog.ts';
import { type Child, startChild } from './upstream/child.ts';
import { missingUpstream } from './upstream/package.ts';

/** A failed search for the catalog is repeated for a later session, but not for each of a burst of them. */
const relearnAfterMs = 30_000;

/** What a foundation is made with. */
export interface FoundationParts extends SetupParts {
  readonly logger: Logger;
  readonly nodeVersion: string;
  /** Called with each child, so that a slow client can hold its output back. */
  readonly onChild: (child: Child) => void;
  /** Prints a sentence for people. */
  readonly tell: (text: string) => void;
  /** The worker that finds the browser program. */
  readonly binaryWorkerUrl: URL;
}

/** What all sessions of a program share: the setup, the search for the browser, the catalog, and the sweep at the start. */
export class Foundation {
  readonly parts: FoundationParts;
  readonly setup: Setup;
  /** Starts the children that only list their tools; over stdio the session's own ones as well. */
  readonly factory: ChildFactory;
  readonly #scope = new Scope();
  readonly #abort = new AbortController();
  readonly #store: CatalogStore;
  readonly #binaries = new Map<boolean, BinarySource>();
  readonly #watchers = new Set<(state: DownloadState) => void>();
  readonly #told = new Set<string>();
  #catalog: Promise<Catalog | undefined> | undefined;
  #sweep: Promise<unknown> | undefined;

  constructor(parts: FoundationParts) {
    this.parts = parts;
    this.setup = prepareSetup(parts);
    this.factory = this.#scope.own(this.makeFactory(parts.logger));
    const { settings, upstream, planner } = this.setup;
    const key = { ...planner.listingKey(), cliPath: upstream.cliPath, upstreamVersion: upstream.version };
    this.#store = new CatalogStore(settings.cacheDir ?? defaultCacheFolder(parts.host), key, parts.logger);
    this.#scope.defer(async () => {
      this.#abort.abort();
      await this.#catalog?.catch(() => undefined);
      await this.#sweep;
    });
  }

  /** A factory of children in a folder of its own; the redactor also knows what is secret to one session. */
  makeFactory(logger: Logger, redactor = this.parts.redactor): ChildFactory {
    return new ChildFactory({
      host: this.parts.host,
      logger,
      cliPath: this.setup.upstream.cliPath,
      maxMessageBytes: this.setup.settings.maxMessageBytes,
      spawn: (command) => {
        const child = startChild(command, { host: this.parts.host, logger, redactor });
        this.parts.onChild(child);
        return child;
      },
    });
  }

  /** The catalog, stored or learned; undefined when it cannot be had, which a later call tries again. */
  catalog(): Promise<Catalog | undefined> {
    this.#catalog ??= this.#findCatalog();
    return this.#catalog;
  }

  /** Keeps a catalog that a real child corrected. */
  correctCatalog(catalog: Catalog): void {
    this.#store.write(catalog);
    this.#catalog = Promise.resolve(catalog);
  }

  /** The search for the browser program; undefined where upstream chooses the browser. */
  binary(headless: boolean): BinarySource | undefined {
    const { settings, proxy } = this.setup;
    if (settings.browserEngine !== 'cloak') return undefined;
    const known = this.#binaries.get(headless);
    if (known !== undefined) return known;
    const { host, logger, redactor, binaryWorkerUrl } = this.parts;
    const onProgress = (state: DownloadState): void => {
      for (const watch of this.#watchers) watch(state);
    };
    const source = new BinarySource(
      { ...settings, headless, engine: 'cloak', proxy, env: host.env },
      { logger, redactor, workerUrl: binaryWorkerUrl, host, onProgress },
    );
    this.#binaries.set(headless, this.#scope.own(source));
    return source;
  }

  /** Tells how a download goes, until the returned function is called. */
  watchDownload(watch: (state: DownloadState) => void): () => void {
    this.#watchers.add(watch);
    return () => {
      this.#watchers.delete(watch);
    };
  }

  /** Removes, once and in the background, what dead programs left. */
  sweep(): void {
    const { host, logger } = this.parts;
    this.#sweep ??= sweepWorkspaces(host, logger).catch((failure: unknown) => {
      logger.debug('abandoned folders not swept', { reason: messageOf(failure) });
    });
  }

  /** Prints a sentence for people, once. */
  tellOnce(note: string | undefined): void {
    if (note === undefined || this.#told.has(note)) return;
    this.#told.add(note);
    this.parts.tell(note);
  }

  /** Ends what is shared, after all sessions have ended. */
  close(): Promise<void> {
    return this.#scope.close();
  }

  async #findCatalog(): Promise<Catalog | undefined> {
    const { upstream, planner, settings } = this.setup;
    if (upstream === missingUpstream) return undefined;
    const parts = {
      logger: this.parts.logger,
      store: this.#store,
      version: bridgeVersion,
      hasSettings: planner.hasSettings(),
      onClosing: (closing: Promise<void>): void => {
        this.#scope.defer(() => closing);
      },
      timeoutMs: settings.startTimeoutMs,
      startListing: (isPlain: boolean): StartedChild =>
        this.factory.start(0, (folders) =>
          planner.planListing({ folder: folders.generation, tempDir: folders.temp, cwd: folders.session }, isPlain),
        ),
    };
    const catalog = await findCatalog(parts, this.#abort.signal);
    if (catalog === undefined) this.#forgetLater();
    return catalog;
  }

  #forgetLater(): void {
    const failed = this.#catalog;
    const timer = setTimeout(() => {
      if (this.#catalog === failed) this.#catalog = undefined;
    }, relearnAfterMs);
    timer.unref();
  }
}
