import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

type ReadText = (path: string) => string;

/** Where the kernel shows control groups; fixed by systemd and every container runtime. */
const groupRoot = '/sys/fs/cgroup';
/** The kernel counts in KiB in the files of /proc. */
const bytesPerKb = 1024;

/** The files of one version of control groups. */
interface GroupFiles {
  readonly root: string;
  readonly limit: string;
  readonly used: string;
  /** Line of `memory.stat` with the pages that are given up first, the group's children included. */
  readonly reclaimable: string;
}

const version2: GroupFiles = {
  root: groupRoot,
  limit: 'memory.max',
  used: 'memory.current',
  reclaimable: 'inactive_file',
};
const version1: GroupFiles = {
  root: `${groupRoot}/memory`,
  limit: 'memory.limit_in_bytes',
  used: 'memory.usage_in_bytes',
  reclaimable: 'total_inactive_file',
};

function readSystemText(path: string): string {
  return readFileSync(path, 'latin1');
}

/** The number after a name in a file of `name value` lines; undefined if either is not there. */
function valueOf(text: string | undefined, name: string): number | undefined {
  const found = new RegExp(`^${name}:?[ \\t]+(\\d+)`, 'm').exec(text ?? '')?.[1];
  return found === undefined ? undefined : Number(found);
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined;
}

function attempt(readText: ReadText, path: string): string | undefined {
  try {
    return readText(path);
  } catch {
    // Not Linux, the other version of control groups, a process that is gone or not ours to look at.
    return undefined;
  }
}

/** The group's folder and those above it: a limit on any of them counts. */
function foldersOf(files: GroupFiles, path: string): readonly string[] {
  const folders = [files.root];
  for (const name of path.split('/').filter((part) => part !== '' && part !== '..')) {
    folders.push(posix.join(folders.at(-1) ?? files.root, name));
  }
  return folders;
}

/** What is left below the limit of one group; undefined where it has none. */
function leftIn(files: GroupFiles, folder: string, readText: ReadText): number | undefined {
  // `max` stands for no limit, and is no number.
  const limit = numberOf(attempt(readText, posix.join(folder, files.limit)));
  const used = numberOf(attempt(readText, posix.join(folder, files.used)));
  if (limit === undefined || used === undefined) return undefined;
  const reclaimable = valueOf(attempt(readText, posix.join(folder, 'memory.stat')), files.reclaimable) ?? 0;
  return Math.max(0, limit - Math.max(0, used - reclaimable));
}

function groupFolders(readText: ReadText): readonly (readonly [GroupFiles, string])[] {
  const lines = (attempt(readText, '/proc/self/cgroup') ?? '').split('\n');
  // `<number>:<controllers>:<path>`; version 2 has number 0 and no controllers. A container with a view of its own has `/`.
  return lines.flatMap((line) => {
    const [, number, controllers = '', path = ''] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? [];
    const isVersion1 = controllers.split(',').includes('memory');
    if (!isVersion1 && (number !== '0' || controllers !== '')) return [];
    const files = isVersion1 ? version1 : version2;
    return foldersOf(files, path).map((folder) => [files, folder] as const);
  });
}

/**
 * Bytes that new processes can still get: the smaller of what the system has (`MemAvailable`) and of what is left below
 * the limits of our control group and those above it. Undefined where neither can be told, as outside Linux.
 */
export function availableMemory(readText: ReadText = readSystemText): number | undefined {
  const systemKb = valueOf(attempt(readText, '/proc/meminfo'), 'MemAvailable');
  const system = systemKb === undefined ? undefined : systemKb * bytesPerKb;
  const groups = groupFolders(readText).map(([files, folder]) => leftIn(files, folder, readText));
  const known = [system, ...groups].filter((value) => value !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * Bytes of a process, its share of what it has together with others included (`Pss`); 0 if it is gone. Of a process
 * that does not let itself be looked into, as sandboxed ones do, what it has alone (`RssAnon`).
 */
export function proportionalMemory(pid: number, readText: ReadText = readSystemText): number {
  const shared = valueOf(attempt(readText, `/proc/${pid}/smaps_rollup`), 'Pss');
  const kb = shared ?? valueOf(attempt(readText, `/proc/${pid}/status`), 'RssAnon') ?? 0;
  return kb * bytesPerKb;
}
