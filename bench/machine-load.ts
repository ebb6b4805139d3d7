import { readFileSync } from 'node:fs';

import { processorMs } from './process-tree.ts';

interface Reading {
  readonly totalMs: number;
  readonly busyMs: number;
  readonly ownMs: number;
}

function readMachine(): Reading {
  const [line = ''] = readFileSync('/proc/stat', 'latin1').split('\n');
  // user nice system idle iowait irq softirq steal; the guest times after them are part of user and nice.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const total = ticks.reduce((sum, value) => sum + value, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { totalMs: total * 10, busyMs: (total - idle) * 10, ownMs: processorMs(process.pid, true) };
}

/**
 * How much of the machine others use meanwhile. Own is this process with everything that it started and that has
 * ended, so begin and end a measurement while nothing runs; what a browser leaves to init counts as foreign.
 */
export class LoadMeter {
  readonly #begin = readMachine();

  /** Share of all processors since the meter was made, by others and by the benchmark, in percent. */
  read(): { readonly foreign: number; readonly own: number } {
    const end = readMachine();
    const total = Math.max(1, end.totalMs - this.#begin.totalMs);
    const own = end.ownMs - this.#begin.ownMs;
    const foreign = Math.max(0, end.busyMs - this.#begin.busyMs - own);
    return { foreign: (100 * foreign) / total, own: (100 * own) / total };
  }
}
