/** Where a setting can be wrong. */
export type ProblemKind = 'flag' | 'env' | 'file';

/** A place where somebody set something. */
export interface GivenSource {
  readonly kind: ProblemKind;
  /** The flag, the variable, or the file with the key. */
  readonly name: string;
}

/** Where the value of a setting came from. */
export type SettingSource = GivenSource | { readonly kind: 'default'; readonly name: 'default' };

/** One thing wrong with the settings, told in one line. */
export interface Problem {
  readonly kind: ProblemKind;
  readonly source: string;
  /** Names source, value (never a secret one), what is allowed, and for a typo what may have been meant. */
  readonly message: string;
}

/** A longer value would drown the line that shows it. */
const longestShown = 60;

/** A problem whose line starts with its source. */
export function problem(source: GivenSource, text: string): Problem {
  return { kind: source.kind, source: source.name, message: `${source.name}: ${text}` };
}

/** The text with user name and password of a proxy or other URL masked, also within an argument or without a scheme. */
export function hideCredentials(text: string): string {
  // With a scheme up to the last @, else only what looks like `user:password@`: paths may hold an @, too.
  return text.replace(
    /^(--?[\w-]+=)?(?:([a-z][a-z0-9+.-]*:\/\/).*@|[^/\s:@]*:[^\s]*@)/is,
    (_all, flag: string | undefined, scheme: string | undefined) => `${flag ?? ''}${scheme ?? ''}[redacted]@`,
  );
}

/** A value as a problem shows it: in one line, short, without credentials. */
export function showValue(value: unknown): string {
  if (value === '') return 'an empty value';
  const shown = JSON.stringify(typeof value === 'string' ? hideCredentials(value) : value, (_key, item: unknown) =>
    typeof item === 'string' ? hideCredentials(item) : item,
  );
  return shown.length > longestShown ? `${shown.slice(0, longestShown)}...` : shown;
}

/** Letters to add, drop, change or swap with the next one to turn one word into the other. */
function distance(left: string, right: string): number {
  const rows = [Array.from({ length: right.length + 1 }, (_, index) => index)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity;
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= right.length; j += 1) {
      const changed = at(i - 1, j - 1) + (left[i - 1] === right[j - 1] ? 0 : 1);
      const isSwap = left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      const swapped = isSwap ? at(i - 2, j - 2) + 1 : Infinity;
      row.push(Math.min(changed, swapped, at(i - 1, j) + 1, at(i, j - 1) + 1));
    }
  }
  return at(left.length, right.length);
}

/** Case and separators are what people mix up between flag, variable and file. */
function bare(name: string): string {
  return name.replace(/[^a-z0-9]/gi, '').toLowerCase();
}

/** `; did you mean ...?` for the nearest of the candidates, or nothing when none is near. */
export function suggestion(given: string, candidates: readonly string[]): string {
  let nearest: string | undefined;
  // A third of the letters wrong still is a typo; more is another word. The cap keeps long names apart.
  let limit = Math.min(3, Math.floor(bare(given).length / 3)) + 1;
  for (const candidate of candidates) {
    const changes = distance(bare(given), bare(candidate));
    if (changes < limit) [nearest, limit] = [candidate, changes];
  }
  return nearest === undefined ? '' : `; did you mean ${nearest}?`;
}
