type Version = readonly [major: number, minor: number, patch: number];

const comparator = /^(>=|<=|>|<|=|\^|~)?v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+][\w.-]+)?$/;

function compare(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** The first version after all those that start with the given numbers. */
function after(parts: readonly number[]): Version {
  const [major = 0, minor = 0, patch = 0] = parts;
  if (parts.length === 0) return [Infinity, 0, 0];
  if (parts.length === 1) return [major + 1, 0, 0];
  return parts.length === 2 ? [major, minor + 1, 0] : [major, minor, patch + 1];
}

/** `^` keeps the first number that is not zero, `~` the minor one. */
function afterCompatible(operator: '^' | '~', parts: readonly number[]): Version {
  if (operator === '~') return after(parts.slice(0, 2));
  const leading = parts.findIndex((part) => part !== 0);
  return after(leading === -1 ? parts : parts.slice(0, leading + 1));
}

/** The versions from `low` on and before `high`. */
interface Span {
  readonly low: Version;
  readonly high: Version;
}

const first: Version = [0, 0, 0];
const last: Version = [Infinity, 0, 0];

function spanOf(operator: string, parts: readonly number[]): Span {
  const low: Version = [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0];
  switch (operator) {
    case '>=':
      return { low, high: last };
    case '>':
      return { low: after(parts), high: last };
    case '<':
      return { low: first, high: low };
    case '<=':
      return { low: first, high: after(parts) };
    case '^':
    case '~':
      return { low, high: afterCompatible(operator, parts) };
    default:
      return { low, high: after(parts) };
  }
}

function matches(version: Version, text: string): boolean {
  const [whole, operator = '=', ...found] = comparator.exec(text) ?? [];
  if (whole === undefined) throw new Error(`"${text}" is no version range`);
  const given = found.map((part: string | undefined) => (part === undefined ? NaN : Number(part)));
  const end = given.findIndex((part) => Number.isNaN(part));
  const { low, high } = spanOf(operator, end === -1 ? given : given.slice(0, end));
  return compare(version, low) >= 0 && compare(version, high) < 0;
}

/** True if a version is in a range as package.json writes it, e.g. `^20.19.0 || >=22.12`. Throws on what is no range. */
export function isInRange(version: string, range: string): boolean {
  const [major, minor, patch] = version.replace(/^v/, '').split(/[.+-]/).map(Number);
  const found: Version = [major ?? NaN, minor ?? NaN, patch ?? NaN];
  if (found.some((part) => Number.isNaN(part))) throw new Error(`"${version}" is no version`);
  // Every part is read, also after one that fits: a range that cannot be read must not pass by chance.
  const alternatives = range.split('||').map((alternative) => {
    const spelled = alternative
      .replace(/(\S+)\s+-\s+(\S+)/g, '>=$1 <=$2')
      .replace(/([<>=^~])\s+/g, '$1')
      .trim();
    const results = (spelled === '' ? ['*'] : spelled.split(/\s+/)).map((text) => matches(found, text));
    return results.every(Boolean);
  });
  return alternatives.some(Boolean);
}
