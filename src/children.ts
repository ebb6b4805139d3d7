import { join } from 'node:path';

import type { BinarySource, LaunchPlan } from './browser/binary.ts';
import { describeDownload } from './browser/download-state.ts';
import { drawSeed, withSeed } from './browser/launch.ts';
import type { Logger } from './core/logger.ts';
import type { Foundation } from './foundation.ts';
import type { ChildFactory } from './session/child-factory.ts';
import type { StartedChild } from './session/generation.ts';
import { type ChildPlanner, registryFolder } from './upstream/planner.ts';

/** A child boots in about a second of processor time; with several at once on a busy machine in a few. */
const turnMs = 10_000;

/** Where a session's children work and keep their files. */
export interface Place {
  readonly cwd: string;
  readonly userDataDir?: string | undefined;
  readonly outputDir?: string | undefined;
  /** What the profile is, in words. */
  readonly profile: string;
  /** Sentences to tell the user once. */
  readonly notes: readonly (string | undefined)[];
}

/** What children are started with whose browser has a debugging port of its own. */
export interface Debugging {
  /**
   * True for a profile folder that each browser has for itself: in upstream's isolated mode a CDP client would work in
   * another browser context than MCP.
   */
  readonly hasThrowAwayProfile: boolean;
  /** Removes what an earlier browser left in a profile of its debugging port. */
  readonly forget: (userDataDir: string) => void;
}

/** What a session's children are started with. */
export interface ChildrenParts {
  readonly foundation: Foundation;
  readonly logger: Logger;
  readonly planner: ChildPlanner;
  readonly headless: boolean;
  readonly factory: ChildFactory;
  /** Decides the place before each start, since a folder of the last one may be gone. */
  readonly place: (sessionFolder: string) => Place;
  /** Waits until one more child may boot; undefined where there is only one. */
  readonly takeTurn?: ((signal: AbortSignal) => Promise<() => void>) | undefined;
  /** True if whoever makes the first start has a turn for it already. */
  readonly hasFirstTurn?: boolean;
  /** How many others get their turn before the one that waits with this signal. */
  readonly turnsAhead?: (signal: AbortSignal) => number;
  /** True where several sessions share the search for the browser: each one then seems to be another visitor. */
  readonly hasOwnSeed: boolean;
  /** Undefined without managed CDP. */
  readonly debugging?: Debugging | undefined;
}

/**
 * A turn that ends by itself after a while: a child that hangs computes nothing, and must keep nobody from starting.
 * Returns what ends it sooner.
 */
export function limitTurn(release: () => void): () => void {
  const timer = setTimeout(release, turnMs);
  return () => {
    clearTimeout(timer);
    release();
  };
}

/** The children of one session: one after the other, in the session's own folders and with the same fingerprint. */
export class Children {
  readonly #parts: ChildrenParts;
  readonly #binary: BinarySource | undefined;
  #launch: LaunchPlan | undefined;
  #place: Place | undefined;
  #seed: number | undefined;
  #starts = 0;
  /** Set while it waits for its turn. */
  #waiting: AbortSignal | undefined;

  constructor(parts: ChildrenParts) {
    this.#parts = parts;
    this.#binary = parts.foundation.binary(parts.headless);
  }

  /** How the browser is launched; undefined before the first start and where upstream decides. */
  get launch(): LaunchPlan | undefined {
    return this.#launch;
  }

  /** Where the last child was placed. */
  get place(): Place | undefined {
    return this.#place;
  }

  /** Starts the child of this number. Throws with everything undone. */
  async start(number: number, signal: AbortSignal): Promise<StartedChild> {
    const { foundation, factory, place, takeTurn } = this.#parts;
    if (foundation.setup.error !== undefined) throw foundation.setup.error;
    foundation.sweep();
    const launch = await this.#resolve(signal);
    const hasTurn = takeTurn === undefined || (this.#parts.hasFirstTurn === true && this.#starts === 0);
    this.#starts += 1;
    const settled = hasTurn ? undefined : limitTurn(await this.#queue(takeTurn(signal), signal));
    try {
      signal.throwIfAborted();
      const placed = place(factory.folder);
      this.#place = placed;
      for (const note of [...(launch?.notes ?? []), ...placed.notes]) foundation.tellOnce(note);
      const started = this.#launchChild(number, placed, launch);
      return settled === undefined ? started : { ...started, settled };
    } catch (cause) {
      settled?.();
      throw cause;
    }
  }

  /** What a waiting call waits for, in words. */
  describeWait(): string {
    const state = this.#binary?.download;
    if (state !== undefined && state.state !== 'ready') return describeDownload(state);
    const ahead = this.#waiting === undefined ? undefined : this.#parts.turnsAhead?.(this.#waiting);
    if (ahead === undefined) return 'the browser server is being started';
    const place = ahead === 0 ? 'this one is next' : `${ahead} more of them have their turn before this one`;
    return `other browser servers are being started first; ${place}`;
  }

  /** Kills and removes everything at once. */
  force(): void {
    this.#parts.factory.force();
  }

  /** Waits until the system has told the end of every child. */
  settle(): Promise<void> {
    return this.#parts.factory.settle();
  }

  /** Removes the session's folder; the children have been ended before. */
  close(): Promise<void> {
    return this.#parts.factory.remove();
  }

  #launchChild(number: number, placed: Place, launch: LaunchPlan | undefined): StartedChild {
    const { factory, debugging } = this.#parts;
    const { cwd } = placed;
    const planner = this.#plannerFor(placed);
    if (debugging === undefined)
      return factory.start(number, ({ generation, temp }) =>
        planner.plan({ folder: generation, tempDir: temp, cwd, userDataDir: placed.userDataDir }, launch),
      );
    let browser: StartedChild['browser'];
    const started = factory.start(number, ({ generation, temp }) => {
      const userDataDir = debugging.hasThrowAwayProfile ? join(generation, 'p') : placed.userDataDir;
      if (userDataDir !== undefined) debugging.forget(userDataDir);
      const planned = planner.plan({ folder: generation, tempDir: temp, cwd, userDataDir }, launch);
      const isIsolated = userDataDir === undefined && planner.isIsolated;
      // A profile that lasts has its own state, as it has with upstream alone.
      const storageState = debugging.hasThrowAwayProfile ? planned.storageState : undefined;
      browser = { userDataDir, tempDir: temp, registry: registryFolder(generation), isIsolated, storageState };
      return planned;
    });
    return browser === undefined ? started : { ...started, browser };
  }

  #plannerFor({ outputDir }: Place): ChildPlanner {
    const { planner, debugging } = this.#parts;
    const changes = {
      ...(outputDir === undefined ? {} : { outputDir }),
      ...(debugging?.hasThrowAwayProfile === true ? { isolated: false } : {}),
    };
    return Object.keys(changes).length === 0 ? planner : planner.with(changes);
  }

  async #queue(turn: Promise<() => void>, signal: AbortSignal): Promise<() => void> {
    this.#waiting = signal;
    try {
      return await turn;
    } finally {
      this.#waiting = undefined;
    }
  }

  async #resolve(signal: AbortSignal): Promise<LaunchPlan | undefined> {
    const plan = await this.#binary?.resolve(signal);
    if (plan === undefined) return undefined;
    if (this.#parts.hasOwnSeed) this.#seed ??= drawSeed();
    this.#launch =
      this.#seed === undefined ? plan : withSeed(plan, this.#seed, this.#parts.foundation.setup.settings.extraArgs);
    return this.#launch;
  }
}
