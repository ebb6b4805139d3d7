import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** A kernel tick of /proc/PID/stat in milliseconds (USER_HZ is 100 on Linux). */
const tickMs = 10;

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return ''; // The process has ended.
  }
}

/** Fields of /proc/PID/stat from the third on; the name before them may hold blanks. Empty when the process is gone. */
function statOf(pid: number): string[] {
  const stat = read(`/proc/${pid}/stat`);
  return stat === '' ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // The process has ended.
  }
}

function childrenOf(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) =>
    read(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean).map(Number),
  );
}

/**
 * True until the process has given back what it had. Its first thread is a zombie earlier, while the others still end;
 * a zombie without other threads only waits for its parent.
 */
export function isRunning(pid: number): boolean {
  const [state = 'X'] = statOf(pid);
  return state !== 'X' && (state !== 'Z' || threadsOf(pid).length > 1);
}

/** The process and everything below it. */
export function treeOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(treeOf)];
}

/** The running processes with this folder in their environment, also those that were given to another parent. */
export function markedBy(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && read(`/proc/${pid}/environ`).includes(folder) && isRunning(pid));
}

/** Processor time of one process in milliseconds, with `reaped` also of its ended children. */
export function processorMs(pid: number, reaped: boolean): number {
  const times = statOf(pid).slice(11, reaped ? 15 : 13);
  return times.reduce((sum, ticks) => sum + Number(ticks) * tickMs, 0);
}

/** Processor time of a process and everything below it, ended or not, in milliseconds. */
export function treeProcessorMs(pid: number): number {
  return treeOf(pid).reduce((sum, member) => sum + processorMs(member, true), 0);
}

/**
 * Processor time of the threads that a process has now, in milliseconds, to the nanosecond instead of to the tick. For
 * spans in which no thread ends, such as a row of calls.
 */
export function fineProcessorMs(pid: number): number {
  const times = threadsOf(pid).map((thread) => Number.parseInt(read(`/proc/${pid}/task/${thread}/schedstat`)));
  return times.reduce((sum, nanoseconds) => sum + nanoseconds / 1e6, 0);
}

/** Memory in MiB. */
export interface Memory {
  /** Sum of what each process had resident at most, pages shared between them counted for each. */
  readonly peakResident: number;
  /** Pages shared by n processes counted 1/n for each. */
  readonly proportional: number;
  /** Pages that no other process has. */
  readonly private: number;
}

function mebibytes(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) / 1024;
}

/** Memory of a process and everything below it. */
export function treeMemory(pid: number): Memory {
  const sum = { peakResident: 0, proportional: 0, private: 0 };
  for (const member of treeOf(pid)) {
    const rollup = read(`/proc/${member}/smaps_rollup`);
    sum.peakResident += mebibytes(read(`/proc/${member}/status`), 'VmHWM');
    sum.proportional += mebibytes(rollup, 'Pss');
    sum.private += mebibytes(rollup, 'Private_Clean') + mebibytes(rollup, 'Private_Dirty');
  }
  return sum;
}

/** How many processes on this machine run the same Node program; they share its pages. */
export function nodeProcessCount(): number {
  const isNode = (pid: string): boolean => {
    try {
      return readlinkSync(`/proc/${pid}/exe`) === process.execPath;
    } catch {
      return false; // It ended, is no process, or belongs to somebody else.
    }
  };
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isNode(name)).length;
}
