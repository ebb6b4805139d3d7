import type { Resolved } from '../config/resolve.ts';
import { timedOut, within } from '../core/deadline.ts';
import { messageOf, toBridgeError } from '../core/errors.ts';
import type { Host } from '../core/host.ts';
import type { Scope } from '../core/scope.ts';
import { type BinaryInfo, type DownloadState, type Inspection, describeDownload } from '../inspection.ts';
import { findInstalledBrowser } from './installed-browser.ts';
import { openPackagedBrowser } from './packaged-browser.ts';

/** How long the download server may take to answer at all; without a network this is what the demo waits. */
const reachLimitMs = 4000;
/** A download slower than this (about 200 MB) is better done apart from a demo. */
const downloadLimitMs = 600_000;

/** The browser of a demo. */
export interface DemoBrowser {
  /** Which one, and where it came from. */
  readonly label: string;
  /** To be given to the bridge; undefined leaves the choice to its settings. */
  readonly binaryPath?: string;
}

/** What the choice is made with. */
export interface BrowserSearch {
  readonly resolved: Resolved;
  readonly inspection: Inspection;
  readonly host: Host;
  readonly signal: AbortSignal;
  /** Owns what is unpacked for the demo. */
  readonly scope: Scope;
  /** Tells progress. */
  readonly tell: (text: string) => void;
}

/** Why there is no browser, and what can be done. */
export class NoBrowserError extends Error {
  readonly hint =
    'Install Chromium or Chrome, name a browser with --binary-path PATH, or connect to the network so that CloakBrowser can be downloaded. ' +
    'In a clone of the repository `npm ci` brings a Chromium for Linux x64 with the development dependencies.';
}

/** Chooses: what the settings name, CloakBrowser (downloaded if it can be), an installed browser, the development dependency's. */
export async function chooseBrowser(search: BrowserSearch): Promise<DemoBrowser> {
  const { inspection, resolved, host } = search;
  const { settings } = inspection;
  const { info, error } = await inspection.browser();
  if (settings.binaryPath !== undefined) {
    if (error !== undefined) throw error;
    return { label: `${settings.binaryPath} (${resolved.sources.binaryPath.name})` };
  }
  if (info === undefined) return { label: "upstream's own choice (--browser-engine playwright)" };
  if (info.installed) return { label: `CloakBrowser ${info.version}, installed at ${info.path ?? ''}` };
  const missing: string[] = [];
  const downloaded = error === undefined ? await download(search, missing) : undefined;
  if (downloaded !== undefined) {
    return { label: `CloakBrowser ${downloaded.version}, downloaded to ${downloaded.path ?? ''}` };
  }
  if (error !== undefined) missing.push(error.message);
  const why = `CloakBrowser is not installed; ${missing.join(' ')}`;
  const installed = await findInstalledBrowser(host);
  if (installed !== undefined) return { label: `${installed}, found on this machine. ${why}`, binaryPath: installed };
  return unpackBrowser(search, why);
}

async function unpackBrowser({ host, scope, tell }: BrowserSearch, why: string): Promise<DemoBrowser> {
  tell('Unpacking the Chromium of the development dependencies ...');
  const packaged = await openPackagedBrowser(host).catch((failure: unknown) => messageOf(failure));
  const others = `${why} No Chromium or Chrome was found on this machine.`;
  if (typeof packaged === 'string')
    throw new NoBrowserError(`${others} The one of the development dependencies does not run: ${packaged}`);
  if (packaged === undefined) throw new NoBrowserError(others);
  scope.own(packaged);
  return { label: `Chromium of the development dependencies. ${others}`, binaryPath: packaged.path };
}

async function download(search: BrowserSearch, missing: string[]): Promise<BinaryInfo | undefined> {
  const { inspection, host, signal, tell } = search;
  const custom = host.env['CLOAKBROWSER_DOWNLOAD_URL'] ?? '';
  const servers = custom === '' ? ['https://cloakbrowser.dev', 'https://github.com'] : [custom];
  tell(`CloakBrowser is not installed; asking ${servers.join(' and ')} ...`);
  const answers = await Promise.all(servers.map((server) => isReachable(server, signal)));
  if (!answers.includes(true)) {
    missing.push(`${servers.join(' and ')} cannot be reached.`);
    return undefined;
  }
  const limit = new AbortController();
  const work = inspection.installBrowser(progressTeller(tell), AbortSignal.any([signal, limit.signal]));
  try {
    const info = await within(work, downloadLimitMs);
    if (info !== timedOut) return info;
    missing.push(`its download was not done within ${downloadLimitMs / 60_000} minutes.`);
  } catch (failure) {
    signal.throwIfAborted();
    missing.push(toBridgeError(failure).message);
  } finally {
    limit.abort();
    await work.catch(() => undefined); // Until nothing of the download is left on disk.
  }
  return undefined;
}

async function isReachable(server: string, signal: AbortSignal): Promise<boolean> {
  const limit = new AbortController();
  const either = AbortSignal.any([signal, limit.signal]);
  try {
    const answer = await within(fetch(server, { method: 'HEAD', redirect: 'manual', signal: either }), reachLimitMs);
    return answer !== timedOut;
  } catch {
    // No route, no name, refused: the reason does not change what is done next.
    return false;
  } finally {
    limit.abort();
  }
}

function progressTeller(tell: (text: string) => void): (state: DownloadState) => void {
  let last = '';
  return (state) => {
    // Every step of ten percent, else a slow terminal or a log is flooded.
    const step =
      state.state === 'downloading' ? String(Math.floor((10 * state.receivedBytes) / (state.totalBytes ?? 1e8))) : '';
    const key = `${state.state} ${step}`;
    if (key === last || state.state === 'failed') return;
    last = key;
    tell(describeDownload(state));
  };
}
