import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { HttpServer } from './http-server.ts';
import type { Testbed } from './testbed.ts';
import { waitUntil } from './waiting.ts';

const preload = pathToFileURL(join(import.meta.dirname, '../fixtures/heap-report.mjs')).href;

/** What a server that was asked for it holds when all garbage is collected, in bytes. */
export interface HeapReport {
  readonly heapUsed: number;
  /** Buffers, outside of the heap. */
  readonly external: number;
  readonly rss: number;
}

/** Lets a server tell how much of its memory is in use. */
export class HeapMeter {
  readonly #file: string;
  #asked = 0;

  constructor(testbed: Testbed) {
    this.#file = join(testbed.folders.root, 'heap');
  }

  /**
   * What the server is to be started with. Where young objects lie is kept small, and freed memory is given back, so that
   * what is resident is what is held and not what is kept for later.
   */
  get env(): Record<string, string> {
    return {
      NODE_OPTIONS: `--expose-gc --max-semi-space-size=1 --import=${preload}`,
      HEAP_REPORT: this.#file,
      MALLOC_ARENA_MAX: '1',
      MALLOC_TRIM_THRESHOLD_: '131072',
    };
  }

  /** Collects the garbage of the server and tells what is left. */
  async measure({ program }: HttpServer): Promise<HeapReport> {
    this.#asked += 1;
    program.kill('SIGUSR2');
    return waitUntil('a report of the heap', () => this.#read(this.#asked), 30_000);
  }

  #read(number: number): HeapReport | undefined {
    if (!existsSync(this.#file)) return undefined;
    const fields = /^(\d+) (\d+) (\d+) (\d+)\n$/.exec(readFileSync(this.#file, 'utf8'))?.slice(1).map(Number) ?? [];
    const [written, heapUsed = 0, external = 0, rss = 0] = fields;
    return written === number ? { heapUsed, external, rss } : undefined;
  }
}
