import * as z from 'zod/mini';

/** How an option's value is written; decides how text from a flag or a variable is read. */
export type OptionKind = 'switch' | 'integer' | 'choice' | 'path' | 'text' | 'list';

/** The heading of all that only a server over HTTP uses. */
export const httpGroup = 'Streamable HTTP';

/** The heading of all that belongs to managed CDP. */
export const cdpGroup = 'Managed CDP';

/** Headings under which help and the reference page show the options. */
export const optionGroups = ['Bridge', 'Limits', 'Browser', 'CloakBrowser', httpGroup, cdpGroup] as const;

/** What a kind of value allows, in words, and how its text is read. */
export interface ValueForm {
  readonly kind: OptionKind;
  /** Completes "must be ..." in a problem. */
  readonly expects: string;
  readonly placeholder: string;
  readonly choices: readonly string[];
  /** Where the text of a list is cut, as the source of a pattern. */
  readonly separator: string;
}

/** A kind of value with the maker of its schema. */
export interface OptionType<S extends z.ZodMiniType> {
  readonly form: ValueForm;
  readonly make: () => S;
}

/** A further environment variable with an option's meaning. */
export interface EnvironmentAlias {
  readonly name: string;
  /** The variable says the opposite of the option, as `..._NO_SANDBOX` does. */
  readonly isInverse?: true;
}

interface OptionText<V> {
  readonly description: string;
  readonly group: (typeof optionGroups)[number];
  /** Shown in place of the value in help. */
  readonly value?: string;
  readonly default?: V;
  /** What happens without a value, for an option that has no fixed default. */
  readonly unset?: string;
  /**
   * Never shown in a problem. Elsewhere `credentials` (user name and password within a value) are masked, and of a
   * secret that is `whole` nothing is shown.
   */
  readonly secret?: 'credentials' | 'whole';
  /** Upstream's spelling of the flag, without dashes, where it differs. */
  readonly flag?: string;
  readonly environment?: readonly EnvironmentAlias[];
  /** A config file cannot set it. */
  readonly notInFile?: true;
}

/** What is known of an option beside its schema. */
export interface OptionMeta extends OptionText<unknown> {
  readonly form: ValueForm;
}

/** A field of the settings. */
export interface Field<F extends z.ZodMiniType> extends OptionMeta {
  /** Made when the first value is checked: all of them would cost a start 15 ms, and most are never given. */
  readonly schema: () => F;
}

/** A field of the settings: a type with its text, optional or with a default. */
export function option<S extends z.ZodMiniType>(
  type: OptionType<S>,
  text: OptionText<z.output<S>> & { readonly default: z.output<S> },
): Field<z.ZodMiniDefault<S>>;
export function option<S extends z.ZodMiniType>(
  type: OptionType<S>,
  text: OptionText<z.output<S>>,
): Field<z.ZodMiniOptional<S>>;
export function option<S extends z.ZodMiniType>(
  type: OptionType<S>,
  text: OptionText<z.output<S>>,
): Field<z.ZodMiniType> {
  let made: z.ZodMiniType | undefined;
  const make = (): z.ZodMiniType =>
    text.default === undefined
      ? z.optional(type.make())
      : z._default(type.make(), text.default as z.util.NoUndefined<z.output<S>>);
  return { ...text, form: type.form, schema: () => (made ??= make()) };
}

function form(kind: OptionKind, expects: string, placeholder: string): ValueForm {
  return { kind, expects, placeholder, choices: [], separator: ',' };
}

/** A switch: on or off, never a guess. */
export function toggle(): OptionType<z.ZodMiniBoolean> {
  return { form: form('switch', 'true or false', 'bool'), make: () => z.boolean() };
}

/** A whole number within limits. */
export function integer(min: number, max: number): OptionType<z.ZodMiniNumber> {
  const expects = `a whole number from ${String(min)} to ${String(max)}`;
  return { form: form('integer', expects, 'number'), make: () => z.int().check(z.minimum(min), z.maximum(max)) };
}

/** One of a few words. */
export function choice<const C extends readonly [string, ...string[]]>(
  choices: C,
): OptionType<z.ZodMiniEnum<z.util.ToEnum<C[number]>>> {
  const expects = choices.length === 1 ? JSON.stringify(choices[0]) : `one of ${choices.join(', ')}`;
  return { form: { ...form('choice', expects, choices.join('|')), choices }, make: () => z.enum(choices) };
}

function isPath(value: string): boolean {
  // A client's configuration is read by no shell, so "~/x" would quietly become a folder named "~".
  return value.trim() !== '' && !value.includes('\0') && !/^~($|[/\\])/.test(value);
}

/** A file or folder; relative ones are made absolute after validation. */
export function path(): OptionType<z.ZodMiniString> {
  const expects = 'a path written out (no shell expands "~" here)';
  return { form: form('path', expects, 'path'), make: () => z.string().check(z.refine(isPath)) };
}

/** A text that a check accepts. */
export function text(expects: string, isAllowed: (value: string) => boolean): OptionType<z.ZodMiniString> {
  return { form: form('text', expects, 'text'), make: () => z.string().check(z.refine(isAllowed)) };
}

/** A list of texts that each match a pattern: a JSON array, or one text cut at a separator. */
export function list(items: string, pattern: RegExp, separator: string): OptionType<z.ZodMiniArray<z.ZodMiniString>> {
  return {
    form: { ...form('list', `a list of ${items} (a JSON array or separated by commas)`, 'list'), separator },
    make: () => z.array(z.string().check(z.regex(pattern))),
  };
}

/** A list of a few words. */
export function listOf<const C extends readonly [string, ...string[]]>(
  choices: C,
): OptionType<z.ZodMiniArray<z.ZodMiniEnum<z.util.ToEnum<C[number]>>>> {
  const expects = `a list out of ${choices.join(', ')} (a JSON array or separated by commas)`;
  return { form: { ...form('list', expects, 'list'), choices }, make: () => z.array(z.enum(choices)) };
}
