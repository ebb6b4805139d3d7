import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Catalog } from '../../../src/core/catalog.ts';
import type { Host } from '../../../src/core/host.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { CatalogStore, type ListingKey, defaultCacheFolder } from '../../../src/upstream/catalog.ts';

let folder: string;
let log: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'catalog-'));
  log = [];
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const key: ListingKey = {
  upstreamVersion: '1',
  cliPath: '/cli.js',
  args: ['--caps=vision'],
  env: { PLAYWRIGHT_MCP_CAPS: 'pdf', HOME: '/h' },
  config: { capabilities: ['core'] },
};
const catalog: Catalog = {
  initialize: { serverInfo: { name: 'up' } },
  tools: [{ name: 'a"', text: '{ "name":"a\\"", "big":90071992547409931 }' }],
  members: { _meta: { x: 1 } },
};

function store(some: Partial<ListingKey> = {}, path = join(folder, 'cache')): CatalogStore {
  const note = (event: string): void => void log.push(event);
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  return new CatalogStore(path, { ...key, ...some }, logger);
}

/** The only file of the store. */
function onlyFile(): string {
  const [name, ...others] = readdirSync(join(folder, 'cache'));
  if (name === undefined || others.length > 0) throw new Error('not one file');
  return join(folder, 'cache', name);
}

describe('the stored catalog', () => {
  it('is read as it was written, tools byte for byte', () => {
    store().write(catalog);
    expect(store().read()).toEqual(catalog);
    expect(log).toEqual([]);
  });

  it('is private and leaves no other file', () => {
    store().write(catalog);
    store().write({ ...catalog, tools: [] });
    expect(store().read()?.tools).toEqual([]);
    expect(statSync(onlyFile()).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'cache')).mode & 0o777).toBe(0o700);
  });

  it('is absent before anything was written', () => {
    expect(store().read()).toBeUndefined();
    expect(log).toEqual([]);
  });

  it.each([
    ['version of upstream', { upstreamVersion: '2' }],
    ['program', { cliPath: '/other.js' }],
    ['flag', { args: [] }],
    ['variable of upstream', { env: { PLAYWRIGHT_MCP_CAPS: 'vision' } }],
    ['configuration', { config: {} }],
  ])('is another one for another %s', (_what, some) => {
    store().write(catalog);
    expect(store(some).read()).toBeUndefined();
    expect(store().read()).toEqual(catalog);
  });

  it.each([
    ['a variable that is not of upstream', { env: { ...key.env, HOME: '/other', LANG: 'C' } }],
    ['another order of variables', { env: { HOME: '/h', PLAYWRIGHT_MCP_CAPS: 'pdf' } }],
  ])('is the same one for %s', (_what, some) => {
    store().write(catalog);
    expect(store(some).read()).toEqual(catalog);
  });

  it.each([
    ['is cut off', (text: string) => text.slice(0, -10)],
    ['is empty', () => ''],
    ['is no object', () => '[]'],
    ['has another key', (text: string) => text.replace(/"key":"./, '"key":"_')],
    ['has a tool that is no JSON', (text: string) => text.replace('big', 'big\\"')],
    ['has a tool under another name', (text: string) => text.replace('"name":"a', '"name":"b')],
    ['has no tools', (text: string) => text.replace('"tools"', '"fools"')],
    ['has no initialize', (text: string) => text.replace('"initialize"', '"initialise"')],
    ['has members that are no object', (text: string) => text.replace('{"_meta":{"x":1}}', '[]')],
  ])('is dropped when it %s, and can be written again', (_what, damage) => {
    store().write(catalog);
    const text = readFileSync(onlyFile(), 'utf8');
    expect(damage(text)).not.toBe(text);
    writeFileSync(onlyFile(), damage(text));
    expect(store().read()).toBeUndefined();
    expect(log).toEqual(['stored catalog dropped']);
    expect(readdirSync(join(folder, 'cache'))).toEqual([]);
    store().write(catalog);
    expect(store().read()).toEqual(catalog);
  });

  it('is no error where it cannot be written or read', () => {
    writeFileSync(join(folder, 'file'), '');
    const blocked = store({}, join(folder, 'file', 'cache'));
    blocked.write(catalog);
    expect(log).toEqual(['catalog not stored']);
    expect(blocked.read()).toBeUndefined();
  });

  it('that is written over a folder in its way leaves no temporary file', () => {
    store().write(catalog);
    const path = onlyFile();
    rmSync(path);
    mkdirSync(path);
    store().write(catalog);
    expect(log).toEqual(['catalog not stored']);
    expect(onlyFile()).toBe(path);
    expect(store().read()).toBeUndefined();
  });
});

describe('the folder of catalogs', () => {
  it('keeps the 32 newest lists and what is not a list', () => {
    const cache = join(folder, 'cache');
    for (let number = 0; number < 32; number += 1) store({ upstreamVersion: `v${number}` }).write(catalog);
    const names = readdirSync(cache);
    expect(names).toHaveLength(32);
    const oldest = names[7] ?? '';
    utimesSync(join(cache, oldest), 1, 1);
    writeFileSync(join(cache, 'other.json'), '');
    store().write(catalog);
    expect(store().read()).toEqual(catalog);
    const left = readdirSync(cache);
    expect(left).toHaveLength(33);
    expect([left.includes(oldest), left.includes('other.json')]).toEqual([false, true]);
  });
});

describe('the default folder for catalogs', () => {
  const folderOf = (platform: NodeJS.Platform, env: Host['env']): string =>
    defaultCacheFolder({ platform, env, homeDir: '/home/u' } as Host);

  it.each([
    ['linux', {}, '/home/u/.cache/cloakbrowser-mcp'],
    ['linux', { XDG_CACHE_HOME: '/x' }, '/x/cloakbrowser-mcp'],
    ['linux', { XDG_CACHE_HOME: '' }, '/home/u/.cache/cloakbrowser-mcp'],
    ['linux', { XDG_CACHE_HOME: 'x' }, '/home/u/.cache/cloakbrowser-mcp'],
    ['darwin', {}, '/home/u/Library/Caches/cloakbrowser-mcp'],
    ['win32', {}, '/home/u/AppData/Local/cloakbrowser-mcp/cache'],
    ['win32', { LOCALAPPDATA: '/l' }, '/l/cloakbrowser-mcp/cache'],
  ] as const)('on %s with %j is %s', (platform, env, expected) => {
    expect(folderOf(platform, env)).toBe(join(expected));
  });
});
