import { readFileSync, readdirSync } from 'node:fs';

import { pause } from './deadline.ts';
import type { Host } from './host.ts';

/** Pause between two looks at the process table while processes end: short at first, since most end soon. */
const pollMs = 40;
const longestPollMs = 300;
const pollGrowth = 1.5;

/** When a process started, in a form that tells it from a later one with the same pid; undefined if it is gone. Linux only. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Field 22 of proc(5); the name in field 2 may hold spaces and parentheses, so count from its end.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    // No such process, or no /proc on this system.
    return undefined;
  }
}

/** True while a process with this pid runs, and, where that can be told, it is the one that started at `startTime`. */
export function isAlive(host: Host, pid: number, startTime?: string): boolean {
  try {
    host.kill(pid, 0);
  } catch (failure) {
    // EPERM means that it runs and belongs to somebody else.
    return failure instanceof Error && 'code' in failure && failure.code === 'EPERM';
  }
  return startTime === undefined || host.platform !== 'linux' || startTimeOf(pid) === startTime;
}

function isZombie(pid: string): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.charAt(stat.lastIndexOf(')') + 2) === 'Z';
  } catch {
    // It ended between the two looks.
    return true;
  }
}

function listProcesses(): readonly string[] {
  try {
    return readdirSync('/proc');
  } catch {
    // Hidden from us, as in some chroots.
    return [];
  }
}

/**
 * Pids of the processes whose environment has TMPDIR set to this folder, that is everything a child of ours started,
 * also what has been handed to init since. Linux only, elsewhere empty: there the browser ends with its pipe.
 */
export function processesMarkedBy(host: Host, tempDir: string): readonly number[] {
  if (host.platform !== 'linux') return [];
  const mark = `\0TMPDIR=${tempDir}\0`;
  return listProcesses()
    .filter((name) => /^\d+$/.test(name) && Number(name) !== host.pid)
    .filter((pid) => {
      try {
        return `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`.includes(mark) && !isZombie(pid);
      } catch {
        // It ended, or belongs to somebody else.
        return false;
      }
    })
    .map(Number);
}

/** Kills processes; those that ended meanwhile are passed over. */
export function killProcesses(host: Host, pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      host.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
}

/**
 * Waits until no process is marked by the folder, at most `graceMs`, then kills what is left.
 * Returns how many had to be killed.
 */
export async function endMarkedProcesses(host: Host, tempDir: string, graceMs: number): Promise<number> {
  const killAt = performance.now() + graceMs;
  let left = processesMarkedBy(host, tempDir);
  // Each look reads all of the table, which with many browsers ending at once would leave time for nothing else.
  for (let waitMs = pollMs; left.length > 0 && performance.now() < killAt; waitMs *= pollGrowth) {
    await pause(Math.min(waitMs, longestPollMs));
    left = processesMarkedBy(host, tempDir);
  }
  const forced = left.length;
  // A process may have started another one meanwhile, so look again after each kill, a bounded number of times.
  for (let round = 0; left.length > 0 && round < 25; round += 1) {
    killProcesses(host, left);
    await pause(pollMs);
    left = processesMarkedBy(host, tempDir);
  }
  return forced;
}
