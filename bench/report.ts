import { type Figure, type Measure, type Section, figureOf } from './section.ts';
import type { Summary } from './statistics.ts';
import type { Verdict } from './targets.ts';

/** What the figures were taken on. */
export interface Setting {
  readonly date: string;
  readonly bridge: string;
  readonly upstream: string;
  readonly node: string;
  readonly processors: number;
  readonly browser: string;
}

/** Above this the comparison of wall times is not to be trusted. */
const quietPercent = 10;

function shown(value: number): string {
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

function spread({ median, lower, upper, count }: Summary, sign: string): string {
  if (count === 0) return '-';
  const range = count > 1 ? ` [${shown(lower)}–${shown(upper)}]` : '';
  return `${sign}${shown(median)}${range}`;
}

function cell({ value, compared }: Figure, measure: Measure): string {
  const own = spread(value, '');
  if (compared === undefined || compared.count === 0) return own;
  const sign = measure.compare === 'ratio' ? '×' : compared.median < 0 ? '' : '+';
  return `${own}<br>**${sign}${spread(compared, '')}**`;
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

/** One section as a table: medians with quartiles, below them the paired comparison with the first column. */
export function describeSection(section: Section): string {
  const head = row(['', ...section.variants]);
  const lines = section.measures.map((measure) => {
    const title = measure.unit === '' ? measure.title : `${measure.title}, ${measure.unit}`;
    return row([title, ...section.variants.map((_, index) => cell(figureOf(section, measure, index), measure))]);
  });
  const { load, rounds, seconds, failures } = section;
  const warning = load.foreign > quietPercent ? ' **Not quiet: trust counts and processor time, not wall time.**' : '';
  const [seen, foreign, own] = [load.seen, load.foreign, load.own].map((share) => share.toFixed(0));
  const told = `foreign load ${seen} to ${foreign} %, own ${own} % of all processors.${warning}`;
  return [
    `## ${section.title}`,
    `${section.note}\n\n${rounds.length} rounds in ${seconds.toFixed(0)} s; ${told}`,
    [head, row(['---', ...section.variants.map(() => '---')]), ...lines].join('\n'),
    ...failures.map((failure) => `- failed: ${failure.replaceAll('\n', ' ')}`),
  ].join('\n\n');
}

function describeVerdict({ text, wanted, measured, floor, isMet }: Verdict): string {
  const verdict = isMet === undefined ? 'not measured' : isMet ? 'met' : '**missed**';
  return row([text, wanted, shown(measured), shown(floor), verdict]);
}

/** The whole report as Markdown. */
export function describeAll(setting: Setting, sections: readonly Section[], verdicts: readonly Verdict[]): string {
  const { date, bridge, upstream, node, processors, browser } = setting;
  return `${[
    '# Benchmark',
    `${date}. Bridge ${bridge}, upstream ${upstream}, Node ${node}, ${processors} processors, browser ${browser}. ` +
      'Medians with quartiles; in bold the comparison with direct, formed round by round (× ratio, + added).',
    ...sections.map(describeSection),
    '## Targets',
    [
      row(['target', 'wanted', 'measured', 'pipe relay', '']),
      row(['---', '---', '---', '---', '---']),
      ...verdicts.map(describeVerdict),
    ].join('\n'),
  ].join('\n\n')}\n`;
}
