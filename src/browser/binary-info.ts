import { relative, sep } from 'node:path';
import type { WrapperFacts } from './binary-job.ts';
import type { DownloadState } from './download-state.ts';
import type { BinarySettings } from './wrapper-settings.ts';

/** What the info tool tells about the browser. */
export interface BinaryInfo {
  readonly engine: 'cloak';
  readonly wrapperVersion: string;
  readonly platform: string;
  readonly tier: 'free' | 'pro' | 'unknown';
  readonly version: string;
  readonly path: string | undefined;
  readonly installed: boolean;
  /** Where the browser came from: named by the user, found in the cache folder, or downloaded by this program. */
  readonly source: 'binary-path' | 'downloaded' | 'cache' | 'none';
  readonly updatePolicy: 'off' | 'background';
  readonly releaseChannel: 'stable' | 'preview';
  readonly cacheDir: string;
  readonly download: DownloadState;
}

/** What the info is made of. */
export interface InfoParts {
  readonly facts: WrapperFacts | undefined;
  readonly path: string | undefined;
  readonly installed: boolean;
  readonly source: BinaryInfo['source'];
  readonly settings: BinarySettings;
  readonly cacheDir: string;
  readonly download: DownloadState;
}

const unknownFacts: WrapperFacts = {
  wrapperVersion: 'unknown',
  platform: 'unknown',
  tier: 'unknown',
  version: 'unknown',
};

/** What the name of a browser's folder tells: the wrapper may launch another build than it reports. */
function readFolderName(cacheDir: string, path: string): Partial<Pick<WrapperFacts, 'version' | 'tier'>> {
  const folder = relative(cacheDir, path).split(sep)[0] ?? '';
  const [, version, pro] = /^chromium-(\d[\d.]*\d)(-pro)?$/.exec(folder) ?? [];
  return version === undefined ? {} : { version, tier: pro === undefined ? 'free' : 'pro' };
}

/** Puts together what is known of the browser. */
export function describeBinary(parts: InfoParts): BinaryInfo {
  const { facts = unknownFacts, path, installed, source, settings, cacheDir, download } = parts;
  const named = path === undefined ? {} : readFolderName(cacheDir, path);
  return {
    engine: 'cloak',
    wrapperVersion: facts.wrapperVersion,
    platform: facts.platform,
    tier: named.tier ?? facts.tier,
    version: named.version ?? facts.version,
    path,
    installed,
    source: source === 'none' && installed ? 'cache' : source,
    updatePolicy: settings.autoUpdate && settings.binaryPath === undefined ? 'background' : 'off',
    releaseChannel: settings.releaseChannel,
    cacheDir,
    download,
  };
}
