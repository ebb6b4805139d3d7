import { type Load, LoadMeter } from './machine-load.ts';
import type { Command } from './program.ts';
import { Server } from './server.ts';
import { type Summary, summarize } from './statistics.ts';

/** One thing that is measured; `added` compares by difference, `ratio` by quotient with the first variant. */
export interface Measure {
  readonly key: string;
  readonly title: string;
  readonly unit: string;
  readonly compare: 'ratio' | 'added' | 'none';
}

/** What one run of one variant gave, by the keys of the measures. */
export type Sample = Readonly<Record<string, number>>;

/** One variant: what is run, the base of all comparisons first. */
export interface Variant {
  readonly name: string;
  readonly run: () => Promise<Sample>;
  /** In this many rounds only, for what takes long and varies little. */
  readonly rounds?: number;
}

/** A part of the benchmark before it has run. */
export interface Plan {
  readonly name: string;
  readonly title: string;
  readonly note: string;
  readonly measures: readonly Measure[];
  readonly variants: readonly Variant[];
  /** Processes that do nothing while the rounds run. */
  readonly idle?: readonly Command[];
}

/** Figures of one measure of one variant. */
export interface Figure {
  readonly value: Summary;
  /** Paired with the base, round by round. */
  readonly compared: Summary | undefined;
}

/** A part of the benchmark after it has run. */
export interface Section extends Omit<Plan, 'variants' | 'idle'> {
  readonly variants: readonly string[];
  readonly rounds: readonly (readonly (Sample | undefined)[])[];
  readonly failures: readonly string[];
  readonly load: Load;
  readonly seconds: number;
}

/** How long a section may go on. */
export interface Bounds {
  readonly rounds: number;
  /** No further round is begun after this time. */
  readonly seconds: number;
}

/** Runs the variants in turn, round by round, in another order each time, so that a drift of the machine hits all alike. */
export async function runSection(plan: Plan, bounds: Bounds): Promise<Section> {
  const { variants, idle = [], ...rest } = plan;
  const begin = performance.now();
  const meter = new LoadMeter();
  const crowd = idle.map((command) => new Server(command));
  for (const server of crowd) await server.open();
  const rounds: (Sample | undefined)[][] = [];
  const failures: string[] = [];
  for (let round = 0; round < bounds.rounds && performance.now() - begin < bounds.seconds * 1000; round += 1) {
    const samples: (Sample | undefined)[] = variants.map(() => undefined);
    for (let turn = 0; turn < variants.length; turn += 1) {
      const index = (turn + round) % variants.length;
      const variant = variants[index];
      if (variant === undefined || round >= (variant.rounds ?? bounds.rounds)) continue;
      try {
        samples[index] = await variant.run();
      } catch (failure) {
        failures.push(`round ${round + 1}, ${variant.name}: ${String(failure)}`);
      }
    }
    rounds.push(samples);
    console.error(`${plan.name}: round ${round + 1} of ${bounds.rounds}`);
  }
  for (const server of crowd) await server.end();
  const load = meter.read();
  return {
    ...rest,
    variants: variants.map((variant) => variant.name),
    rounds,
    failures,
    load,
    seconds: (performance.now() - begin) / 1000,
  };
}

/** The figures of a measure for the variant of index `index`, compared with that of index `base`. */
export function figureOf(section: Section, measure: Measure, index: number, base = 0): Figure {
  const valueOf = (sample: Sample | undefined): number => sample?.[measure.key] ?? Number.NaN;
  const values = section.rounds.map((round) => valueOf(round[index]));
  if (index === base || measure.compare === 'none') return { value: summarize(values), compared: undefined };
  const compared = section.rounds.map((round) => {
    const [own, other] = [valueOf(round[index]), valueOf(round[base])];
    return measure.compare === 'ratio' ? own / other : own - other;
  });
  return { value: summarize(values), compared: summarize(compared) };
}
