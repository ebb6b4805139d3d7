import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { BridgeError, messageOf } from '../core/errors.ts';
import { hostIdentity } from '../core/host-identity.ts';
import type { Host } from '../core/host.ts';
import type { Logger } from '../core/logger.ts';
import { endMarkedProcesses, isAlive, processesMarkedBy, startTimeOf } from '../core/process-tree.ts';

/** Every session folder begins with this, so that a later start finds those of dead owners. */
const prefix = 'cbmcp-';
/** Chromium refuses a socket path over 107 bytes; with what it appends, a TMPDIR may have 62 (measured on 156). */
const maxTempLength = 62;
/** Length of `/cbmcp-<pid>-<6 characters>/t<number>` at its longest. */
const reservedLength = 34;

/** Windows tells for a moment that a file of a process that just ended is in use. */
const removal = { recursive: true, force: true, maxRetries: 3, retryDelay: 20 } as const;

/** The folders of one generation. */
export interface GenerationFolders {
  readonly folder: string;
  /** The child's TMPDIR. */
  readonly tempDir: string;
  /** Removes both after the child has ended. */
  readonly release: () => Promise<void>;
  /** Removes both at once, since no child was started in them. */
  readonly discard: () => void;
}

interface Owner {
  readonly pid: number;
  readonly startTime: string | undefined;
  readonly host: string;
}

/** The folder of one session: private, and removed with everything in it when the session ends. */
export class Workspace {
  readonly folder: string;
  readonly #logger: Logger;

  constructor(folder: string, logger: Logger) {
    this.folder = folder;
    this.#logger = logger;
  }

  /** A new folder for a generation, with the child's own temporary folder in it. */
  openGeneration(number: number): GenerationFolders {
    const folder = join(this.folder, `g${number}`);
    const tempDir = join(this.folder, `t${number}`);
    for (const path of [folder, tempDir]) {
      // A failed start of the same number may have left files behind.
      remove(path, this.#logger);
      mkdirSync(path, { mode: 0o700 });
    }
    return {
      folder,
      tempDir,
      release: async () => {
        await removeInBackground(folder, this.#logger);
        await removeInBackground(tempDir, this.#logger);
      },
      discard: () => {
        remove(folder, this.#logger);
        remove(tempDir, this.#logger);
      },
    };
  }

  /** Removes the folder. */
  close(): void {
    remove(this.folder, this.#logger);
  }

  /** Removes the folder, and lets everybody else go on meanwhile. */
  remove(): Promise<void> {
    return removeInBackground(this.folder, this.#logger);
  }
}

/** Removes a folder without holding up the program: a browser's profile, or what a page downloaded, is thousands of files. */
async function removeInBackground(path: string, logger: Logger): Promise<void> {
  try {
    await rm(path, removal);
  } catch (failure) {
    logger.warn('folder not removed', { path, reason: messageOf(failure) });
  }
}

/** Removes a folder; what cannot be removed is told, and left to the sweep of a later start. */
function remove(path: string, logger: Logger): boolean {
  try {
    rmSync(path, removal);
    return true;
  } catch (failure) {
    logger.warn('folder not removed', { path, reason: messageOf(failure) });
    return false;
  }
}

function parentFolder(host: Host): string {
  return host.platform === 'win32' || host.tempDir.length + reservedLength <= maxTempLength ? host.tempDir : '/tmp';
}

/** Makes the session's folder, 0700, with the name of its owner in it. Throws `folder_unwritable`. */
export function openWorkspace(host: Host, logger: Logger): Workspace {
  const parent = parentFolder(host);
  try {
    const folder = mkdtempSync(join(parent, `${prefix}${host.pid}-`));
    chmodSync(folder, 0o700);
    const owner: Owner = { pid: host.pid, startTime: startTimeOf(host.pid), host: hostIdentity(host) };
    writeFileSync(join(folder, 'owner.json'), JSON.stringify(owner), { mode: 0o600 });
    return new Workspace(folder, logger);
  } catch (cause) {
    throw new BridgeError('folder_unwritable', `No temporary folder can be made in ${parent}: ${messageOf(cause)}.`, {
      hint: 'Set TMPDIR to a folder that can be written, or free space on it.',
      cause,
    });
  }
}

function readOwner(folder: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8')) as Owner;
  } catch {
    // Being made right now, or not ours: leave it alone.
    return undefined;
  }
}

function isAbandoned(host: Host, folder: string): boolean {
  const entry = lstatSync(folder, { throwIfNoEntry: false });
  if (entry?.isDirectory() !== true || (host.uid !== undefined && entry.uid !== host.uid)) return false;
  const owner = readOwner(folder);
  // A pid says nothing about another host's or container's processes, as on a shared temporary volume.
  return owner !== undefined && owner.host === hostIdentity(host) && !isAlive(host, owner.pid, owner.startTime);
}

/** Removes what sessions of dead owners left: their processes and their folders. Returns how many folders went. */
export async function sweepWorkspaces(host: Host, logger: Logger): Promise<number> {
  const parent = parentFolder(host);
  let removed = 0;
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(parent, name);
    if (!isAbandoned(host, folder)) continue;
    for (const inner of readdirSync(folder).filter((entry) => /^t\d+$/.test(entry))) {
      const tempDir = join(folder, inner);
      if (processesMarkedBy(host, tempDir).length > 0) await endMarkedProcesses(host, tempDir, 0);
    }
    if (!remove(folder, logger)) continue;
    removed += 1;
    logger.info('abandoned folder removed', { path: folder });
  }
  return removed;
}
