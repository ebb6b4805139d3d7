import { dirname, resolve } from 'node:path';
import { readConfigFile } from './file.ts';
import { type Option, options, type SettingName, variablePrefix } from './options.ts';
import { type Problem, problem, type GivenSource } from './problem.ts';
import type { GivenUpstreamFlag } from './upstream-flags.ts';

/** A flag of the bridge as the user gave it. */
export interface GivenFlag {
  readonly option: SettingName;
  /** With dashes. */
  readonly spelling: string;
  readonly value: string;
}

/** What a command line says, not yet validated. */
export interface ParsedFlags {
  readonly given: readonly GivenFlag[];
  readonly upstream: readonly GivenUpstreamFlag[];
  /** Everything after `--`. */
  readonly rest: readonly string[];
  /** Flags that are not known or miss their value. */
  readonly problems: readonly Problem[];
}

/** The variables of the process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What settings are made of. */
export interface ResolveInput {
  readonly flags: ParsedFlags;
  readonly env: Environment;
  readonly cwd: string;
  readonly readFile: (path: string) => string;
}

/** A value before validation. */
export interface Raw {
  readonly value: unknown;
  readonly source: GivenSource;
  /** Relative paths start here. */
  readonly folder: string;
}

function readList(text: string, separator: string): unknown {
  // An IPv6 address with its brackets is no JSON array.
  if (!text.trimStart().startsWith('[') || /^\s*\[[0-9a-f]*:/i.test(text))
    return text === '' ? text : text.split(new RegExp(separator)).map((item) => item.trim());
  try {
    return JSON.parse(text);
  } catch {
    return text; // Not an array: validation tells what was expected.
  }
}

/** What a text from a flag or a variable stands for; a text that stands for nothing is left for validation to refuse. */
function readText(option: Option, text: string): unknown {
  switch (option.form.kind) {
    case 'switch':
      if (/^true$/i.test(text)) return true;
      return /^false$/i.test(text) ? false : text;
    case 'integer':
      return /^-?[0-9]{1,15}$/.test(text) ? Number(text) : text;
    case 'list':
      return readList(text, option.form.separator);
    case 'choice':
    case 'path':
    case 'text':
      return text;
  }
}

function fromFlags(option: Option, flags: readonly GivenFlag[]): Omit<Raw, 'folder'> | undefined {
  const given = flags.filter((flag) => flag.option === option.name);
  const last = given.at(-1);
  if (last === undefined) return undefined;
  const source: GivenSource = { kind: 'flag', name: last.spelling };
  const values = given.map((flag) => readText(option, flag.value));
  if (option.form.kind !== 'list') return { value: values.at(-1), source };
  // A list may be given piece by piece; a piece that is no list is what the problem has to show.
  return { value: values.find((value) => !Array.isArray(value)) ?? values.flat(), source };
}

/** The text of a variable as its owner reads it: those of upstream and of CloakBrowser are unset when empty and know 1 and 0. */
function variableText(option: Option, name: string, env: Environment): string | undefined {
  const text = env[name];
  if (text === undefined || name.startsWith(variablePrefix)) return text;
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  if (option.form.kind !== 'switch') return trimmed;
  return trimmed === '1' ? 'true' : trimmed === '0' ? 'false' : trimmed;
}

function fromVariables(option: Option, env: Environment): Omit<Raw, 'folder'> | undefined {
  for (const { name, isInverse } of option.variables) {
    const text = variableText(option, name, env);
    if (text === undefined) continue;
    const value = readText(option, text);
    return { value: isInverse === true && typeof value === 'boolean' ? !value : value, source: { kind: 'env', name } };
  }
  return undefined;
}

/** The settings of all sources, the strongest one kept, not yet validated. */
export interface Layers {
  /** By setting; a file's unknown keys are among them. */
  readonly raw: ReadonlyMap<string, Raw>;
  readonly problems: readonly Problem[];
}

function addFile(raw: Map<string, Raw>, path: string, input: ResolveInput): Problem[] {
  const { values, problems } = readConfigFile(path, input.readFile);
  const found = [...problems];
  for (const [key, value] of values) {
    const source = { kind: 'file', name: `config file ${path}: ${key}` } as const;
    if (options.some((option) => option.name === key && option.notInFile === true))
      found.push(problem(source, 'a config file cannot set this'));
    else if (!raw.has(key)) raw.set(key, { value, source, folder: dirname(path) });
  }
  return found;
}

/** Merges the layers: flag over environment (our variable before an alias) over config file. */
export function mergeLayers(input: ResolveInput): Layers {
  const raw = new Map<string, Raw>();
  for (const option of options) {
    const found = fromFlags(option, input.flags.given) ?? fromVariables(option, input.env);
    if (found !== undefined) raw.set(option.name, { ...found, folder: input.cwd });
  }
  // A value that is no path is told with the rest of the settings.
  const path = raw.get('configFile')?.value;
  const isPath = options.some(({ name, schema }) => name === 'configFile' && schema().safeParse(path).success);
  return { raw, problems: isPath && typeof path === 'string' ? addFile(raw, resolve(input.cwd, path), input) : [] };
}
