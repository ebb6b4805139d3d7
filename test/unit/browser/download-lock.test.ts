import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Host } from '../../../src/core/host.ts';
import { acquireDownloadLock, clearDeadLock, watchDownloadLock } from '../../../src/browser/download-lock.ts';
import type { DownloadState } from '../../../src/browser/download-state.ts';

let folder: string;
const alive = new Set<number>();
const never = new AbortController().signal;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lock-'));
  alive.clear();
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** A host whose processes are the test's numbers, far above those of the system. */
function makeHost(pid: number, hostname = 'here'): Host {
  alive.add(pid);
  return {
    platform: 'darwin',
    execPath: '/node',
    pid,
    uid: 1,
    hostname,
    homeDir: '/',
    tempDir: '/tmp',
    cwd: '/',
    env: {},
    kill: (target) => {
      if (!alive.has(target)) throw Object.assign(new Error('no such process'), { code: 'ESRCH' });
    },
  };
}

async function take(host: Host) {
  const lock = await acquireDownloadLock(folder, host);
  if (lock === undefined) throw new Error('the lock was not free');
  return lock;
}

describe('the download lock', () => {
  it('is held by one at a time and leaves nothing', async () => {
    const lock = await take(makeHost(9_000_001));
    expect(await acquireDownloadLock(folder, makeHost(9_000_002))).toBeUndefined();
    await lock.release();
    expect(readdirSync(folder)).toEqual([]);
    await (await take(makeHost(9_000_002))).release();
  });

  it('of a dead program is taken over at once', async () => {
    const dead = await take(makeHost(9_000_001));
    alive.delete(9_000_001);
    const lock = await take(makeHost(9_000_002));
    await dead.release();
    expect(readdirSync(folder)).toEqual(['.download.lock']);
    await lock.release();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('of a dead program on another machine is not judged by a pid of this one', async () => {
    const foreign = await take(makeHost(9_000_001, 'there'));
    alive.delete(9_000_001);
    expect(await acquireDownloadLock(folder, makeHost(9_000_002))).toBeUndefined();
    await clearDeadLock(folder, makeHost(9_000_002));
    expect(readdirSync(folder)).toEqual(['.download.lock']);
    await foreign.release();
  });

  it('tells those who wait how far the download is, until it is given back', async () => {
    const lock = await take(makeHost(9_000_001));
    const progress = { state: 'downloading', host: 'x', version: '1', receivedBytes: 5, totalBytes: 9 } as const;
    lock.report(progress);
    const seen: DownloadState[] = [];
    await watchDownloadLock(folder, {
      host: makeHost(9_000_002),
      signal: never,
      onProgress: (state) => {
        seen.push(state);
        if (state.state === 'downloading') void lock.release();
      },
    });
    expect(seen.at(-1)).toEqual(progress);
  });

  it('that shows no life for the limit is cleared by those who wait', async () => {
    writeFileSync(
      join(folder, '.download.lock'),
      JSON.stringify({ token: 't', pid: 1, host: 'there', beat: 1, progress: {} }),
    );
    const options = { host: makeHost(9_000_002), signal: never, onProgress: () => undefined, staleMs: 300 };
    await watchDownloadLock(folder, options);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('that cannot be read is cleared like one that shows no life', async () => {
    writeFileSync(join(folder, '.download.lock'), '');
    const host = makeHost(9_000_002);
    expect(await acquireDownloadLock(folder, host)).toBeUndefined();
    await watchDownloadLock(folder, { host, signal: never, onProgress: () => undefined, staleMs: 300 });
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is no longer waited for once the wait is ended', async () => {
    const lock = await take(makeHost(9_000_001));
    const before = readFileSync(join(folder, '.download.lock'), 'utf8').length;
    await watchDownloadLock(folder, {
      host: makeHost(9_000_002),
      signal: AbortSignal.abort(),
      onProgress: () => undefined,
    });
    expect(before).toBeLessThanOrEqual(1024);
    await lock.release();
  });
});
