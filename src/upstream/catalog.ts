import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Catalog } from '../core/catalog.ts';
import { makeFolder } from '../core/folder.ts';
import type { Host } from '../core/host.ts';
import type { Logger } from '../core/logger.ts';
import { isRecord } from '../core/record.ts';
import { userCacheFolder } from '../core/user-folder.ts';

/** More combinations of settings than one user has in use. */
const keptCatalogs = 32;
/** Raised when the stored form changes, so that an older file is dropped. */
const format = 1;

/** What a tool list depends on: another value of any of these may give another list. */
export interface ListingKey {
  readonly upstreamVersion: string;
  readonly cliPath: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly config: unknown;
}

/** The catalog on disk: one file for each listing key, in the user's cache folder. */
export class CatalogStore {
  readonly #folder: string;
  readonly #key: string;
  readonly #logger: Logger;

  constructor(folder: string, listing: ListingKey, logger: Logger) {
    this.#folder = folder;
    this.#logger = logger;
    const upstreamVariables = Object.entries(listing.env)
      .filter(([name]) => name.startsWith('PLAYWRIGHT_'))
      .sort(([one], [other]) => (one < other ? -1 : 1));
    const parts = [format, listing.upstreamVersion, listing.cliPath, listing.args, upstreamVariables, listing.config];
    this.#key = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  }

  get #path(): string {
    return join(this.#folder, `catalog-${this.#key.slice(0, 24)}.json`);
  }

  /** The stored catalog; undefined when there is none, or when it does not parse or match, in which case it is removed. */
  read(): Catalog | undefined {
    let text: string;
    try {
      text = readFileSync(this.#path, 'utf8');
    } catch {
      // Nothing stored yet, or a cache folder that cannot be read: learn it.
      return undefined;
    }
    const catalog = parseStored(text, this.#key);
    if (catalog === undefined) {
      this.#logger.warn('stored catalog dropped', { path: this.#path, reason: 'it does not parse or match' });
      removeQuietly(this.#path);
    }
    return catalog;
  }

  /** Stores a catalog in one step, so that a reader sees the old or the new one. A cache that cannot be written is no error. */
  write(catalog: Catalog): void {
    const temporary = `${this.#path}.${randomBytes(4).toString('hex')}`;
    try {
      makeFolder(this.#folder);
      writeFileSync(temporary, JSON.stringify({ key: this.#key, catalog }), { mode: 0o600 });
      renameSync(temporary, this.#path);
      pruneOld(this.#folder);
    } catch (failure) {
      removeQuietly(temporary);
      this.#logger.debug('catalog not stored', { path: this.#path, reason: String(failure) });
    }
  }
}

/** Leaves the newest lists: settings that differ with every start, such as a path, would fill the folder. */
function pruneOld(folder: string): void {
  const files = readdirSync(folder)
    .filter((name) => /^catalog-\w+\.json$/.test(name))
    .map((name) => join(folder, name));
  const newestFirst = files
    .map((path) => ({ path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .toSorted((one, other) => other.at - one.at);
  for (const { path } of newestFirst.slice(keptCatalogs)) removeQuietly(path);
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // A cache that cannot be written stays as it is; what is stored in it is checked at each reading.
  }
}

function isTool(value: unknown): boolean {
  return (
    isRecord(value) && typeof value['name'] === 'string' && typeof value['text'] === 'string' && matchesName(value)
  );
}

function matchesName(tool: Record<string, unknown>): boolean {
  try {
    const parsed: unknown = JSON.parse(String(tool['text']));
    return isRecord(parsed) && parsed['name'] === tool['name'];
  } catch {
    // The stored text of a tool is not JSON: the file was damaged.
    return false;
  }
}

function parseStored(text: string, key: string): Catalog | undefined {
  let stored: unknown;
  try {
    stored = JSON.parse(text);
  } catch {
    // A damaged file is dropped by the caller.
    return undefined;
  }
  const catalog = isRecord(stored) && stored['key'] === key ? stored['catalog'] : undefined;
  if (!isRecord(catalog) || !isRecord(catalog['initialize']) || !isRecord(catalog['members'])) return undefined;
  const tools = catalog['tools'];
  return Array.isArray(tools) && tools.every(isTool) ? (catalog as unknown as Catalog) : undefined;
}

/** Where catalogs are kept when no folder is given: the user's cache folder of the platform. */
export function defaultCacheFolder(host: Host): string {
  const folder = join(userCacheFolder(host), 'cloakbrowser-mcp');
  // On Windows what can be made again and what is kept lie in one folder.
  return host.platform === 'win32' ? join(folder, 'cache') : folder;
}
