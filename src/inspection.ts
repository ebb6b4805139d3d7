import { access, constants } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { type BinaryInfo, BinarySource, type DownloadState } from './browser/binary.ts';
import { checkBinaryPath } from './browser/executable.ts';
import { refusesSandbox } from './browser/launch.ts';
import { upstreamProfiles } from './browser/profile.ts';
import { type SandboxChoice, detectSandbox } from './browser/sandbox.ts';
import { resolveCacheDir } from './browser/wrapper-settings.ts';
import type { Settings } from './config/options.ts';
import type { Resolved } from './config/resolve.ts';
import { type BridgeError, toBridgeError } from './core/errors.ts';
import type { Host } from './core/host.ts';
import type { Logger } from './core/logger.ts';
import { Redactor } from './core/redact.ts';
import { type Setup, prepareSetup } from './setup.ts';
import { defaultCacheFolder } from './upstream/catalog.ts';
import { readUserConfig } from './upstream/config-file.ts';
import { type UpstreamPackage, findUpstream } from './upstream/package.ts';

export { describeDownload } from './browser/download-state.ts';
export type { BinaryInfo, DownloadState } from './browser/binary.ts';
export type { SandboxChoice } from './browser/sandbox.ts';
export type { UpstreamPackage } from './upstream/package.ts';

/** What is known of the browser of the settings without starting or downloading anything. */
export interface BrowserFinding {
  /** Undefined where upstream chooses the browser. */
  readonly info: BinaryInfo | undefined;
  /** Why there can be no browser with these settings. */
  readonly error: BridgeError | undefined;
}

/** Folders that the bridge, the wrapper and upstream use by default or by the settings. */
export interface UsedFolders {
  /** Stored tool lists. */
  readonly cache: string;
  /** Downloaded browsers. */
  readonly browsers: string;
  /** Profiles of upstream, where the settings name none. */
  readonly profiles: string;
}

/** A proxy as a connection needs it. */
export interface ProxyAddress {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
}

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
/** What Chromium takes for a proxy without a port. */
const defaultPorts: Readonly<Record<string, number>> = { http: 80, https: 443, socks4: 1080, socks5: 1080 };

/** Looks at what a bridge with these settings would use: for `doctor` and `demo`, which run no bridge of their own. */
export class Inspection {
  readonly redactor = new Redactor();
  /** The settings, with what the user's own upstream configuration adds. */
  readonly settings: Settings;
  /** Where each of them came from. */
  readonly sources: Resolved['sources'];
  /** What is wrong with that configuration. */
  readonly configError: BridgeError | undefined;
  readonly #host: Host;
  readonly #proxy: Setup['proxy'];

  constructor(resolved: Resolved, host: Host) {
    const { settings, sources, proxy } = prepareSetup({ resolved, host, redactor: this.redactor, locateUpstream });
    this.#host = host;
    this.#proxy = proxy;
    this.settings = settings;
    this.sources = sources;
    this.configError = configErrorOf(settings.config);
    this.redactor.add(host.env['CLOAKBROWSER_LICENSE_KEY']);
  }

  /** The upstream program; throws `upstream_missing`. */
  upstream(): UpstreamPackage {
    return findUpstream(this.settings.upstreamCli, locateUpstream);
  }

  /** The browser; nothing is downloaded. */
  async browser(): Promise<BrowserFinding> {
    const { browserEngine, binaryPath } = this.settings;
    const error = binaryPath === undefined ? undefined : await failureOf(checkBinaryPath(binaryPath));
    if (browserEngine === 'playwright') return { info: undefined, error };
    const source = this.#source(() => undefined);
    try {
      const info = await source.info();
      // Only where the wrapper has no build, or the pin is none, it cannot name a place; then the search ends with the reason.
      const reason = info.path === undefined ? await failureOf(source.resolve()) : undefined;
      return { info, error: error ?? reason };
    } finally {
      await source.close();
    }
  }

  /** Downloads the browser if it is missing. */
  async installBrowser(onProgress: (state: DownloadState) => void, signal: AbortSignal): Promise<BinaryInfo> {
    const source = this.#source(onProgress);
    try {
      const { info } = await source.resolve(signal);
      return info;
    } finally {
      await source.close();
    }
  }

  /** The sandbox of this browser program, by setting or by detection. */
  sandbox(executablePath: string): Promise<SandboxChoice> {
    const { sandbox, extraArgs } = this.settings;
    if (sandbox !== undefined) return Promise.resolve({ enabled: sandbox, reason: 'so the settings say' });
    if (refusesSandbox(extraArgs)) return Promise.resolve({ enabled: false, reason: 'so the extra arguments say' });
    return detectSandbox(executablePath);
  }

  /** Where the CloakBrowser licence key comes from, or undefined without one. The key itself is not read. */
  async licence(): Promise<string | undefined> {
    const name = 'CLOAKBROWSER_LICENSE_KEY';
    if ((this.#host.env[name] ?? '').trim() !== '') return name;
    const file = join(this.folders().browsers, 'license.key');
    return access(file, constants.R_OK).then(
      () => file,
      () => undefined,
    );
  }

  /** The folders in use. */
  folders(): UsedFolders {
    const { env, homeDir, platform } = this.#host;
    return {
      cache: this.settings.cacheDir ?? defaultCacheFolder(this.#host),
      browsers: resolveCacheDir(env, homeDir),
      profiles: upstreamProfiles({ env, platform, home: homeDir }),
    };
  }

  /** Where the proxy of the settings listens. */
  proxy(): ProxyAddress | undefined {
    const server = this.#proxy?.server;
    if (server === undefined) return undefined;
    const scheme = /^([a-z0-9]+):\/\//i.exec(server)?.[1]?.toLowerCase() ?? 'http';
    // Schemes that URL does not know keep their default port unset, and `http` drops it.
    const url = new URL(server.replace(/^[a-z0-9]+:\/\/|^/i, 'proxy://'));
    const port = url.port === '' ? (defaultPorts[scheme] ?? 80) : Number(url.port);
    return { scheme, host: url.hostname.replace(/^\[|\]$/g, ''), port };
  }

  #source(onProgress: (state: DownloadState) => void): BinarySource {
    const { settings } = this;
    return new BinarySource(
      // An update in the background would go on after the question is answered.
      { ...settings, engine: 'cloak', autoUpdate: false, proxy: this.#proxy, env: this.#host.env },
      {
        logger: silent,
        redactor: this.redactor,
        workerUrl: new URL('./binary-worker.js', import.meta.url),
        host: this.#host,
        onProgress,
      },
    );
  }
}

async function failureOf(work: Promise<unknown>): Promise<BridgeError | undefined> {
  try {
    await work;
    return undefined;
  } catch (failure) {
    return toBridgeError(failure);
  }
}

function configErrorOf(path: string | undefined): BridgeError | undefined {
  try {
    if (path !== undefined) readUserConfig(path);
    return undefined;
  } catch (failure) {
    return toBridgeError(failure);
  }
}

function locateUpstream(): string {
  return createRequire(import.meta.url).resolve('@playwright/mcp/package.json');
}
