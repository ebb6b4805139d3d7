import { execFile } from 'node:child_process';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { platform } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** Whether Chromium's sandbox is used, and if not by detection, why. */
export interface SandboxChoice {
  readonly enabled: boolean;
  readonly reason?: string;
}

/** What the detection looks at. */
export interface SandboxProbes {
  readonly platform: string;
  readonly readText: (path: string) => string | undefined;
  readonly isSetuidRoot: (path: string) => boolean;
  /** False only if a user namespace was tried and refused. */
  readonly canMakeUserNamespace: () => Promise<boolean>;
}

/** Longer than a process start on a busy machine; a tool that hangs says nothing about namespaces. */
const unshareTimeoutMs = 3000;
/** CAP_SYS_ADMIN, without which the setuid helper cannot make its namespaces (containers drop it). */
const sysAdminBit = 21n;

const switches: readonly { path: string; blocking: string }[] = [
  { path: '/proc/sys/kernel/unprivileged_userns_clone', blocking: '0' },
  { path: '/proc/sys/user/max_user_namespaces', blocking: '0' },
  { path: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns', blocking: '1' },
];

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined; // The kernel has no such switch.
  }
}

function isSetuidRoot(path: string): boolean {
  try {
    const { uid, mode } = statSync(path);
    return uid === 0 && (mode & 0o4001) === 0o4001;
  } catch {
    return false; // No such file.
  }
}

function canMakeUserNamespace(): Promise<boolean> {
  return new Promise((resolve) => {
    execFile('unshare', ['-U', 'true'], { timeout: unshareTimeoutMs }, (error) => {
      // A number is the tool's own exit status; a missing or hanging tool proves nothing.
      resolve(error === null || typeof error.code !== 'number');
    });
  });
}

/** The probes of the machine the program runs on. */
const hostProbes: SandboxProbes = { platform: platform(), readText, isSetuidRoot, canMakeUserNamespace };

function field(status: string, name: string): string | undefined {
  return new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1];
}

function helperPaths(executablePath: string): string[] {
  let real = executablePath;
  try {
    real = realpathSync(executablePath);
  } catch {
    // A path that does not resolve is reported elsewhere, by name.
  }
  const folders = [dirname(executablePath), dirname(real), join('/usr/lib', basename(real))];
  return folders.map((folder) => join(folder, 'chrome-sandbox'));
}

function canUseHelper(executablePath: string, status: string, probes: SandboxProbes): boolean {
  if (field(status, 'NoNewPrivs') === '1') return false;
  const bounding = BigInt(`0x${field(status, 'CapBnd') ?? '0'}`);
  if (((bounding >> sysAdminBit) & 1n) === 0n) return false;
  return helperPaths(executablePath).some((path) => probes.isSetuidRoot(path));
}

/**
 * Decides about the sandbox: on, except for root (Chromium refuses to start) and where neither user namespaces nor the
 * setuid helper beside the browser can work.
 */
export async function detectSandbox(
  executablePath: string,
  probes: SandboxProbes = hostProbes,
): Promise<SandboxChoice> {
  if (probes.platform !== 'linux') return { enabled: true };
  const status = probes.readText('/proc/self/status') ?? '';
  // Real, effective, saved and file-system user; the effective one counts.
  if (field(status, 'Uid')?.split(/\s+/)[1] === '0') {
    return { enabled: false, reason: 'the program runs as root, for whom Chromium has no sandbox' };
  }
  const blocking = switches.find(({ path, blocking: value }) => probes.readText(path) === value);
  if (blocking !== undefined) {
    if (canUseHelper(executablePath, status, probes)) return { enabled: true };
    return { enabled: false, reason: `user namespaces are not available (${blocking.path} is ${blocking.blocking})` };
  }
  if (await probes.canMakeUserNamespace()) return { enabled: true };
  if (canUseHelper(executablePath, status, probes)) return { enabled: true };
  return { enabled: false, reason: 'this system refuses user namespaces (a container, most likely)' };
}
