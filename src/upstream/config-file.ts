import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

import { debuggingConflict } from '../core/debugging-arguments.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import { brokenLine } from '../core/json-line.ts';

/** A JSON object of upstream's configuration, of which we only know the parts we set. */
export type UpstreamConfig = Readonly<Record<string, unknown>>;

/** The browser part that the bridge owns; everything else of a user's file stays as it is. */
export interface OwnedBrowser {
  readonly browserName?: string;
  readonly headless?: boolean;
  /** Of the launch, in milliseconds; the user's own wins. */
  readonly timeout?: number;
  readonly args?: readonly string[];
  readonly ignoreDefaultArgs?: readonly string[];
  readonly proxy?: {
    readonly server: string;
    readonly bypass?: string | undefined;
    readonly username?: string | undefined;
    readonly password?: string | undefined;
  };
  readonly env?: Readonly<Record<string, string>>;
}

/** Both loopback addresses taken, a launch would hang for upstream's 180 s (facts/managed-cdp 1.4). */
const launchMs = 30_000;

/** The browser with a debugging port that it chooses itself; as the last argument it wins over any other one. */
export function withDebuggingPort(owned: OwnedBrowser): OwnedBrowser {
  return { timeout: launchMs, ...owned, args: [...(owned.args ?? []), '--remote-debugging-port=0'] };
}

/** Keys of upstream's `browser` section that would drive another browser than the bridge's. */
const foreignBrowserKeys = ['cdpEndpoint', 'cdpHeaders', 'cdpTimeout', 'remoteEndpoint'];
/** Keys of it that the bridge says by flag, the file's own choice among them. */
const flaggedBrowserKeys = ['isolated', 'userDataDir'];

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function absoluteScripts(browser: Record<string, unknown>, folder: string): void {
  for (const key of ['initPage', 'initScript']) {
    const scripts = browser[key];
    if (Array.isArray(scripts))
      browser[key] = scripts.map((path) => (typeof path === 'string' ? resolve(folder, path) : (path as unknown)));
  }
}

/**
 * Reads a user's own upstream configuration file (JSON). Script paths in it are made absolute, since they are
 * relative to that file and ours lies elsewhere. Throws `config` naming the file.
 */
export function readUserConfig(path: string): UpstreamConfig {
  const hint =
    'Give an existing JSON file in the format of the Playwright MCP configuration. The ini format of upstream is not supported here.';
  let text: string;
  try {
    text = readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  } catch (cause) {
    throw new BridgeError('config', `--config: ${path} cannot be read: ${messageOf(cause)}.`, { hint, cause });
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (failure) {
    // Without the failure as a cause: its message quotes the file.
    throw new BridgeError('config', `--config: ${path} is not valid JSON${brokenLine(text, failure)}.`, { hint });
  }
  const config = asObject(parsed);
  const browser = asObject(config['browser']);
  absoluteScripts(browser, dirname(path));
  return Object.keys(browser).length === 0 ? config : { ...config, browser };
}

function launchOptionsOf(user: unknown, owned: OwnedBrowser): Record<string, unknown> {
  const launch = asObject(user);
  const userArgs: unknown[] = Array.isArray(launch['args']) ? launch['args'] : [];
  const { browserName, args, timeout, ...rest } = owned;
  // A user's own channel would pick another browser than the one that the bridge names.
  if (browserName !== undefined) delete launch['channel'];
  return {
    ...(timeout === undefined ? {} : { timeout }),
    ...launch,
    ...rest,
    ...(args === undefined && userArgs.length === 0 ? {} : { args: [...userArgs, ...(args ?? [])] }),
  };
}

/** Checks a user's own configuration for what managed CDP cannot be combined with. Throws `config` naming file and key. */
export function checkDebugging(config: UpstreamConfig, path: string): void {
  const browser = asObject(config['browser']);
  const { args, ignoreDefaultArgs } = asObject(browser['launchOptions']);
  const { browserName } = browser;
  const conflict = debuggingConflict(Array.isArray(args) ? args : []);
  const found = [
    ...(conflict === undefined ? [] : [`browser.launchOptions.args: ${conflict} is decided by managed CDP`]),
    ...(ignoreDefaultArgs === true
      ? ['browser.launchOptions.ignoreDefaultArgs: true takes upstream its own connection']
      : []),
    ...(browserName !== undefined && browserName !== 'chromium' ? ['browser.browserName: only chromium has CDP'] : []),
  ];
  if (found.length > 0) {
    throw new BridgeError('config', `--config: ${path}: ${found.join('; ')}.`, {
      hint: 'Take it out of the file, or start without --cdp.',
    });
  }
}

/** What a user's own configuration says of settings that the bridge has too; each is undefined when it says nothing. */
export interface UserChoices {
  readonly headless: boolean | undefined;
  readonly isolated: boolean | undefined;
  readonly userDataDir: string | undefined;
}

/** Reads the choices that count where the user gave the bridge no setting of its own. */
export function readUserChoices(config: UpstreamConfig): UserChoices {
  const browser = asObject(config['browser']);
  const { headless } = asObject(browser['launchOptions']);
  const { isolated, userDataDir } = browser;
  return {
    headless: typeof headless === 'boolean' ? headless : undefined,
    isolated: typeof isolated === 'boolean' ? isolated : undefined,
    userDataDir: typeof userDataDir === 'string' ? userDataDir : undefined,
  };
}

/** Values in a user's configuration that must never be shown. */
export function secretsIn(config: UpstreamConfig): readonly string[] {
  const browser = asObject(config['browser']);
  const context = asObject(browser['contextOptions']);
  const proxies = [asObject(asObject(browser['launchOptions'])['proxy']), asObject(context['proxy'])];
  const passwords = [...proxies, asObject(context['httpCredentials'])].map(({ password }) => password);
  return [...passwords, ...Object.values(asObject(config['secrets']))].filter((value) => typeof value === 'string');
}

/** The user's configuration with the bridge's part laid over it. */
export function mergeConfig(user: UpstreamConfig, owned: OwnedBrowser): UpstreamConfig {
  const { server: _server, extension: _extension, sharedBrowserContext: _shared, ...kept } = user;
  const browser = asObject(user['browser']);
  for (const key of [...foreignBrowserKeys, ...flaggedBrowserKeys]) delete browser[key];
  const name = owned.browserName === undefined ? {} : { browserName: owned.browserName };
  return { ...kept, browser: { ...browser, ...name, launchOptions: launchOptionsOf(browser['launchOptions'], owned) } };
}

/** The user's configuration without anything about the browser: what a child needs that only lists its tools. */
export function listingConfig(user: UpstreamConfig): UpstreamConfig {
  const { browser: _browser, server: _server, extension: _extension, sharedBrowserContext: _shared, ...kept } = user;
  return kept;
}

/** Writes a configuration that only its owner can read, since it may hold credentials of a proxy. Returns its path. */
export function writeConfig(folder: string, config: UpstreamConfig): string {
  const path = join(folder, 'config.json');
  writeFileSync(path, JSON.stringify(config), { mode: 0o600, flag: 'wx' });
  return path;
}
