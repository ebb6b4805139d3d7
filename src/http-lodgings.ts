import { rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';

import type { Lodging } from './bridge.ts';
import { Children, limitTurn, type Place } from './children.ts';
import { availableMemory } from './core/memory.ts';
import { BridgeError, messageOf } from './core/errors.ts';
import { makeFolder } from './core/folder.ts';
import { HandedLogger, type Logger } from './core/logger.ts';
import type { Redactor } from './core/redact.ts';
import { bridgeVersion } from './core/version.ts';
import type { Foundation } from './foundation.ts';
import type { ChildFactory } from './session/child-factory.ts';
import type { StartedChild } from './session/generation.ts';
import { bootSpare } from './session/spare-child.ts';
import { type Spare, Spares } from './session/spares.ts';
import { StartQueue } from './session/start-queue.ts';
import type { ChildPlanner } from './upstream/planner.ts';

/** What the children of one session are to be. */
export interface LodgingWish {
  readonly logger: Logger;
  readonly redactor: Redactor;
  readonly planner: ChildPlanner;
  readonly headless: boolean;
  /** True when the session asks for nothing of its own, so that any spare will do. */
  readonly isPlain: boolean;
  /** True for a browser that is reached by managed CDP as well. */
  readonly hasCdp: boolean;
}

/** What is lodged, and how it is given back. */
export interface HttpLodging extends Lodging {
  /** Removes the folders, once the children have ended. */
  readonly release: () => Promise<void>;
}

/** Children for the sessions of an HTTP server: each session's in folders of its own, so many starts at once, and spares. */
export class Lodgings {
  readonly queue: StartQueue;
  readonly spares: Spares;
  readonly #foundation: Foundation;
  readonly #folders = new Map<Children, string>();
  readonly #spareParts = new WeakMap<Spare, { readonly children: Children; readonly logger: HandedLogger }>();
  readonly #settling = new Set<Promise<void>>();

  /** `startsMax`: how many children may boot at once. */
  constructor(foundation: Foundation, startsMax: number) {
    const { settings } = foundation.setup;
    this.#foundation = foundation;
    this.queue = new StartQueue(startsMax);
    this.spares = new Spares({
      // What a client's roots decide is asked for when the browser starts, so that a running one cannot be given away.
      wanted: {
        children: settings.httpSpareChildren,
        browsers: settings.httpPassRoots ? 0 : settings.httpSpareBrowsers,
      },
      make: (isWarm, signal) => this.#makeSpare(isWarm, signal),
      discard: (spare) => this.#discard(spare),
      logger: foundation.parts.logger,
      acquireTurn: async (signal) => limitTurn(await this.queue.acquireLast(signal)),
    });
  }

  /** The session folders of all children, for the look at their processes. */
  folders(): Iterable<string> {
    return this.#folders.values();
  }

  /** The folder of these children; undefined before they have one. */
  folderOf(children: Children): string | undefined {
    return this.#folders.get(children);
  }

  /** Children for a session, the first of them already started if a spare fits. */
  lodge(wish: LodgingWish): HttpLodging {
    const spare = wish.isPlain && this.#hasBrowser() ? this.spares.take() : undefined;
    const known = spare === undefined ? undefined : this.#spareParts.get(spare);
    if (spare !== undefined && known !== undefined) {
      known.logger.hand(wish.logger);
      const { children } = known;
      return { children, spare: spare.started, release: () => this.#release(children) };
    }
    const factory = this.#foundation.makeFactory(wish.logger, wish.redactor);
    const children = this.#makeChildren(wish, factory, false);
    return { children, release: () => this.#release(children) };
  }

  /** Kills everything at once. */
  force(): void {
    this.spares.force();
    for (const children of this.#folders.keys()) children.force();
  }

  /** Ends the spares, and waits for the ends of all processes. */
  async close(): Promise<void> {
    await this.spares.close();
    await Promise.all(this.#settling);
  }

  #makeChildren(wish: Omit<LodgingWish, 'redactor' | 'isPlain'>, factory: ChildFactory, isSpare: boolean): Children {
    const { logger, planner, headless, hasCdp } = wish;
    const children: Children = new Children({
      foundation: this.#foundation,
      logger,
      planner,
      headless,
      factory,
      place: (folder) => {
        this.#folders.set(children, folder);
        return this.#place(folder);
      },
      takeTurn: (signal) => this.queue.acquire(signal),
      hasFirstTurn: isSpare,
      turnsAhead: (signal) => this.queue.ahead(signal),
      hasOwnSeed: true,
      debugging: hasCdp ? { hasThrowAwayProfile: true, forget: () => undefined } : undefined,
    });
    return children;
  }

  #place(folder: string): Place {
    const cwd = join(folder, 'work');
    makeFolder(cwd);
    const profile = 'temporary, of this session alone';
    const { outputDir } = this.#foundation.setup.settings;
    if (outputDir === undefined) return { cwd, profile, notes: [] };
    const own = join(outputDir, basename(folder));
    makeOutputFolder(own);
    return { cwd, outputDir: own, profile, notes: [] };
  }

  async #release(children: Children): Promise<void> {
    await children.close();
    this.#folders.delete(children);
    const settling = children.settle().finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
    const own = children.place?.outputDir;
    if (own === undefined) return;
    try {
      rmdirSync(own);
    } catch {
      // It holds what the session wrote: that is what an output folder is for.
    }
  }

  async #makeSpare(isWarm: boolean, signal: AbortSignal): Promise<Spare> {
    const { setup, parts } = this.#foundation;
    const { settings, planner } = setup;
    const { headless } = settings;
    const logger = new HandedLogger(parts.logger);
    this.#checkRoom();
    const factory = this.#foundation.makeFactory(logger);
    const children = this.#makeChildren({ logger, planner, headless, hasCdp: settings.cdp }, factory, true);
    let started: StartedChild | undefined;
    try {
      started = await children.start(1, signal);
      const boot = { logger, version: bridgeVersion, isWarm, timeoutMs: settings.restartTimeoutMs };
      await bootSpare(started.child, boot, signal);
    } catch (cause) {
      await started?.child.close(0);
      await this.#release(children);
      throw cause;
    }
    const spare: Spare = { factory, started, isWarm };
    this.#spareParts.set(spare, { children, logger });
    return spare;
  }

  /** A spare must neither wait for a download, which would keep sessions from their turn, nor take the last memory. */
  #checkRoom(): void {
    const { settings } = this.#foundation.setup;
    if (!this.#hasBrowser()) throw new BridgeError('start_pending', 'There is no browser yet that a spare could run.');
    const free = settings.httpMinFreeMemory === 0 ? undefined : availableMemory();
    if (free !== undefined && free < settings.httpMinFreeMemory)
      throw new BridgeError('memory_low', `${free} bytes of memory are free.`);
  }

  #hasBrowser(): boolean {
    const binary = this.#foundation.binary(this.#foundation.setup.settings.headless);
    return binary === undefined || binary.download.state === 'ready';
  }

  async #discard(spare: Spare): Promise<void> {
    await spare.started.child.close(0);
    const children = this.#spareParts.get(spare)?.children;
    if (children !== undefined) await this.#release(children);
  }
}

/** Makes a folder for what sessions write. Throws `folder_unwritable`. */
export function makeOutputFolder(path: string): void {
  try {
    makeFolder(path);
  } catch (cause) {
    throw new BridgeError('folder_unwritable', `The output folder ${path} cannot be made: ${messageOf(cause)}.`, {
      hint: 'Correct --output-dir of the server, or make it writable.',
      cause,
    });
  }
}
