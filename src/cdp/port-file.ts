import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { pause } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import { isRecord } from '../core/record.ts';

/** Chromium writes the file within milliseconds of the line on its stderr (facts/managed-cdp 1.3). */
const pollMs = 25;
const fileName = 'DevToolsActivePort';
/** How playwright-core 1.64 names the profile of a browser that it keeps for one run. */
const throwAwayPrefix = 'playwright_chromiumdev_profile-';
const largestPort = 65_535;

/** Where a browser listens. */
export interface BrowserAddress {
  readonly port: number;
  /** Of its browser-level socket: another browser has another one. */
  readonly browserId: string;
}

/** Where the profile of a browser may be. */
export interface ProfilePlace {
  /** The profile, where the bridge decides it. */
  readonly userDataDir?: string | undefined;
  /** The child's TMPDIR, in which upstream makes a profile in its isolated mode. */
  readonly tempDir: string;
  /**
   * The folder of upstream's own descriptions of its running browsers. It is how a profile in upstream's default place
   * is found: `browser.userDataDir` in @playwright/mcp 0.0.83 (test/browser/cdp-profiles.test.ts fails if that changes).
   */
  readonly registry: string;
  readonly isIsolated: boolean;
}

/** Removes what an earlier browser wrote into a profile: a persistent one keeps it. */
export function removePortFile(userDataDir: string): void {
  rmSync(join(userDataDir, fileName), { force: true });
}

/**
 * Waits at most `timeoutMs` for the port file of a browser and reads it. Throws `cdp_start_failed` that says where it was
 * looked for, or `closing` when aborted.
 */
export async function findAddress(
  place: ProfilePlace,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<BrowserAddress> {
  const endsAt = performance.now() + timeoutMs;
  for (;;) {
    if (signal.aborted) throw new BridgeError('closing', 'The session is ending.');
    const folders = profilesOf(place);
    const address = newestOf(folders);
    if (address !== undefined) return address;
    if (performance.now() >= endsAt) throw missing(folders, timeoutMs);
    await pause(pollMs, signal);
  }
}

function profilesOf({ userDataDir, tempDir, registry, isIsolated }: ProfilePlace): readonly string[] {
  if (userDataDir !== undefined) return [userDataDir];
  if (isIsolated)
    return entriesOf(tempDir)
      .filter((name) => name.startsWith(throwAwayPrefix))
      .map((name) => join(tempDir, name));
  return entriesOf(registry).flatMap((name) => describedProfile(join(registry, name)) ?? []);
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Not made yet.
    return [];
  }
}

function describedProfile(path: string): string | undefined {
  try {
    const described: unknown = JSON.parse(readFileSync(path, 'utf8'));
    const browser = isRecord(described) ? described['browser'] : undefined;
    const folder = isRecord(browser) ? browser['userDataDir'] : undefined;
    return typeof folder === 'string' ? folder : undefined;
  } catch {
    // Being written, or something else.
    return undefined;
  }
}

/** A browser that upstream had to start twice leaves the file of the first one behind. */
function newestOf(folders: readonly string[]): BrowserAddress | undefined {
  const found = folders.flatMap((folder) => readPortFile(join(folder, fileName)) ?? []);
  return found.toSorted((a, b) => b.writtenMs - a.writtenMs)[0]?.address;
}

function readPortFile(path: string): { readonly address: BrowserAddress; readonly writtenMs: number } | undefined {
  let text: string;
  let writtenMs: number;
  try {
    text = readFileSync(path, 'utf8');
    writtenMs = statSync(path).mtimeMs;
  } catch {
    // Not written yet.
    return undefined;
  }
  const [, portText, browserId] = /^(\d{1,5})\n\/devtools\/browser\/([\w-]{1,64})\n?$/.exec(text) ?? [];
  const port = Number(portText);
  if (browserId === undefined || !(port >= 1 && port <= largestPort)) return undefined;
  return { address: { port, browserId }, writtenMs };
}

function missing(folders: readonly string[], timeoutMs: number): BridgeError {
  const where =
    folders.length === 0
      ? 'its profile was not found'
      : `${fileName} in ${folders.join(', ')} was not there within ${timeoutMs} ms`;
  return new BridgeError('cdp_start_failed', `The browser did not tell its debugging port: ${where}.`, {
    hint: 'A profile folder of its own (--user-data-dir) helps where upstream chooses the place.',
  });
}
