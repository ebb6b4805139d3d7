import { readFileSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Host } from './host.ts';
import { proportionalMemory } from './memory.ts';

/** How long a look is good for at least: clients of `/metrics` commonly ask every 15 s, and several may ask. */
const shortestAgeMs = 10_000;
/**
 * A look takes 2 to 5 ms for each process of a browser, nearly all of it in the kernel. It is good for so many times as
 * long as it took, so that looking takes at most 2 % of one processor however many browsers there are.
 */
const agePerCost = 50;
/** Reading one entry takes some 35 µs, and a call should not wait for more than a millisecond. */
const entriesPerTurn = 32;

/** What the processes of one folder's owner use. */
export interface Usage {
  readonly count: number;
  /** Bytes; of a page that several processes share, each has its part. */
  readonly memoryBytes: number;
}

/** What a meter is made with. */
export interface MeterParts {
  readonly host: Pick<Host, 'platform' | 'pid'>;
  /** The folders of the sessions and spares that live now. */
  readonly folders: () => Iterable<string>;
  /** Where the kernel shows processes; another place in tests. */
  readonly root?: string;
  readonly now?: () => number;
}

/** The parent of each process. */
type Parents = ReadonlyMap<number, number>;

/** Tells what the processes of sessions use; those who ask while a look is going on, or soon after, share it. */
export class ProcessMeter {
  readonly #parts: MeterParts;
  readonly #root: string;
  readonly #now: () => number;
  #look: Promise<ReadonlyMap<string, Usage>> | undefined;
  #goodUntil = 0;

  constructor(parts: MeterParts) {
    this.#parts = parts;
    this.#root = parts.root ?? '/proc';
    this.#now = parts.now ?? (() => performance.now());
  }

  /**
   * The use of each folder that has processes: those with the folder in their TMPDIR and all that descend from them.
   * Chromium overwrites the environment of its renderers, so the mark alone would leave out most of it. Linux only,
   * elsewhere empty.
   */
  async read(): Promise<ReadonlyMap<string, Usage>> {
    if (this.#parts.host.platform !== 'linux') return new Map();
    if (this.#look === undefined || this.#now() >= this.#goodUntil) {
      // Until it is done, everybody waits for it.
      this.#goodUntil = Infinity;
      this.#look = this.#measureAll();
    }
    return this.#look;
  }

  async #measureAll(): Promise<ReadonlyMap<string, Usage>> {
    const startedAt = this.#now();
    try {
      const usages = new Map<string, Usage>();
      for (const [pid, folder] of await this.#owned()) {
        const { count, memoryBytes } = usages.get(folder) ?? { count: 0, memoryBytes: 0 };
        usages.set(folder, { count: count + 1, memoryBytes: memoryBytes + (await this.#measure(pid)) });
      }
      return usages;
    } finally {
      const endedAt = this.#now();
      this.#goodUntil = endedAt + Math.max(shortestAgeMs, (endedAt - startedAt) * agePerCost);
    }
  }

  /** Each process that belongs to one of the folders, with its folder. */
  async #owned(): Promise<ReadonlyMap<number, string>> {
    const parents = await this.#parents();
    const marked = await this.#marked(parents);
    const owners = new Map<number, string>();
    for (const pid of parents.keys()) {
      const folder = lineOf(pid, parents).flatMap((ancestor) => marked.get(ancestor) ?? [])[0];
      if (folder !== undefined) owners.set(pid, folder);
    }
    return owners;
  }

  async #marked(parents: Parents): Promise<ReadonlyMap<number, string>> {
    const folders = [...this.#parts.folders()];
    // A process of ours whose parent ended goes to an ancestor of ours, so it is enough to look at their children.
    const adopters = new Set(lineOf(this.#parts.host.pid, parents));
    const candidates = [...parents].filter(([, parent]) => adopters.has(parent));
    const marked = new Map<number, string>();
    for (const [index, [pid]] of candidates.entries()) {
      const environment = `\0${this.#text(`/proc/${pid}/environ`)}`;
      const folder = folders.find((path) => environment.includes(`\0TMPDIR=${path}/`));
      if (folder !== undefined) marked.set(pid, folder);
      if (index % entriesPerTurn === entriesPerTurn - 1) await nextTurn();
    }
    return marked;
  }

  async #parents(): Promise<Parents> {
    const names = await readdir(this.#root).catch((): string[] => []);
    const parents = new Map<number, number>();
    for (const [index, name] of names.filter((entry) => /^\d+$/.test(entry)).entries()) {
      const parent = this.#parentOf(name);
      if (parent !== undefined) parents.set(Number(name), parent);
      if (index % entriesPerTurn === entriesPerTurn - 1) await nextTurn();
    }
    return parents;
  }

  #parentOf(pid: string): number | undefined {
    const stat = this.#text(`/proc/${pid}/stat`);
    // Fields 3 and 4 of proc(5); the name in field 2 may hold spaces and parentheses, so count from its end.
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ', 2);
    return parent === undefined || state === 'Z' ? undefined : Number(parent);
  }

  async #measure(pid: number): Promise<number> {
    const path = `/proc/${pid}/smaps_rollup`;
    // In a thread of its own: the kernel walks through all pages for it.
    const rollup = await readFile(this.#place(path), 'latin1').catch(() => '');
    return proportionalMemory(pid, (asked) => (asked === path ? rollup : this.#text(asked)));
  }

  #place(path: string): string {
    return path.replace('/proc', this.#root);
  }

  /** A file of a process; empty if it ended or belongs to somebody else. */
  #text(path: string): string {
    try {
      return readFileSync(this.#place(path), 'latin1');
    } catch {
      return '';
    }
  }
}

/** A process with its ancestors, from the bottom up. */
function lineOf(pid: number, parents: Parents): readonly number[] {
  const line: number[] = [];
  for (let next: number | undefined = pid; next !== undefined && !line.includes(next); next = parents.get(next)) {
    line.push(next);
  }
  return line;
}
