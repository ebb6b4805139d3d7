import { randomBytes } from 'node:crypto';
import { link, open, readFile, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '../core/deadline.ts';
import { hostIdentity } from '../core/host-identity.ts';
import type { Host } from '../core/host.ts';
import { isAlive, startTimeOf } from '../core/process-tree.ts';
import type { DownloadState } from './download-state.ts';

interface LockRecord {
  readonly token: string;
  readonly pid: number;
  /** Start time of the process where the system tells it, so that a reused pid is not taken for the holder. */
  readonly started: string | undefined;
  readonly host: string;
  readonly beat: number;
  readonly progress: DownloadState;
}

/** How a waiter watches another program's download. */
export interface WatchOptions {
  readonly host: Host;
  readonly onProgress: (state: DownloadState) => void;
  readonly signal: AbortSignal;
  /** A holder without a heartbeat for this long is taken for gone; 20 missed beats by default. */
  readonly staleMs?: number;
}

const lockName = '.download.lock';
const beatMs = 500;
const pollMs = 250;
const defaultStaleMs = 10_000;
/** Every record is padded to this length, so that writing over the former one leaves no tail. */
const recordBytes = 1024;
/** One try to take the file, one after clearing a dead holder's; more means others are at it. */
const acquireTries = 3;

async function readRecord(path: string): Promise<LockRecord | 'unreadable' | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
  try {
    const parsed = JSON.parse(text) as LockRecord;
    return typeof parsed.token === 'string' && typeof parsed.pid === 'number' ? parsed : 'unreadable';
  } catch {
    return 'unreadable'; // Just created and not yet written.
  }
}

function isDead(record: LockRecord, host: Host): boolean {
  return record.host === hostIdentity(host) && !isAlive(host, record.pid, record.started);
}

/** Takes a dead holder's file away; one that appeared in its place meanwhile is put back. */
async function clear(path: string, token: string | undefined): Promise<void> {
  const aside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    await rename(path, aside);
  } catch {
    return; // Somebody else cleared it first.
  }
  const moved = await readRecord(aside);
  if (typeof moved === 'object' && moved.token !== token) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

/** The exclusive right to download into one cache folder, shared by all programs that use it. */
export class DownloadLock {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #identity: Omit<LockRecord, 'beat' | 'progress'>;
  readonly #timer: NodeJS.Timeout;
  #beat = 0;
  #progress: DownloadState = { state: 'checking' };
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, file: FileHandle, identity: Omit<LockRecord, 'beat' | 'progress'>) {
    this.#path = path;
    this.#file = file;
    this.#identity = identity;
    this.#timer = setInterval(() => {
      this.#write();
    }, beatMs);
    this.#timer.unref();
    this.#write();
  }

  /** Tells those who wait how far the download is; written with the next heartbeat. */
  report(progress: DownloadState): void {
    this.#progress = progress;
  }

  #write(): void {
    this.#beat += 1;
    const record: LockRecord = { ...this.#identity, beat: this.#beat, progress: this.#progress };
    // Written through the open file: if the lock was taken away, the successor's file is another one.
    const text = JSON.stringify(record).padEnd(recordBytes);
    this.#writing = this.#writing.then(async () => {
      await this.#file.write(text, 0).catch(() => undefined); // A missed beat is tolerated, see staleMs.
    });
  }

  /** Gives the lock back. */
  async release(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    await this.#file.close();
    const record = await readRecord(this.#path);
    if (typeof record === 'object' && record.token === this.#identity.token) await rm(this.#path, { force: true });
  }
}

/** Takes the lock of a cache folder, or gives undefined when a living program holds it. */
export async function acquireDownloadLock(folder: string, host: Host): Promise<DownloadLock | undefined> {
  const path = join(folder, lockName);
  const token = randomBytes(12).toString('hex');
  const identity = { token, pid: host.pid, started: startTimeOf(host.pid), host: hostIdentity(host) };
  for (let tries = 0; tries < acquireTries; tries += 1) {
    try {
      return new DownloadLock(path, await open(path, 'wx', 0o600), identity);
    } catch (cause) {
      if (!(cause instanceof Error && 'code' in cause && cause.code === 'EEXIST')) throw cause;
    }
    const record = await readRecord(path);
    if (record === 'unreadable') return undefined;
    if (record !== undefined && !isDead(record, host)) return undefined;
    if (record !== undefined) await clear(path, record.token);
  }
  return undefined;
}

/** Removes the lock of a program that is gone, so that nothing is left of it after the next start. */
export async function clearDeadLock(folder: string, host: Host): Promise<void> {
  const path = join(folder, lockName);
  const record = await readRecord(path);
  if (typeof record === 'object' && isDead(record, host)) await clear(path, record.token);
}

/** Waits until another program's lock is gone, telling its progress; a holder that shows no life is cleared. */
export async function watchDownloadLock(folder: string, options: WatchOptions): Promise<void> {
  const path = join(folder, lockName);
  const { host, onProgress, signal, staleMs = defaultStaleMs } = options;
  let seen = '';
  let seenAt = performance.now();
  while (!signal.aborted) {
    const record = await readRecord(path);
    if (record === undefined) return;
    const beat = record === 'unreadable' ? 'unreadable' : `${record.token} ${record.beat}`;
    if (beat !== seen) {
      seen = beat;
      seenAt = performance.now();
      if (record !== 'unreadable') onProgress(record.progress);
    }
    const isStale = performance.now() - seenAt >= staleMs;
    if (isStale || (record !== 'unreadable' && isDead(record, host))) {
      await clear(path, record === 'unreadable' ? undefined : record.token);
      return;
    }
    await pause(pollMs, signal);
  }
}
