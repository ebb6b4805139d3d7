import { describe, expect, it } from 'vitest';
import { detectSandbox } from '../../../src/browser/sandbox.ts';
import type { SandboxProbes } from '../../../src/browser/sandbox.ts';

const clone = '/proc/sys/kernel/unprivileged_userns_clone';
const most = '/proc/sys/user/max_user_namespaces';
const apparmor = '/proc/sys/kernel/apparmor_restrict_unprivileged_userns';

interface Machine {
  readonly platform?: string;
  readonly uid?: number;
  readonly switches?: Record<string, string>;
  readonly helper?: string;
  readonly namespaces?: boolean;
  readonly noNewPrivs?: string;
  readonly bounding?: string;
}

function probe(machine: Machine): SandboxProbes {
  const { uid = 1000, noNewPrivs = '0', bounding = '000001ffffffffff' } = machine;
  const status = `Name:\tnode\nUid:\t${uid}\t${uid}\t${uid}\t${uid}\nCapBnd:\t${bounding}\nNoNewPrivs:\t${noNewPrivs}\n`;
  const files: Record<string, string> = { '/proc/self/status': status, ...machine.switches };
  return {
    platform: machine.platform ?? 'linux',
    readText: (path) => files[path],
    isSetuidRoot: (path) => path === machine.helper,
    canMakeUserNamespace: () => Promise.resolve(machine.namespaces ?? true),
  };
}

function detect(machine: Machine): ReturnType<typeof detectSandbox> {
  return detectSandbox('/cache/chromium-1/chrome', probe(machine));
}

describe('the sandbox', () => {
  it.each([
    ['on a usual Linux machine', {}],
    ['on macOS, even for root', { platform: 'darwin', uid: 0 }],
    ['on Windows', { platform: 'win32' }],
    ['where the switches allow namespaces', { switches: { [clone]: '1', [most]: '63000', [apparmor]: '0' } }],
    [
      'under AppArmor with a setuid helper',
      { switches: { [apparmor]: '1' }, helper: '/cache/chromium-1/chrome-sandbox' },
    ],
    [
      'without namespaces but with a helper of the system',
      { namespaces: false, helper: '/usr/lib/chrome/chrome-sandbox' },
    ],
  ])('is on %s', async (_, machine) => {
    expect(await detect(machine)).toEqual({ enabled: true });
  });

  const helper = '/cache/chromium-1/chrome-sandbox';
  it.each([
    ['for root', { uid: 0 }, /root/],
    ['where unprivileged namespaces are switched off', { switches: { [clone]: '0' } }, /userns_clone is 0/],
    ['where no namespace is allowed', { switches: { [most]: '0' } }, /max_user_namespaces is 0/],
    ['under AppArmor', { switches: { [apparmor]: '1' } }, /apparmor_restrict_unprivileged_userns is 1/],
    ['where making one is refused', { namespaces: false }, /refuses user namespaces/],
    ['where the helper may gain no rights', { namespaces: false, helper, noNewPrivs: '1' }, /refuses user namespaces/],
    ['in a container that drops the helper’s right', { namespaces: false, helper, bounding: 'a80425fb' }, /container/],
  ])('is off %s, with a reason', async (_, machine, reason) => {
    expect(await detect(machine)).toEqual({ enabled: false, reason: expect.stringMatching(reason) });
  });
});
