import { join, resolve } from 'node:path';
import type { Job, ProxySettings, Task } from './binary-job.ts';
import { separateCredentials } from './launch.ts';

/** What the user has decided about the browser. */
export interface BinarySettings {
  readonly engine: 'cloak';
  readonly binaryPath?: string | undefined;
  readonly browserVersion?: string | undefined;
  readonly releaseChannel: 'stable' | 'preview';
  readonly autoUpdate: boolean;
  readonly stallTimeoutMs: number;
  readonly headless: boolean;
  readonly stealthArgs: boolean;
  readonly extraArgs: readonly string[];
  readonly proxy?: ProxySettings | undefined;
  readonly sandbox?: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The folder in which the wrapper keeps its browsers. */
export function resolveCacheDir(env: BinarySettings['env'], homeDir: string): string {
  const chosen = env['CLOAKBROWSER_CACHE_DIR'];
  return resolve(chosen === undefined || chosen === '' ? join(homeDir, '.cloakbrowser') : chosen);
}

/** Values that must never be shown: the licence key and the proxy's password. */
export function secretsOf(settings: BinarySettings): (string | undefined)[] {
  const proxy = settings.proxy === undefined ? undefined : separateCredentials(settings.proxy);
  return [settings.env['CLOAKBROWSER_LICENSE_KEY'], proxy?.password];
}

/** The settings in the form in which the worker takes them. */
export function resolveJob(task: Task, settings: BinarySettings): Job {
  return {
    task,
    binaryPath: settings.binaryPath,
    browserVersion: settings.browserVersion,
    releaseChannel: settings.releaseChannel,
    stallTimeoutMs: settings.stallTimeoutMs,
    headless: settings.headless,
    stealthArgs: settings.stealthArgs,
    extraArgs: settings.extraArgs,
    proxy: settings.proxy === undefined ? undefined : separateCredentials(settings.proxy),
  };
}

/** The worker's environment: the program's, with the wrapper's own variables set to what was resolved. */
export function resolveWorkerEnv(task: Task, settings: BinarySettings, cacheDir: string): Record<string, string> {
  const own: Record<string, string | undefined> = {
    CLOAKBROWSER_CACHE_DIR: cacheDir,
    CLOAKBROWSER_BINARY_PATH: settings.binaryPath,
    CLOAKBROWSER_VERSION: settings.browserVersion,
    CLOAKBROWSER_RELEASE_CHANNEL: settings.releaseChannel,
    // Only an update run may look for newer builds: a start never waits for one.
    CLOAKBROWSER_AUTO_UPDATE: task === 'update' ? undefined : 'false',
    // Node reads this one for threads as well and refuses options that are for whole processes.
    NODE_OPTIONS: undefined,
    // The warning is about CloakBrowser's own builds; for another browser it only costs time and a marker file.
    ...(settings.binaryPath === undefined ? {} : { CLOAKBROWSER_SUPPRESS_FONT_WARNING: '1' }),
  };
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...settings.env, ...own })) if (value !== undefined) env[name] = value;
  return env;
}
