import { resolve } from 'node:path';
import { checkCdp } from './cdp-checks.ts';
import type { Findings, SettingSources } from './findings.ts';
import { checkTransport } from './http-checks.ts';
import { type Environment, type GivenFlag, mergeLayers, type Raw, type ResolveInput } from './layers.ts';
import { httpGroup } from './option.ts';
import { type Option, options, type SettingName, type Settings, variablePrefix } from './options.ts';
import {
  type GivenSource,
  hideCredentials,
  type Problem,
  problem,
  type SettingSource,
  showValue,
  suggestion,
} from './problem.ts';
import { passOn, variableWarnings } from './upstream-flags.ts';

/** The settings with where each came from, and everything that is wrong with them. */
export interface Resolved {
  /** Valid values; a wrong one is replaced by its default. */
  readonly settings: Settings;
  readonly sources: SettingSources;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** What to put on upstream's command line. */
  readonly upstreamArgs: readonly string[];
}

type RawSettings = ReadonlyMap<string, Raw>;

function unknownKey(key: string, { source }: Raw): Problem {
  const names = options.map((option) => option.name);
  return problem(
    source,
    `unknown setting${suggestion(key, names) || "; settings in upstream's own format belong into the file of --config"}`,
  );
}

function wrongValue(option: Option, given: Raw, index: PropertyKey | undefined): Problem {
  const { expects, choices } = option.form;
  if (option.secret !== undefined) return problem(given.source, `must be ${expects}; the value is not shown`);
  const whole = given.value;
  const wrong: unknown = typeof index === 'number' && Array.isArray(whole) ? whole[index] : whole;
  const hint = typeof wrong === 'string' ? suggestion(wrong, choices) : '';
  return problem(given.source, `must be ${expects}, got ${showValue(wrong)}${hint}`);
}

interface Validated {
  readonly settings: Settings;
  readonly sources: SettingSources;
  /** By setting or unknown key. */
  readonly problems: ReadonlyMap<string, Problem>;
}

function sourceOf(option: Option, used: ReadonlyMap<SettingName, unknown>, raw: RawSettings): SettingSource {
  const given = used.has(option.name) ? raw.get(option.name) : undefined;
  return given?.source ?? { kind: 'default', name: 'default' };
}

function defaultOf(option: Option): unknown {
  return Array.isArray(option.default) ? [...(option.default as unknown[])] : option.default;
}

function validate(raw: RawSettings): Validated {
  const used = new Map<SettingName, unknown>();
  const problems = new Map<string, Problem>();
  for (const option of options) {
    const given = raw.get(option.name);
    if (given === undefined) continue;
    const { success, data, error } = option.schema().safeParse(given.value);
    if (!success) problems.set(option.name, wrongValue(option, given, error.issues[0]?.path[0]));
    else used.set(option.name, option.form.kind === 'path' ? resolve(given.folder, String(data)) : data);
  }
  for (const [name, given] of raw)
    if (!options.some((option) => option.name === name)) problems.set(name, unknownKey(name, given));
  const values = options.map((option) => [option.name, used.get(option.name) ?? defaultOf(option)] as const);
  const sources = options.map((option) => [option.name, sourceOf(option, used, raw)]);
  return {
    // What an option's own schema lets through is of its type.
    settings: Object.fromEntries(values.filter(([, value]) => value !== undefined)) as Settings,
    sources: Object.fromEntries(sources) as SettingSources,
    problems,
  };
}

/** Upstream's flags `--port` and `--host` ask for HTTP, as they do there; its variables may be left over from elsewhere. */
function askForHttp(flags: readonly GivenFlag[]): GivenSource | undefined {
  const asking = flags.find(({ spelling }) => spelling === '--port' || spelling === '--host');
  return asking === undefined ? undefined : { kind: 'flag', name: asking.spelling };
}

function chooseTransport(valid: Validated, asking: GivenSource | undefined): Validated {
  const { settings, sources } = valid;
  if (asking === undefined || sources.transport.kind !== 'default') return valid;
  return {
    ...valid,
    settings: { ...settings, transport: 'streamable-http' },
    sources: { ...sources, transport: asking },
  };
}

function transportClash({ settings, sources }: Validated, asking: GivenSource | undefined): Problem[] {
  if (asking === undefined || settings.transport !== 'stdio' || sources.transport.kind !== 'flag') return [];
  return [problem(asking, `cannot be combined with ${sources.transport.name} stdio, which listens on no port`)];
}

