import { readFileSync, readdirSync } from 'node:fs';

import { processorMs, treeOf } from './process-tree.ts';
import { Program } from './program.ts';

interface Reading {
  readonly totalMs: number;
  readonly busyMs: number;
  readonly ownMs: number;
  /** Of all processes that are none of ours, with their ended children. */
  readonly othersMs: number;
}

/** Time of an ended process is in that of its parent, so the sum goes on growing as processes come and go. */
function othersMs(): number {
  const own = new Set(treeOf(process.pid));
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  // The first process waits for whoever lost its parent, also for ours.
  return pids.reduce((sum, pid) => sum + (own.has(pid) ? 0 : processorMs(pid, pid !== 1)), 0);
}

function readMachine(): Reading {
  const [line = ''] = readFileSync('/proc/stat', 'latin1').split('\n');
  // user nice system idle iowait irq softirq steal; the guest times after them are part of user and nice.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const total = ticks.reduce((sum, value) => sum + value, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return {
    totalMs: total * 10,
    busyMs: (total - idle) * 10,
    ownMs: processorMs(process.pid, true) + Program.lostMs,
    othersMs: othersMs(),
  };
}

/** Shares of all processors in percent. */
export interface Load {
  /** What neither the benchmark nor an idle processor took; so it has all of others, and what of ours was lost. */
  readonly foreign: number;
  /** What the processes that can be seen and are not ours took. */
  readonly seen: number;
  readonly own: number;
}

/**
 * How much of the machine others use meanwhile. Own is this process with everything that it started and that has
 * ended, so begin and end a measurement while nothing runs. Where processor time of ours was lost unnoticed, it counts
 * as foreign. What others took is therefore at most `foreign`, and at least `seen`.
 */
export class LoadMeter {
  readonly #begin = readMachine();

  /** The shares since the meter was made. */
  read(): Load {
    const begin = this.#begin;
    const end = readMachine();
    const share = (ms: number): number => (100 * Math.max(0, ms)) / Math.max(1, end.totalMs - begin.totalMs);
    const ownMs = end.ownMs - begin.ownMs;
    return {
      foreign: share(end.busyMs - begin.busyMs - ownMs),
      seen: share(end.othersMs - begin.othersMs),
      own: share(ownMs),
    };
  }
}
