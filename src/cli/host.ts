import { homedir, hostname, tmpdir } from 'node:os';

import type { Host } from '../core/host.ts';

/** The home folder; the temporary one for a user without any, as a container may have. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    // No HOME and no entry in the list of users.
    return tmpdir();
  }
}

/** The working folder; the home folder when it was removed under the program. */
export function currentFolder(): { readonly path: string; readonly note: string | undefined } {
  try {
    return { path: process.cwd(), note: undefined };
  } catch {
    // Node itself and every child need one that exists.
    const home = homeFolder();
    process.chdir(home);
    return { path: home, note: `the working folder no longer exists; ${home} is used instead` };
  }
}

/** What the program knows of the process it is. */
export function currentHost(): Host {
  return {
    platform: process.platform,
    execPath: process.execPath,
    pid: process.pid,
    uid: process.getuid?.(),
    hostname: hostname(),
    homeDir: homeFolder(),
    tempDir: tmpdir(),
    cwd: process.cwd(),
    env: process.env,
    kill: (pid, signal) => {
      process.kill(pid, signal);
    },
  };
}
