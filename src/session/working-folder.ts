import { join, parse } from 'node:path';

import { isWritableFolder, makeFolder } from '../core/folder.ts';
import type { Host } from '../core/host.ts';
import { userDataFolder } from '../core/user-folder.ts';

/** Where a child works, and what the user should know of it. */
export interface WorkingFolder {
  readonly path: string;
  readonly note: string | undefined;
}

function makeWritable(path: string, platform: string): boolean {
  try {
    makeFolder(path);
  } catch {
    // A read-only home: the caller falls back to the session's own folder.
    return false;
  }
  return isWritableFolder(path, platform);
}

/**
 * The folder a stdio child works in: the user's own as upstream does it, except where desktop clients start servers in
 * the root of the file system or in a folder that cannot be written; then one of the user's, else a temporary one.
 */
export function chooseWorkingFolder(host: Host, sessionFolder: string): WorkingFolder {
  const { cwd } = host;
  const isRoot = parse(cwd).root === cwd;
  if (!isRoot && isWritableFolder(cwd, host.platform)) return { path: cwd, note: undefined };
  const why = isRoot ? 'the root of the file system' : 'not writable';
  const own = join(userDataFolder(host), 'cloakbrowser-mcp', 'work');
  if (makeWritable(own, host.platform))
    return { path: own, note: `the working folder ${cwd} is ${why}; files go to ${own}` };
  const temporary = join(sessionFolder, 'work');
  makeFolder(temporary);
  return {
    path: temporary,
    note: `the working folder ${cwd} is ${why} and ${own} cannot be made; files go to ${temporary} and are removed at the end`,
  };
}
