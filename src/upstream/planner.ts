import { join } from 'node:path';

import { childArguments } from './command-line.ts';
import {
  type OwnedBrowser,
  type UpstreamConfig,
  listingConfig,
  mergeConfig,
  withDebuggingPort,
  writeConfig,
} from './config-file.ts';
import { childEnvironment } from './environment.ts';
import {
  type Overrides,
  askedStorageState,
  overriddenVariables,
  overrideArguments,
  overrideConfig,
} from './overrides.ts';

/** Upstream 0.0.83 counts calls over MCP only, and would close a browser that CDP clients use. */
const idleVariable = 'PLAYWRIGHT_MCP_IDLE_TIMEOUT';
const neverIdle = ['--idle-timeout', '0'];

/** What every child of a bridge is told alike. */
export interface PlannerSettings {
  /** The host's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True on Windows. */
  readonly isCaseless: boolean;
  /** Variables of the host to add to the allowlist. */
  readonly childEnv: readonly string[];
  /** Upstream's variables that the bridge sets by flag instead. */
  readonly ownedVariables: readonly string[];
  /** The user's own upstream flags. */
  readonly passedOn: readonly string[];
  /** The user's own upstream configuration. */
  readonly userConfig: UpstreamConfig;
  readonly headless: boolean;
  /** Undefined leaves the choice to upstream, unless a launch decides it. */
  readonly sandbox?: boolean | undefined;
  readonly isolated: boolean;
  readonly outputDir?: string | undefined;
  /** True for a browser with a debugging port beside upstream's own connection. */
  readonly debugging: boolean;
  /** What one session asks for in place of the operator's choice. */
  readonly overrides?: Overrides | undefined;
  /** The browser program and further arguments, where upstream chooses the browser. */
  readonly binaryPath?: string | undefined;
  readonly extraArgs: readonly string[];
  readonly proxy?: OwnedBrowser['proxy'] | undefined;
}

/** How the browser program is to be launched, where the bridge chooses it. */
export interface Launch {
  readonly executablePath: string;
  readonly args: readonly string[];
  readonly ignoreDefaultArgs: readonly string[];
  readonly chromiumSandbox: boolean;
  readonly proxy?: OwnedBrowser['proxy'] | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

/** Where a child works and keeps its files. */
export interface Places {
  /** The generation's own folder, for the configuration. */
  readonly folder: string;
  /** The child's TMPDIR. */
  readonly tempDir: string;
  readonly cwd: string;
  readonly userDataDir?: string | undefined;
}

/** A child's arguments, environment and working folder. */
export interface PlannedChild {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Cookies and local storage that were asked for, or a path to them; upstream takes them in its isolated mode only. */
  readonly storageState?: unknown;
}

/** The folder in which a child's upstream describes its running browsers; `folder` is the generation's own. */
export function registryFolder(folder: string): string {
  return join(folder, 'b');
}

/** Decides what each child is told by flags, configuration file and environment. */
export class ChildPlanner {
  readonly #settings: PlannerSettings;

  constructor(settings: PlannerSettings) {
    this.#settings = settings;
  }

  /** A planner of the same settings with some of them changed, for one session. */
  with(changes: Partial<PlannerSettings>): ChildPlanner {
    return new ChildPlanner({ ...this.#settings, ...changes });
  }

  /** True where the profile is kept in memory. */
  get isIsolated(): boolean {
    return this.#settings.isolated;
  }

  /** True when the user set something of upstream's. */
  hasSettings(): boolean {
    const { passedOn, userConfig, env } = this.#settings;
    return (
      passedOn.length > 0 ||
      Object.keys(userConfig).length > 0 ||
      Object.keys(env).some((name) => name.startsWith('PLAYWRIGHT_MCP_'))
    );
  }

  /** What a tool list depends on, besides the upstream program itself. */
  listingKey(): {
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly config: unknown;
  } {
    const { passedOn, userConfig } = this.#settings;
    return { args: passedOn, env: this.#environment('', {}), config: listingConfig(userConfig) };
  }

  /** A child that only lists its tools; with `isPlain` as if the user had set nothing of upstream's. */
  planListing(places: Places, isPlain: boolean): PlannedChild {
    const config = isPlain ? {} : listingConfig(this.#settings.userConfig);
    const configPath = Object.keys(config).length === 0 ? undefined : writeConfig(places.folder, config);
    const passedOn = isPlain ? [] : this.#settings.passedOn;
    const env = Object.entries(this.#environment(places.tempDir, {})).filter(
      ([name]) => !isPlain || !name.startsWith('PLAYWRIGHT_MCP_'),
    );
    const args = childArguments({ passedOn, configPath, headless: false, isolated: false });
    return { args, env: Object.fromEntries(env), cwd: places.cwd };
  }

  /**
   * A session's child; without a launch the choice of the browser is upstream's. playwright-core 1.64 writes each
   * browser's launch options, a proxy's password among them, to a registry in the user's cache folder, readable by all,
   * leaves it there for a persistent profile, and fails where that folder cannot be written: so the registry is moved
   * into the child's own folder (test/browser/secrets-browser.test.ts, test/browser/environment.test.ts).
   */
  plan(places: Places, launch: Launch | undefined): PlannedChild {
    const { passedOn, userConfig, headless, sandbox, isolated, outputDir, overrides, binaryPath } = this.#settings;
    const { debugging, env } = this.#settings;
    const config = overrideConfig(mergeConfig(userConfig, this.#ownedBrowser(launch)), overrides);
    const args = childArguments({
      passedOn: [...overrideArguments(passedOn, overrides, places.folder), ...(debugging ? neverIdle : [])],
      configPath: writeConfig(places.folder, config),
      executablePath: launch?.executablePath ?? binaryPath,
      headless,
      sandbox: launch?.chromiumSandbox ?? sandbox,
      isolated,
      userDataDir: places.userDataDir,
      outputDir,
    });
    const extra = { ...launch?.env, PWTEST_SERVER_REGISTRY: registryFolder(places.folder) };
    const planned = { args, env: this.#environment(places.tempDir, extra), cwd: places.cwd };
    const storageState = debugging ? askedStorageState({ passedOn, env, config, overrides }) : undefined;
    return storageState === undefined ? planned : { ...planned, storageState };
  }

  #ownedBrowser(launch: Launch | undefined): OwnedBrowser {
    const owned = this.#chosenBrowser(launch);
    return this.#settings.debugging ? withDebuggingPort(owned) : owned;
  }

  #chosenBrowser(launch: Launch | undefined): OwnedBrowser {
    const { headless, extraArgs, proxy } = this.#settings;
    if (launch === undefined) {
      return {
        headless,
        ...(extraArgs.length === 0 ? {} : { args: extraArgs }),
        ...(proxy === undefined ? {} : { proxy }),
      };
    }
    const { args, ignoreDefaultArgs } = launch;
    const browser = { browserName: 'chromium', headless, args, ignoreDefaultArgs };
    return launch.proxy === undefined ? browser : { ...browser, proxy: launch.proxy };
  }

  #environment(tempDir: string, extra: Readonly<Record<string, string>>): Record<string, string> {
    const { env, childEnv, ownedVariables, isCaseless, overrides } = this.#settings;
    const idle = this.#settings.debugging ? [idleVariable] : [];
    const owned = [...ownedVariables, ...overriddenVariables(overrides), ...idle];
    return childEnvironment({ env, added: childEnv, owned, isCaseless, tempDir, extra });
  }
}
