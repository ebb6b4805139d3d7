import { isAbsolute, join } from 'node:path';

/** What decides where a user's folders are. */
export interface UserPlace {
  readonly platform: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly homeDir: string;
}

/** An empty or relative value counts as unset, as the XDG base directory specification says. */
function given(value: string | undefined, fallback: string): string {
  return value !== undefined && isAbsolute(value) ? value : fallback;
}

/** The user's folder for what can be made again, by the rules of the platform. */
export function userCacheFolder({ platform, env, homeDir }: UserPlace): string {
  if (platform === 'win32') return given(env['LOCALAPPDATA'], join(homeDir, 'AppData', 'Local'));
  if (platform === 'darwin') return join(homeDir, 'Library', 'Caches');
  return given(env['XDG_CACHE_HOME'], join(homeDir, '.cache'));
}

/** The user's folder for what programs keep, by the rules of the platform. */
export function userDataFolder({ platform, env, homeDir }: UserPlace): string {
  if (platform === 'win32') return given(env['LOCALAPPDATA'], join(homeDir, 'AppData', 'Local'));
  if (platform === 'darwin') return join(homeDir, 'Library', 'Application Support');
  return given(env['XDG_DATA_HOME'], join(homeDir, '.local', 'share'));
}
