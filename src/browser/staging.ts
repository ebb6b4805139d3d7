import { randomBytes } from 'node:crypto';
import { copyFile, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { pause } from '../core/deadline.ts';
import type { Host } from '../core/host.ts';
import { isAlive } from '../core/process-tree.ts';
import { folderError } from './binary-failure.ts';
import { isExecutableFile } from './executable.ts';

const prefix = '.staging-';
const browserFolder = /^chromium-/;
/** Licence caches and markers are a few hundred bytes; anything large is not one of them. */
const largestMarker = 65_536;
/** A staging folder this old is nobody's, even if its pid is in use again. */
const oldestMs = 24 * 60 * 60 * 1000;
/** On Windows a virus scanner holds freshly written files for a moment. */
const renameTries = 5;
const renamePauseMs = 200;

/**
 * A folder inside the cache that the wrapper uses as its cache while it downloads. Version 0.5.10 unpacks straight
 * into the final folder; here that folder becomes visible only once it is complete, by one rename.
 */
export class Staging {
  readonly folder: string;
  readonly #cacheDir: string;

  constructor(cacheDir: string, folder: string) {
    this.#cacheDir = cacheDir;
    this.folder = folder;
  }

  /** Moves finished browsers and changed markers into the cache. A browser that is already usable there stays. */
  async promote(executablePath: string): Promise<void> {
    const inside = executablePath
      .slice(this.folder.length + 1)
      .split(sep)
      .slice(1)
      .join(sep);
    const names = await readdir(this.folder);
    // Browsers first: a marker must never name a version that is not there yet.
    for (const name of names.filter((entry) => browserFolder.test(entry))) await this.#promoteBrowser(name, inside);
    for (const name of names.filter((entry) => !browserFolder.test(entry))) await this.#promoteMarker(name);
  }

  async #promoteBrowser(name: string, inside: string): Promise<void> {
    const from = join(this.folder, name);
    const to = join(this.#cacheDir, name);
    if (!(await lstat(from)).isDirectory() || !(await isExecutableFile(join(from, inside)))) return;
    if (await isExecutableFile(join(to, inside))) return;
    await rm(to, { recursive: true, force: true });
    await renamePatiently(from, to);
  }

  async #promoteMarker(name: string): Promise<void> {
    const from = join(this.folder, name);
    const to = join(this.#cacheDir, name);
    const facts = await lstat(from);
    if (!facts.isFile() || facts.size > largestMarker || name.startsWith('_download_')) return;
    const before = await readFile(to).catch(() => undefined);
    if (before?.equals(await readFile(from)) !== true) await rename(from, to);
  }

  /** Removes the folder with whatever is left in it. */
  async close(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function renamePatiently(from: string, to: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await rename(from, to);
      return;
    } catch (cause) {
      if (tries >= renameTries) throw cause;
      await pause(renamePauseMs);
    }
  }
}

/** Makes a staging folder that shows the wrapper what the cache holds: browsers as links, markers as copies. */
export async function openStaging(cacheDir: string, host: Host): Promise<Staging> {
  const folder = join(cacheDir, `${prefix}${host.pid}-${randomBytes(4).toString('hex')}`);
  const staging = new Staging(cacheDir, folder);
  try {
    await mkdir(folder, { mode: 0o700 });
    for (const entry of await readdir(cacheDir, { withFileTypes: true })) {
      const from = join(cacheDir, entry.name);
      if (entry.isDirectory() && browserFolder.test(entry.name)) {
        await symlink(from, join(folder, entry.name), 'junction');
      } else if (
        entry.isFile() &&
        !entry.name.startsWith('.download.lock') &&
        (await stat(from)).size <= largestMarker
      ) {
        await copyFile(from, join(folder, entry.name));
      }
    }
    return staging;
  } catch (cause) {
    await staging.close();
    throw folderError(cacheDir, cause);
  }
}

/** True when some program, dead or alive, has a staging folder here. */
export async function hasStaging(cacheDir: string): Promise<boolean> {
  const names = await readdir(cacheDir).catch(() => []);
  return names.some((name) => name.startsWith(prefix));
}

/** Removes staging folders whose program is gone. To be called by the holder of the download lock only. */
export async function sweepStaging(cacheDir: string, host: Host): Promise<void> {
  const names = await readdir(cacheDir).catch(() => []);
  for (const name of names) {
    if (!name.startsWith(prefix)) continue;
    const folder = join(cacheDir, name);
    const pid = Number(name.slice(prefix.length).split('-')[0]);
    const age = await stat(folder).then(
      (facts) => Date.now() - facts.mtimeMs,
      () => 0,
    );
    if (isAlive(host, pid) && age < oldestMs) continue;
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
