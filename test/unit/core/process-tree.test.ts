import { describe, expect, it } from 'vitest';

import type { Host } from '../../../src/core/host.ts';
import { endMarkedProcesses, isAlive, processesMarkedBy, startTimeOf } from '../../../src/core/process-tree.ts';

const self = process.pid;
/** More than Linux ever gives to a process. */
const nobody = 2 ** 22 + 1;

function makeHost(parts: Partial<Host> = {}): Host {
  return {
    platform: 'linux',
    execPath: '/node',
    pid: self,
    uid: 0,
    hostname: 'here',
    homeDir: '/',
    tempDir: '/tmp',
    cwd: '/',
    env: {},
    kill: () => undefined,
    ...parts,
  };
}

function refuseWith(code: string): Host['kill'] {
  return () => {
    throw Object.assign(new Error(code), { code });
  };
}

describe('isAlive', () => {
  it('is true for a process that takes a signal', () => {
    expect(isAlive(makeHost(), self)).toBe(true);
  });

  it('is false for a process that is gone', () => {
    expect(isAlive(makeHost({ kill: refuseWith('ESRCH') }), self)).toBe(false);
  });

  it("is true for somebody else's process", () => {
    expect(isAlive(makeHost({ kill: refuseWith('EPERM') }), self)).toBe(true);
  });

  it('asks with a signal that harms nobody', () => {
    const asked: unknown[] = [];
    isAlive(makeHost({ kill: (pid, signal) => asked.push([pid, signal]) }), 77);
    expect(asked).toEqual([[77, 0]]);
  });

  it.runIf(process.platform === 'linux')('tells a process from a later one with the same pid', () => {
    const startTime = startTimeOf(self);
    expect(startTime).toMatch(/^\d+$/);
    expect(isAlive(makeHost(), self, startTime)).toBe(true);
    expect(isAlive(makeHost(), self, '1')).toBe(false);
  });

  it('goes by the pid alone where the start cannot be told', () => {
    expect(isAlive(makeHost({ platform: 'darwin' }), self, '1')).toBe(true);
  });
});

describe('startTimeOf', () => {
  it('is undefined for a process that does not exist', () => {
    expect(startTimeOf(nobody)).toBeUndefined();
  });
});

describe('the processes marked by a folder', () => {
  it('are none where nobody has the folder as TMPDIR', async () => {
    const killed: number[] = [];
    const host = makeHost({ kill: (pid) => killed.push(pid) });
    expect(processesMarkedBy(host, '/nowhere/at-all')).toEqual([]);
    expect(await endMarkedProcesses(host, '/nowhere/at-all', 0)).toBe(0);
    expect(killed).toEqual([]);
  });

  it('are not looked for where there is no table of environments', () => {
    expect(processesMarkedBy(makeHost({ platform: 'darwin' }), '/tmp')).toEqual([]);
  });
});
