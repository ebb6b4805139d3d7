/** Median and quartiles of repeated measurements. */
export interface Summary {
  readonly median: number;
  readonly lower: number;
  readonly upper: number;
  readonly count: number;
}

/** The value below which the given part of the values lies, interpolated between neighbours; NaN without values. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  const position = (sorted.length - 1) * part;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}

/** Median and quartiles; values that are no number (a failed round) are left out. */
export function summarize(values: readonly number[]): Summary {
  const known = values.filter((value) => Number.isFinite(value));
  return {
    median: quantile(known, 0.5),
    lower: quantile(known, 0.25),
    upper: quantile(known, 0.75),
    count: known.length,
  };
}