/** Over stdio a variable that is wrong only for HTTP, such as the port that Kubernetes adds for a service, does no harm. */
function forgiveIdle({ settings, problems }: Validated): Findings {
  const isIdle = ([name, { kind }]: readonly [string, Problem]): boolean =>
    settings.transport === 'stdio' &&
    kind !== 'flag' &&
    options.some((option) => option.name === name && option.group === httpGroup);
  const all = [...problems];
  return {
    problems: all.filter((found) => !isIdle(found)).map(([, found]) => found),
    warnings: all.filter(isIdle).map(([, { message }]) => `${message}; ignored over stdio`),
  };
}

function conflicts({ isolated, userDataDir, transport }: Settings, sources: SettingSources): Problem[] {
  // Over HTTP neither counts, which a warning tells.
  if (!isolated || userDataDir === undefined || transport !== 'stdio') return [];
  // Named by the one outside the command line if there is one: only a wrong command line ends the program.
  const isOnlyFlag = sources.isolated.kind === 'flag' && sources.userDataDir.kind !== 'flag';
  const source = isOnlyFlag ? sources.userDataDir : sources.isolated;
  const other = isOnlyFlag ? sources.isolated : sources.userDataDir;
  if (source.kind === 'default') return [];
  return [problem(source, `cannot be combined with ${other.name}, since a profile in memory has no folder`)];
}

function unknownVariables(env: Environment): string[] {
  const known = options.flatMap((option) => option.variables.map(({ name }) => name));
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith(variablePrefix) && env[name] !== undefined && !known.includes(name),
  );
  const own = known.filter((name) => name.startsWith(variablePrefix)).map((name) => name.slice(variablePrefix.length));
  return unknown.toSorted().map((name) => {
    const hint = suggestion(name.slice(variablePrefix.length), own).replace('mean ', `mean ${variablePrefix}`);
    return `${name}: ignored, this version knows no such setting${hint}`;
  });
}

/** Merges flags, environment, config file and defaults, validates once, and reports everything that is wrong. */
export function resolveSettings(input: ResolveInput): Resolved {
  const layers = mergeLayers(input);
  const asking = askForHttp(input.flags.given);
  const valid = chooseTransport(validate(layers.raw), asking);
  const { settings, sources } = valid;
  const passed = passOn(input.flags.upstream, input.flags.rest, settings.browserEngine);
  const values = forgiveIdle(valid);
  const transport = checkTransport(settings, sources);
  const cdp = checkCdp(settings, sources, { env: input.env, passed: passed.args });
  const idle = settings.proxyBypass !== undefined && settings.proxyServer === undefined;
  return {
    settings,
    sources,
    problems: [
      ...input.flags.problems,
      ...passed.problems,
      ...layers.problems,
      ...values.problems,
      ...conflicts(settings, sources),
      ...transportClash(valid, asking),
      ...transport.problems,
      ...cdp.problems,
    ],
    warnings: [
      ...passed.warnings,
      ...unknownVariables(input.env),
      ...variableWarnings(settings.browserEngine, input.env),
      ...values.warnings,
      ...transport.warnings,
      ...cdp.warnings,
      ...(idle ? [`${sources.proxyBypass.name}: has no effect without a proxy server`] : []),
    ],
    upstreamArgs: passed.args,
  };
}

/** A setting as shown to people: no credentials, `null` when it has no value. */
export interface DescribedSetting {
  readonly name: SettingName;
  readonly value: string | number | boolean | readonly string[] | null;
  readonly source: string;
}

const hiddenSecret = '[redacted]';

/** A secret that is given is told to be there and nothing more. */
function describedValue({ secret }: Option, value: Settings[SettingName]): DescribedSetting['value'] {
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map((item) => (secret === 'whole' ? hiddenSecret : hideCredentials(item)));
  if (typeof value !== 'string') return value;
  return secret === 'whole' ? hiddenSecret : hideCredentials(value);
}

/** All settings with their sources, for `cloakbrowser_bridge_info`, the doctor and the log; holds no secret. */
export function describeSettings({ settings, sources }: Pick<Resolved, 'settings' | 'sources'>): DescribedSetting[] {
  return options.map((option) => {
    const { name } = option;
    return { name, value: describedValue(option, settings[name]), source: sources[name].name };
  });
}

/** The values that no log and no answer may show, whichever source gave them. */
export function secretValues(settings: Settings): string[] {
  const values = options.filter(({ secret }) => secret === 'whole').flatMap(({ name }) => settings[name]);
  return values.filter((value) => typeof value === 'string');
}
