import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Host } from '../../../src/core/host.ts';
import { openStaging, sweepStaging } from '../../../src/browser/staging.ts';

let cache: string;
const own = 9_000_001;
const host: Host = {
  platform: 'darwin',
  execPath: '/node',
  pid: own,
  uid: 1,
  hostname: 'here',
  homeDir: '/',
  tempDir: '/tmp',
  cwd: '/',
  env: {},
  kill: (pid) => {
    if (pid !== own) throw Object.assign(new Error('no such process'), { code: 'ESRCH' });
  },
};

beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'staging-'));
});

afterEach(() => {
  rmSync(cache, { recursive: true });
});

function makeBrowser(folder: string, name: string, content: string, mode = 0o755): string {
  mkdirSync(join(folder, name));
  writeFileSync(join(folder, name, 'chrome'), content, { mode });
  return join(folder, name, 'chrome');
}

describe('a staging folder', () => {
  it('shows what the cache holds and brings back what is new', async () => {
    makeBrowser(cache, 'chromium-1', 'old');
    writeFileSync(join(cache, 'license.key'), 'key');
    writeFileSync(join(cache, '.license_cache'), 'before');
    const staging = await openStaging(cache, host);
    expect(readFileSync(join(staging.folder, 'chromium-1/chrome'), 'utf8')).toBe('old');
    expect(readFileSync(join(staging.folder, 'license.key'), 'utf8')).toBe('key');
    const path = makeBrowser(staging.folder, 'chromium-2', 'new');
    writeFileSync(join(staging.folder, '.license_cache'), 'after');
    writeFileSync(join(staging.folder, 'latest_version_linux-x64'), '2');
    writeFileSync(join(staging.folder, '_download_1.tar.gz'), 'half');
    await staging.promote(path);
    await staging.close();
    expect(readdirSync(cache).sort()).toEqual([
      '.license_cache',
      'chromium-1',
      'chromium-2',
      'latest_version_linux-x64',
      'license.key',
    ]);
    expect(readFileSync(join(cache, '.license_cache'), 'utf8')).toBe('after');
    expect(readFileSync(join(cache, 'chromium-2/chrome'), 'utf8')).toBe('new');
  });

  it('never replaces a browser that may be running, but does replace a broken one', async () => {
    const staging = await openStaging(cache, host);
    const path = makeBrowser(staging.folder, 'chromium-1', 'new');
    makeBrowser(staging.folder, 'chromium-2', 'new');
    makeBrowser(cache, 'chromium-1', 'running');
    makeBrowser(cache, 'chromium-2', 'broken', 0o644);
    await staging.promote(path);
    await staging.close();
    expect(readFileSync(join(cache, 'chromium-1/chrome'), 'utf8')).toBe('running');
    expect(readFileSync(join(cache, 'chromium-2/chrome'), 'utf8')).toBe('new');
  });

  it('brings back no browser that cannot be executed', async () => {
    const staging = await openStaging(cache, host);
    const path = makeBrowser(staging.folder, 'chromium-1', 'half', 0o644);
    await staging.promote(path);
    await staging.close();
    expect(readdirSync(cache)).toEqual([]);
  });

  it('removing it leaves the browsers that it showed', async () => {
    makeBrowser(cache, 'chromium-1', 'old');
    await (await openStaging(cache, host)).close();
    expect(existsSync(join(cache, 'chromium-1/chrome'))).toBe(true);
  });

  it('cannot be made where there is no cache', async () => {
    await expect(openStaging(join(cache, 'gone'), host)).rejects.toMatchObject({ code: 'folder_unwritable' });
  });
});

describe('the sweep', () => {
  it('removes what dead programs left, and what is too old to be anybody’s', async () => {
    for (const name of [`.staging-${own}-a`, `.staging-${own}-b`, '.staging-9000009-c', 'chromium-1']) {
      mkdirSync(join(cache, name));
    }
    const long = new Date(Date.now() - 25 * 60 * 60 * 1000);
    utimesSync(join(cache, `.staging-${own}-b`), long, long);
    await sweepStaging(cache, host);
    expect(readdirSync(cache).sort()).toEqual([`.staging-${own}-a`, 'chromium-1']);
    await sweepStaging(join(cache, 'gone'), host);
  });
});
