import { describe, expect, it } from 'vitest';

import { availableMemory, proportionalMemory } from '../../../src/core/memory.ts';

const mib = 1024 * 1024;
const meminfo = 'MemTotal:       24683656 kB\nMemFree:           1000 kB\nMemAvailable:     409600 kB\n';

/** A file system of these files alone. */
function filesOf(files: Readonly<Record<string, string>>): (path: string) => string {
  return (path) => {
    const text = files[path];
    if (text === undefined) throw new Error(`ENOENT: ${path}`);
    return text;
  };
}

function available(files: Readonly<Record<string, string>>): number | undefined {
  return availableMemory(filesOf({ '/proc/meminfo': meminfo, ...files }));
}

describe('availableMemory', () => {
  it("is what the system says where no group limits us, and not the system's free memory", () => {
    expect(available({})).toBe(400 * mib);
  });

  it('is undefined where nothing can be read, as outside Linux', () => {
    expect(availableMemory(filesOf({}))).toBeUndefined();
  });

  it('is what the group may still use, pages that are given up first not counted as used', () => {
    const left = available({
      '/proc/self/cgroup': '0::/\n',
      '/sys/fs/cgroup/memory.max': `${300 * mib}\n`,
      '/sys/fs/cgroup/memory.current': `${250 * mib}\n`,
      '/sys/fs/cgroup/memory.stat': `anon 1\nfile 9\ninactive_file ${50 * mib}\nactive_file 7\n`,
    });
    expect(left).toBe(100 * mib);
  });

  it('is what the system has when the group may use more', () => {
    const left = available({
      '/proc/self/cgroup': '0::/\n',
      '/sys/fs/cgroup/memory.max': `${900 * mib}`,
      '/sys/fs/cgroup/memory.current': '0',
    });
    expect(left).toBe(400 * mib);
  });

  it('passes over a group without a limit', () => {
    const files = { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.current': '5' };
    expect(available({ ...files, '/sys/fs/cgroup/memory.max': 'max\n' })).toBe(400 * mib);
    expect(available({ ...files, '/sys/fs/cgroup/memory.max': '' })).toBe(400 * mib);
  });

  it('heeds the limit of a group above ours', () => {
    const left = available({
      '/proc/self/cgroup': '0::/machine.slice/bridge.service\n',
      '/sys/fs/cgroup/machine.slice/memory.max': `${80 * mib}`,
      '/sys/fs/cgroup/machine.slice/memory.current': `${20 * mib}`,
      '/sys/fs/cgroup/machine.slice/bridge.service/memory.max': `${70 * mib}`,
      '/sys/fs/cgroup/machine.slice/bridge.service/memory.current': `${5 * mib}`,
    });
    expect(left).toBe(60 * mib);
  });

  it('is never negative', () => {
    const left = available({
      '/proc/self/cgroup': '0::/\n',
      '/sys/fs/cgroup/memory.max': '100',
      '/sys/fs/cgroup/memory.current': '101',
    });
    expect(left).toBe(0);
  });

  it('reads the older control groups, and a container of theirs that sees its group as the root', () => {
    const left = available({
      '/proc/self/cgroup': '5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${200 * mib}`,
      '/sys/fs/cgroup/memory/memory.usage_in_bytes': `${150 * mib}`,
      '/sys/fs/cgroup/memory/memory.stat': `inactive_file 1\ntotal_inactive_file ${20 * mib}\n`,
    });
    expect(left).toBe(70 * mib);
  });

  it('takes the largest number of the older control groups for no limit', () => {
    const left = available({
      '/proc/self/cgroup': '4:memory:/\n',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712',
      '/sys/fs/cgroup/memory/memory.usage_in_bytes': '331296768',
    });
    expect(left).toBe(400 * mib);
  });

  it.runIf(process.platform === 'linux')('is a number of bytes that this system can have', () => {
    expect(availableMemory()).toBeGreaterThan(mib);
  });
});

describe('proportionalMemory', () => {
  it('counts the share of what is held together with others', () => {
    const rollup = '5-7 ---p 0 00:00 0 [rollup]\nRss: 4000 kB\nPss:     1640 kB\nPss_Dirty: 112 kB\n';
    expect(proportionalMemory(7, filesOf({ '/proc/7/smaps_rollup': rollup }))).toBe(1640 * 1024);
  });

  it('is 0 for a process that is gone', () => {
    expect(proportionalMemory(2 ** 22 + 1)).toBe(0);
  });

  it('counts what a process has alone when it does not let itself be looked into', () => {
    const status = 'Name:\tchrome\nVmRSS:\t  900 kB\nRssAnon:\t  300 kB\nRssFile:\t  600 kB\n';
    expect(proportionalMemory(7, filesOf({ '/proc/7/status': status }))).toBe(300 * 1024);
  });

  it.runIf(process.platform === 'linux')('finds a process of this size here', () => {
    expect(proportionalMemory(process.pid)).toBeGreaterThan(mib);
  });
});
