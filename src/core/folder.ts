import { accessSync, constants, mkdirSync, mkdtempSync, rmdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
}

/**
 * Makes a folder, private unless it is there already, and those above it. Node's own recursive form never returns
 * where the system says "no such file" for a folder whose parent exists, as below /proc (seen with Node 20).
 * Throws the system's error.
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
    return;
  } catch (failure) {
    if (codeOf(failure) === 'EEXIST' && statSync(path).isDirectory()) return;
    if (codeOf(failure) !== 'ENOENT' || dirname(path) === path) throw failure;
  }
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (failure) {
    // Another program made it meanwhile.
    if (codeOf(failure) !== 'EEXIST') throw failure;
  }
}

/** True when files can be made in a folder. On Windows only a try tells: its permissions are not those that Node reads. */
export function isWritableFolder(path: string, platform: string): boolean {
  try {
    if (!statSync(path).isDirectory()) return false;
    if (platform === 'win32') rmdirSync(mkdtempSync(join(path, '.cbmcp-')));
    else accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    // Read-only, foreign or gone: the answer is no.
    return false;
  }
}
