import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { waitUntil } from './waiting.ts';

/** One line of the process table. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  readonly command: string;
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // the process ended meanwhile, or is somebody else's
  }
}

function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return ''; // as above
  }
}

function entryOf(pid: number): ProcessEntry | undefined {
  const stat = read(pid, 'stat');
  if (stat === '') return undefined;
  // The name in parentheses may hold blanks and parentheses itself.
  const [state = '', parent = '0'] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { pid, parent: Number(parent), state, command: read(pid, 'cmdline').replaceAll('\0', ' ').trim() };
}

/** Every process that can be seen and is no zombie. */
export function listProcesses(): ProcessEntry[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => entryOf(Number(name)))
    .filter((entry) => entry !== undefined)
    .filter((entry) => entry.state !== 'Z' && entry.state !== 'X');
}

function socketsOf(pid: number): ReadonlySet<string> {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return ''; // closed meanwhile
    }
  });
  return new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []));
}

/** The TCP ports that a process listens on. */
export function listeningPorts(pid: number): number[] {
  const sockets = socketsOf(pid);
  const lines = ['net/tcp', 'net/tcp6'].flatMap((file) => read(pid, file).split('\n').slice(1));
  return lines.flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    // State 0A is LISTEN (proc(5)).
    return state === '0A' && sockets.has(inode) ? [Number.parseInt(local.split(':')[1] ?? '', 16)] : [];
  });
}

/** The processes below `pid`, without itself. */
export function descendantsOf(pid: number): ProcessEntry[] {
  const all = listProcesses();
  const found: ProcessEntry[] = [];
  const parents = [pid];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const entry of all) {
      if (entry.parent !== parent) continue;
      found.push(entry);
      parents.push(entry.pid);
    }
  }
  return found;
}

/**
 * The processes that belong to a test by its folder: it is in their environment, arguments or working folder. This also
 * finds those that were given to another parent. The caller itself is left out.
 */
export function processesOf(folder: string): ProcessEntry[] {
  return listProcesses().filter(
    ({ pid, command }) =>
      pid !== process.pid &&
      (command.includes(folder) || read(pid, 'environ').includes(folder) || workingFolder(pid).startsWith(folder)),
  );
}

/** True while the process runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  const entry = entryOf(pid);
  return entry !== undefined && entry.state !== 'Z' && entry.state !== 'X';
}

/** Waits until no process of the folder is left; names those that are when the time is up. */
export async function waitForNoProcess(folder: string, ms = 10_000): Promise<void> {
  let left: ProcessEntry[] = [];
  try {
    await waitUntil('no process', () => ((left = processesOf(folder)).length === 0 ? true : undefined), ms);
  } catch (cause) {
    throw new Error(`Still running: ${left.map(({ pid, command }) => `${pid} ${command}`).join('; ')}`, { cause });
  }
}

/** Processor time that a process has used so far, in milliseconds; a tick is 10 ms on Linux. */
export function processorMs(pid: number): number {
  const stat = read(pid, 'stat');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Resident memory of a process in MiB. */
export function residentMebibytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(read(pid, 'status'))?.[1] ?? 0) / 1024;
}
