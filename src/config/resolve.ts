import { resolve } from 'node:path';
import { type Environment, mergeLayers, type Raw, type ResolveInput } from './layers.ts';
import { type Option, options, type SettingName, type Settings, settingsSchema, variablePrefix } from './options.ts';
import { hideCredentials, type Problem, problem, type SettingSource, showValue, suggestion } from './problem.ts';
import { passOn, variableWarnings } from './upstream-flags.ts';

/** Where each setting came from. */
export type SettingSources = Readonly<Record<SettingName, SettingSource>>;

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

function valueOf(name: string, { value, folder }: Raw): unknown {
  const option = options.find((candidate) => candidate.name === name);
  const isPath = option?.form.kind === 'path' && settingsSchema.shape[option.name].safeParse(value).success;
  return isPath ? resolve(folder, String(value)) : value;
}

function valuesOf(raw: RawSettings): Record<string, unknown> {
  return Object.fromEntries([...raw].map(([name, given]) => [name, valueOf(name, given)]));
}

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
  /** The given values that are good. */
  readonly used: RawSettings;
  readonly problems: readonly Problem[];
}

function validate(raw: RawSettings): Validated {
  const result = settingsSchema.safeParse(valuesOf(raw));
  if (result.success) return { settings: result.data, used: raw, problems: [] };
  const problems = new Map<string, Problem>();
  const add = (name: string, describe: (given: Raw) => Problem): void => {
    const given = raw.get(name);
    // One line for each setting, even if several rules refuse its value.
    if (given !== undefined && !problems.has(name)) problems.set(name, describe(given));
  };
  for (const issue of result.error.issues) {
    const [name, index] = issue.path;
    if (issue.code === 'unrecognized_keys') for (const key of issue.keys) add(key, (given) => unknownKey(key, given));
    const option = options.find((candidate) => candidate.name === name);
    if (option !== undefined) add(option.name, (given) => wrongValue(option, given, index));
  }
  const used = new Map([...raw].filter(([name]) => !problems.has(name)));
  return { settings: settingsSchema.parse(valuesOf(used)), used, problems: [...problems.values()] };
}

function conflicts({ isolated, userDataDir }: Settings, sources: SettingSources): Problem[] {
  if (!isolated || userDataDir === undefined) return [];
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
  const { settings, used, problems } = validate(layers.raw);
  const sourceOf = (name: SettingName): SettingSource => used.get(name)?.source ?? { kind: 'default', name: 'default' };
  const sources = Object.fromEntries(options.map(({ name }) => [name, sourceOf(name)])) as Record<
    SettingName,
    SettingSource
  >;
  const passed = passOn(input.flags.upstream, input.flags.rest, settings.browserEngine);
  const idle = settings.proxyBypass !== undefined && settings.proxyServer === undefined;
  return {
    settings,
    sources,
    problems: [
      ...input.flags.problems,
      ...passed.problems,
      ...layers.problems,
      ...problems,
      ...conflicts(settings, sources),
    ],
    warnings: [
      ...passed.warnings,
      ...unknownVariables(input.env),
      ...variableWarnings(settings.browserEngine, input.env),
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

/** All settings with their sources, for `cloakbrowser_bridge_info`, the doctor and the log; holds no secret. */
export function describeSettings({ settings, sources }: Pick<Resolved, 'settings' | 'sources'>): DescribedSetting[] {
  return options.map(({ name }) => {
    const value = settings[name];
    const source = sources[name].name;
    if (typeof value === 'string') return { name, value: hideCredentials(value), source };
    if (Array.isArray(value)) return { name, value: value.map(hideCredentials), source };
    return { name, value: value ?? null, source };
  });
}
