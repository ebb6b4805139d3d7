import * as z from 'zod/mini';
import { BridgeError } from '../core/errors.ts';
import { type SessionSettingName, sessionSettingNames } from './http-session-options.ts';
import { showValue, suggestion } from './problem.ts';

/** Where our own names stand in `_meta` of `initialize`. */
const ownKey = 'io.github.cloakbrowser-mcp/session';
/** Where clients write them for the project that had such settings first; with our own key beside it, it is not read. */
const aliasKey = 'io.github.swimmwatch/cloakbrowser-mcp';
/** The keys of `_meta` that are for the bridge alone. */
export const settingsKeys: readonly string[] = [ownKey, aliasKey];
const ownSpellings = new Map<string, SessionSettingName>([
  ...sessionSettingNames.map((name) => [name, name] as const),
  ['timezone', 'timezoneId'],
]);
/** What the other project has beside and below `contextOptions`. */
const aliasSpellings = new Map<string, SessionSettingName>([
  ['headless', 'headless'],
  ['cdpEnabled', 'cdp'],
]);
const contextSpellings = new Map<string, SessionSettingName>(
  (['userAgent', 'viewport', 'locale', 'timezoneId', 'extraHTTPHeaders'] as const).map((name) => [name, name]),
);

/** Chromium refuses larger windows. */
const largestSide = 16_384;
/** No language tag, time zone or name of a setting is longer; what comes from a client is not searched beyond. */
const longestName = 100;
/** Servers refuse longer header lines. */
const longestUserAgent = 1024;

function isLocale(value: string): boolean {
  if (value.length > longestName) return false;
  try {
    return new Intl.Locale(value).language !== '';
  } catch {
    return false; // A RangeError is how Intl says no.
  }
}

function isTimeZone(value: string): boolean {
  // Node takes offsets such as +01:00 for time zones, Chromium does not.
  if (!/^[a-z]/i.test(value) || value.length > longestName) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: value }).resolvedOptions().timeZone !== '';
  } catch {
    return false; // A RangeError is how Intl says no.
  }
}

const side = z.int().check(z.minimum(1), z.maximum(largestSide));
const pair = z.looseObject({ name: z.string(), value: z.string() });
const cookie = z.looseObject({
  ...pair.shape,
  domain: z.optional(z.string()),
  path: z.optional(z.string()),
  expires: z.optional(z.number()),
  httpOnly: z.optional(z.boolean()),
  secure: z.optional(z.boolean()),
  sameSite: z.optional(z.enum(['Strict', 'Lax', 'None'])),
});
/** Far above what a login needs; each value is kept in mind, so that no log shows it. */
const mostEntries = 2000;
const mostHeaders = 100;

function entriesIn(state: {
  readonly cookies?: readonly unknown[] | undefined;
  readonly origins?: readonly { readonly localStorage?: readonly unknown[] | undefined }[] | undefined;
}): number {
  const stored = (state.origins ?? []).reduce((sum, { localStorage }) => sum + (localStorage?.length ?? 0), 0);
  return (state.cookies?.length ?? 0) + (state.origins?.length ?? 0) + stored;
}

const origin = z.looseObject({ origin: z.string(), localStorage: z.optional(z.array(pair)) });

