import { separateCredentials } from './browser/launch.ts';
import { mayHaveCdp } from './config/cdp-checks.ts';
import { type Resolved, secretValues } from './config/resolve.ts';
import { ownedVariables } from './config/upstream-flags.ts';
import { BridgeError, toBridgeError } from './core/errors.ts';
import type { Host } from './core/host.ts';
import type { Redactor } from './core/redact.ts';
import {
  type UpstreamConfig,
  checkDebugging,
  readUserChoices,
  readUserConfig,
  secretsIn,
} from './upstream/config-file.ts';
import { type UpstreamPackage, findUpstream, missingUpstream } from './upstream/package.ts';
import { ChildPlanner } from './upstream/planner.ts';

type Settings = Resolved['settings'];

/** Names of variables whose values are never shown. */
const secretNames = /TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|_KEY$/;
/** Shorter values, such as `1` or `true`, are settings rather than secrets. */
const shortestSecret = 8;

/** What the settings come to: nothing of it is started, and nothing of it throws. */
export interface Setup {
  /** The settings, with what the user's own upstream configuration adds. */
  readonly settings: Settings;
  readonly sources: Resolved['sources'];
  readonly upstream: UpstreamPackage;
  readonly planner: ChildPlanner;
  readonly proxy: ReturnType<typeof separateCredentials> | undefined;
  /** What keeps a browser from being started at all; the first browser call tells it. */
  readonly error: BridgeError | undefined;
}

/** What a setup is made of. */
export interface SetupParts {
  readonly resolved: Resolved;
  readonly host: Host;
  readonly redactor: Redactor;
  /** Path of the installed upstream package's manifest; throws when it is not installed. */
  readonly locateUpstream: () => string;
}

/** Puts the settings into the form that the parts of a bridge take. */
export function prepareSetup(parts: SetupParts): Setup {
  const { resolved, host, redactor } = parts;
  collectSecrets(redactor, host);
  const { upstreamCli, config } = resolved.settings;
  const upstream = attempt(() => findUpstream(upstreamCli, () => parts.locateUpstream()));
  const userConfig = attempt(() => readConfig(resolved, config));
  const { settings, sources } = withOwnProfiles(withUserChoices(resolved, userConfig.value ?? {}));
  redactor.add(...secretsIn(userConfig.value ?? {}), ...secretValues(settings));
  const proxy = proxyOf(settings);
  registerCredentials(redactor, settings.proxyServer, proxy);
  const planner = new ChildPlanner({
    ...settings,
    env: host.env,
    isCaseless: host.platform === 'win32',
    ownedVariables: ownedVariables(settings.browserEngine),
    passedOn: resolved.upstreamArgs,
    userConfig: userConfig.value ?? {},
    proxy,
    debugging: settings.cdp,
  });
  const error = setupError(resolved, [upstream.error, userConfig.error]);
  return { settings, sources, upstream: upstream.value ?? missingUpstream, planner, proxy, error };
}

function readConfig({ settings }: Resolved, path: string | undefined): UpstreamConfig {
  if (path === undefined) return {};
  const config = readUserConfig(path);
  if (mayHaveCdp(settings)) checkDebugging(config, path);
  return config;
}

interface Attempt<T> {
  readonly value?: T;
  readonly error?: BridgeError;
}

function attempt<T>(make: () => T): Attempt<T> {
  try {
    return { value: make() };
  } catch (failure) {
    // Told by the first browser call: a stdio server must not end before it has answered initialize.
    return { error: toBridgeError(failure) };
  }
}

/** Everything that keeps a browser from being started at all, as one error. */
function setupError(resolved: Resolved, failures: readonly (BridgeError | undefined)[]): BridgeError | undefined {
  const [first, ...others] = failures.filter((failure) => failure !== undefined);
  const lines = resolved.problems.map((problem) => problem.message);
  if (first !== undefined && lines.length === 0 && others.length === 0) return first;
  if (first !== undefined) lines.push(...[first, ...others].map((failure) => failure.message));
  if (lines.length === 0) return undefined;
  return new BridgeError(
    'config',
    `The browser is not started, because some settings are not valid:\n${lines.join('\n')}`,
    {
      hint: 'Correct them and start the server again. `cloakbrowser-mcp doctor` checks all of them.',
    },
  );
}

/** The settings and their sources, with what the user's own upstream configuration says where no setting was given. */
function withUserChoices(resolved: Resolved, config: UpstreamConfig): Pick<Resolved, 'settings' | 'sources'> {
  const { isolated, userDataDir, headless } = readUserChoices(config);
  const isGiven = (name: 'headless' | 'isolated' | 'userDataDir'): boolean => resolved.sources[name].kind !== 'default';
  // Profile folder and isolation exclude each other: a given setting also settles the file's choice of the other one.
  const hasProfileChoice = isGiven('isolated') || isGiven('userDataDir');
  const chosen = {
    ...(headless === undefined || isGiven('headless') ? {} : { headless }),
    ...(isolated === undefined || hasProfileChoice ? {} : { isolated }),
    ...(userDataDir === undefined || hasProfileChoice ? {} : { userDataDir }),
  };
  const source = { kind: 'file', name: `file ${resolved.settings.config ?? ''}` } as const;
  const sources = Object.fromEntries(Object.keys(chosen).map((name) => [name, source]));
  return { settings: { ...resolved.settings, ...chosen }, sources: { ...resolved.sources, ...sources } };
}

/** Over HTTP no setting, variable or file may give two sessions the same profile. */
function withOwnProfiles(chosen: Pick<Resolved, 'settings' | 'sources'>): Pick<Resolved, 'settings' | 'sources'> {
  const { settings, sources } = chosen;
  if (settings.transport === 'stdio') return chosen;
  const source = { kind: 'default', name: 'default' } as const;
  return {
    settings: { ...settings, isolated: true, userDataDir: undefined },
    sources: { ...sources, isolated: source, userDataDir: source },
  };
}

function collectSecrets(redactor: Redactor, host: Host): void {
  for (const [name, value] of Object.entries(host.env)) {
    if (secretNames.test(name.toUpperCase()) && value !== undefined && value.length >= shortestSecret)
      redactor.add(value);
  }
}

function registerCredentials(redactor: Redactor, written: string | undefined, proxy: Setup['proxy']): void {
  if (proxy?.password === undefined) return;
  // As it was written, percent signs and all, it is another text than the one that the browser gets.
  redactor.add(proxy.password, /:([^:@]+)@/.exec(written ?? '')?.[1]);
}

function proxyOf({ proxyServer, proxyBypass }: Settings): Setup['proxy'] {
  if (proxyServer === undefined) return undefined;
  return separateCredentials({ server: proxyServer, ...(proxyBypass === undefined ? {} : { bypass: proxyBypass }) });
}
