import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type MeterParts, ProcessMeter } from '../../../src/core/process-meter.ts';

const bridge = 100;
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'meter-'));
  addProcess(1, 0, {});
  addProcess(bridge, 1, { memoryKb: 9999 });
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

interface ProcessParts {
  readonly tempDir?: string;
  readonly memoryKb?: number;
  /** Memory of a process that does not show its own maps. */
  readonly anonymousKb?: number;
  readonly state?: string;
}

function addProcess(pid: number, parent: number, { tempDir, memoryKb, anonymousKb, state = 'S' }: ProcessParts): void {
  const folder = join(root, String(pid));
  mkdirSync(folder);
  writeFileSync(join(folder, 'stat'), `${pid} (a (b) c) ${state} ${parent} 1 2 3`);
  writeFileSync(join(folder, 'environ'), tempDir === undefined ? '' : `A=1\0TMPDIR=${tempDir}\0B=2\0`);
  if (memoryKb !== undefined) writeFileSync(join(folder, 'smaps_rollup'), `Rss: 77 kB\nPss:    ${memoryKb} kB\n`);
  if (anonymousKb !== undefined) writeFileSync(join(folder, 'status'), `Name: x\nRssAnon:  ${anonymousKb} kB\n`);
}

function makeMeter(folders: readonly string[], parts: Partial<MeterParts> = {}): ProcessMeter {
  return new ProcessMeter({ host: { platform: 'linux', pid: bridge }, folders: () => folders, root, ...parts });
}

describe('the process meter', () => {
  it('counts what carries the mark of a folder, and all that descends from it', async () => {
    addProcess(200, bridge, { tempDir: '/tmp/one/t1', memoryKb: 10 });
    addProcess(201, 200, { memoryKb: 20 });
    addProcess(202, 201, { memoryKb: 30 });
    addProcess(300, bridge, { tempDir: '/tmp/two/t7', memoryKb: 5 });
    expect(Object.fromEntries(await makeMeter(['/tmp/one', '/tmp/two', '/tmp/three']).read())).toEqual({
      '/tmp/one': { count: 3, memoryBytes: 60 * 1024 },
      '/tmp/two': { count: 1, memoryBytes: 5 * 1024 },
    });
  });

  it('counts one that was handed to init since', async () => {
    addProcess(400, 1, { tempDir: '/tmp/one/t1', memoryKb: 3 });
    expect((await makeMeter(['/tmp/one']).read()).get('/tmp/one')).toEqual({ count: 1, memoryBytes: 3072 });
  });

  it('leaves out other folders, other programs and what has ended', async () => {
    addProcess(500, bridge, { tempDir: '/tmp/one-and-more/t1', memoryKb: 1 });
    addProcess(501, bridge, { tempDir: '/tmp/one', memoryKb: 1 });
    addProcess(502, bridge, { memoryKb: 1 });
    addProcess(503, bridge, { tempDir: '/tmp/one/t1', memoryKb: 1, state: 'Z' });
    mkdirSync(join(root, '504'));
    mkdirSync(join(root, 'self'));
    expect(await makeMeter(['/tmp/one']).read()).toEqual(new Map());
  });

  it('takes what a process has alone where its maps are closed to us', async () => {
    addProcess(600, bridge, { tempDir: '/tmp/one/t1', anonymousKb: 4 });
    addProcess(601, 600, {});
    expect((await makeMeter(['/tmp/one']).read()).get('/tmp/one')).toEqual({ count: 2, memoryBytes: 4096 });
  });

  it('ends even if two processes claim each other as parent', async () => {
    addProcess(700, 701, {});
    addProcess(701, 700, {});
    expect(await makeMeter(['/tmp/one']).read()).toEqual(new Map());
  });

  it('looks once for all who ask at the same time', async () => {
    let looks = 0;
    const folders = (): string[] => {
      looks += 1;
      return [];
    };
    const meter = makeMeter([], { folders });
    await Promise.all([meter.read(), meter.read()]);
    await meter.read();
    expect(looks).toBe(1);
  });

  it('looks again after 10 s, and after a long look not before fifty times as long', async () => {
    let now = 0;
    let looks = 0;
    let costMs = 0;
    const folders = (): string[] => {
      looks += 1;
      now += costMs;
      return [];
    };
    const meter = makeMeter([], { folders, now: () => now });
    await meter.read();
    now += 9999;
    await meter.read();
    expect(looks).toBe(1);
    now += 1;
    costMs = 300;
    await meter.read();
    expect(looks).toBe(2);
    now += 14_999;
    await meter.read();
    expect(looks).toBe(2);
    now += 1;
    await meter.read();
    expect(looks).toBe(3);
  });

  it('looks again after a look that failed', async () => {
    let now = 0;
    let isBroken = true;
    const folders = (): string[] => {
      if (isBroken) throw new Error('broken');
      return ['/tmp/one'];
    };
    const meter = makeMeter([], { folders, now: () => now });
    await expect(meter.read()).rejects.toThrow('broken');
    isBroken = false;
    now = 10_000;
    expect(await meter.read()).toEqual(new Map());
  });

  it('finds nothing where there is no table of processes', async () => {
    addProcess(800, bridge, { tempDir: '/tmp/one/t1', memoryKb: 1 });
    const elsewhere = { platform: 'darwin', pid: bridge } as const;
    expect(await makeMeter(['/tmp/one'], { host: elsewhere }).read()).toEqual(new Map());
    expect(await makeMeter(['/tmp/one'], { root: join(root, 'absent') }).read()).toEqual(new Map());
  });
});
