import { join, resolve } from 'node:path';
import { BridgeError, messageOf } from '../core/errors.ts';
import { isWritableFolder, makeFolder } from '../core/folder.ts';

/** What decides where the browser keeps its profile. */
export interface ProfileInput {
  readonly isolated: boolean;
  readonly userDataDir?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: string;
  readonly home: string;
  /** A folder of this session's own that is removed at its end. */
  readonly sessionFolder: string;
}

/** The folder to tell upstream; none leaves the choice to upstream. */
export interface Profile {
  readonly userDataDir?: string;
  /** A sentence to tell the user once. */
  readonly note?: string;
}

function makeWritable(folder: string, platform: string): void {
  makeFolder(folder);
  if (!isWritableFolder(folder, platform)) throw new Error('it is not writable');
}

/** Where upstream 0.0.83 keeps the profiles of persistent browsers. */
export function upstreamProfiles(input: Pick<ProfileInput, 'env' | 'platform' | 'home'>): string {
  const { env, platform, home } = input;
  const given = (value: string | undefined, fallback: string): string =>
    value === undefined || value === '' ? fallback : value;
  const caches: Record<string, string> = {
    darwin: join(home, 'Library', 'Caches'),
    win32: given(env['LOCALAPPDATA'], join(home, 'AppData', 'Local')),
  };
  const cache = caches[platform] ?? given(env['XDG_CACHE_HOME'], join(home, '.cache'));
  return join(cache, 'ms-playwright-mcp');
}

/**
 * Chooses the profile folder: the user's own must be usable, upstream's default is left to upstream unless it cannot
 * be written; then a temporary one takes its place.
 */
export function resolveProfile(input: ProfileInput): Profile {
  if (input.userDataDir !== undefined) {
    const userDataDir = resolve(input.userDataDir);
    try {
      makeWritable(userDataDir, input.platform);
    } catch (cause) {
      throw new BridgeError(
        'folder_unwritable',
        `The profile folder ${userDataDir} cannot be used: ${messageOf(cause)}.`,
        {
          hint: 'Set --user-data-dir to a folder that can be written, leave it out, or use --isolated.',
          cause,
        },
      );
    }
    return { userDataDir };
  }
  if (input.isolated) return {};
  const profiles = upstreamProfiles(input);
  try {
    makeWritable(profiles, input.platform);
    return {};
  } catch (cause) {
    const userDataDir = join(input.sessionFolder, 'profile');
    makeFolder(userDataDir);
    const note = `The profile folder ${profiles} cannot be written (${messageOf(cause)}), so this session's profile is temporary. --user-data-dir names a lasting one.`;
    return { userDataDir, note };
  }
}