const schema = z.strictObject({
  headless: z.optional(z.boolean()),
  viewport: z.optional(z.nullable(z.strictObject({ width: side, height: side }))),
  locale: z.optional(z.string().check(z.refine(isLocale))),
  timezoneId: z.optional(z.string().check(z.refine(isTimeZone))),
  userAgent: z.optional(z.string().check(z.regex(/^[\x20-\x7e]*[\x21-\x7e]$/), z.maxLength(longestUserAgent))),
  extraHTTPHeaders: z.optional(
    z
      .record(z.string().check(z.regex(/^[\w!#$%&'*+.^`|~-]+$/)), z.string().check(z.regex(/^[^\0\r\n]*$/)))
      .check(z.refine((headers) => Object.keys(headers).length <= mostHeaders)),
  ),
  storageState: z.optional(
    z
      .strictObject({ cookies: z.optional(z.array(cookie)), origins: z.optional(z.array(origin)) })
      .check(z.refine((state) => entriesIn(state) <= mostEntries)),
  ),
  cdp: z.optional(z.boolean()),
});

/** The settings of one session; what the client did not give is missing. */
export type SessionSettings = z.output<typeof schema>;

/** What each must be; the values of the secret ones are never shown. */
const expectations: Readonly<Record<SessionSettingName, { readonly expects: string; readonly isSecret?: true }>> = {
  headless: { expects: 'true or false' },
  viewport: { expects: `an object of width and height, whole numbers from 1 to ${String(largestSide)}, or null` },
  locale: { expects: 'a language tag such as "de-CH"' },
  timezoneId: { expects: 'the name of a time zone such as "Europe/Zurich"' },
  userAgent: { expects: `a text of 1 to ${String(longestUserAgent)} printable ASCII characters` },
  extraHTTPHeaders: {
    expects: `an object of at most ${String(mostHeaders)} header names and their values, each a text in one line`,
    isSecret: true,
  },
  storageState: {
    expects: `the content of a storage state and no path: an object of cookies and origins, at most ${String(mostEntries)} entries in all`,
    isSecret: true,
  },
  cdp: { expects: 'true or false' },
};

function refuse(where: string, text: string): BridgeError {
  return new BridgeError('session_setting', `${where}: ${text}`, { data: { setting: where } });
}

/** A wrong value in a few words, made in no time even if it is megabytes. */
function show(value: unknown): string {
  if (typeof value === 'string') return showValue(value.slice(0, longestName));
  if (typeof value !== 'object' || value === null) return showValue(value);
  const items: unknown[] = Object.values(value);
  const isSmall = items.length <= 4 && items.every((item) => typeof item === 'number' || typeof item === 'boolean');
  if (isSmall) return showValue(value);
  return Array.isArray(value) ? 'a list' : 'an object';
}

function entriesOf(where: string, value: unknown): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refuse(where, `must be an object, got ${show(value)}`);
  return Object.entries(value);
}

interface Asked {
  readonly name: SessionSettingName;
  readonly where: string;
  readonly value: unknown;
}

function read(where: string, value: unknown, spellings: ReadonlyMap<string, SessionSettingName>): Asked[] {
  return entriesOf(where, value).map(([key, wanted]) => {
    const name = spellings.get(key);
    if (name === undefined) {
      const start = key.slice(0, longestName);
      throw refuse(`${where}.${start}`, `unknown session setting${suggestion(start, [...spellings.keys()])}`);
    }
    return { name, where: `${where}.${key}`, value: wanted };
  });
}

function readAlias(value: unknown): Asked[] {
  const { contextOptions = {}, ...beside } = Object.fromEntries(entriesOf(aliasKey, value));
  return [
    ...read(aliasKey, beside, aliasSpellings),
    ...read(`${aliasKey}.contextOptions`, contextOptions, contextSpellings),
  ];
}

/** False for what is nested too deep to be written for the child, as only JSON made for that is. */
function canBeWritten(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return true;
  } catch {
    return false; // The RangeError is how the engine says no.
  }
}

function check({ name, where, value }: Asked, allowed: readonly string[]): void {
  if (!allowed.includes(name))
    throw refuse(
      where,
      `this server does not let clients set it (--session-settings of the server names what it does)`,
    );
  const { expects, isSecret } = expectations[name];
  // `undefined` cannot come out of JSON, so an optional schema accepts nothing more here than the one within.
  if (schema.shape[name].safeParse(value).success && canBeWritten(value)) return;
  throw refuse(where, `must be ${expects}${isSecret === true ? '; the value is not shown' : `, got ${show(value)}`}`);
}

/**
 * The session settings in `_meta` of a client's `initialize`, of those that the operator allows. Anything unknown, not
 * allowed or wrong throws `session_setting`, which names the key and holds no header or cookie.
 */
export function readSessionSettings(meta: unknown, allowed: readonly string[]): SessionSettings {
  if (typeof meta !== 'object' || meta === null) return {};
  const given = new Map<string, unknown>(Object.entries(meta));
  const asked = given.has(ownKey)
    ? read(ownKey, given.get(ownKey), ownSpellings)
    : given.has(aliasKey)
      ? readAlias(given.get(aliasKey))
      : [];
  const names = new Set<string>();
  for (const one of asked) {
    if (names.has(one.name)) throw refuse(one.where, `${one.name} is given twice`);
    names.add(one.name);
    check(one, allowed);
  }
  return schema.parse(Object.fromEntries(asked.map(({ name, value }) => [name, value])));
}
