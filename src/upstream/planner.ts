import { join } from 'node:path';

import { childArguments } from './command-line.ts';
import { type OwnedBrowser, type UpstreamConfig, listingConfig, mergeConfig, writeConfig } from './config-file.ts';
import { childEnvironment } from './environment.ts';
import { type Overrides, overriddenVariables, overrideArguments, overrideConfig } from './overrides.ts';

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
    const config = overrideConfig(mergeConfig(userConfig, this.#ownedBrowser(launch)), overrides);
    const args = childArguments({
      passedOn: overrideArguments(passedOn, overrides, places.folder),
      configPath: writeConfig(places.folder, config),
      executablePath: launch?.executablePath ?? binaryPath,
      headless,
      sandbox: launch?.chromiumSandbox ?? sandbox,
      isolated,
      userDataDir: places.userDataDir,
      outputDir,
    });
    const extra = { ...launch?.env, PWTEST_SERVER_REGISTRY: join(places.folder, 'b') };
    return { args, env: this.#environment(places.tempDir, extra), cwd: places.cwd };
  }

  #ownedBrowser(launch: Launch | undefined): OwnedBrowser {
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
    const owned = [...ownedVariables, ...overriddenVariables(overrides)];
    return childEnvironment({ env, added: childEnv, owned, isCaseless, tempDir, extra });
  }
}
