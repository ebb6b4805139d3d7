import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

import type { Host } from '../core/host.ts';

const linuxNames = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const macPrograms = ['Chromium.app/Contents/MacOS/Chromium', 'Google Chrome.app/Contents/MacOS/Google Chrome'];
const windowsPrograms = ['Google\\Chrome\\Application\\chrome.exe', 'Chromium\\Application\\chrome.exe'];

function candidates({ platform, env, homeDir }: Host): string[] {
  if (platform === 'darwin') {
    return ['/Applications', join(homeDir, 'Applications')].flatMap((folder) =>
      macPrograms.map((program) => join(folder, program)),
    );
  }
  if (platform === 'win32') {
    const folders = [env['PROGRAMFILES'], env['PROGRAMFILES(X86)'], env['LOCALAPPDATA']];
    return folders.flatMap((folder) =>
      folder === undefined ? [] : windowsPrograms.map((program) => join(folder, program)),
    );
  }
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return linuxNames.flatMap((name) => folders.map((folder) => join(folder, name)));
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    // Not there, or not for this user.
    return false;
  }
}

/** A Chromium or Chrome that is installed on this machine. */
export async function findInstalledBrowser(host: Host): Promise<string | undefined> {
  for (const path of candidates(host)) {
    if (await isProgram(path)) return path;
  }
  return undefined;
}
