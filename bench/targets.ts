import { type Section, figureOf } from './section.ts';

interface Target {
  readonly section: string;
  readonly measure: string;
  readonly variant: string;
  /** Which figure is held against the limit: the value itself, or the comparison with direct. */
  readonly of: 'value' | 'compared';
  readonly limit: number;
  readonly is: 'at most' | 'at least';
  readonly text: string;
}

/** A target with what was measured. */
export interface Verdict {
  readonly text: string;
  readonly wanted: string;
  readonly measured: number;
  /** The same of a program that only passes bytes on, where there is one. */
  readonly floor: number;
  /** Undefined when the section did not run. */
  readonly isMet: boolean | undefined;
}

const base = { of: 'compared', is: 'at most' } as const;
const start = { ...base, section: 'start' };
const own = { ...base, section: 'own-start' };
const calls = { ...base, section: 'calls', variant: 'bridge' };

function startTargets(engine: 'cloak' | 'playwright'): readonly Target[] {
  return ['initialize', 'list'].flatMap((measure) => {
    const what = `${measure === 'list' ? 'tools/list' : measure} answered, engine ${engine}`;
    const [stored, none] = [`${engine}, catalog stored`, `${engine}, catalog none`];
    return [
      { ...start, measure, variant: stored, limit: 0.45, text: `${what}, catalog stored: ratio` },
      { ...start, measure, variant: none, limit: 1.3, text: `${what}, no catalog: ratio` },
    ];
  });
}

function ownStartTargets(engine: 'cloak' | 'playwright'): readonly Target[] {
  const variant = `bridge, ${engine}`;
  const what = `own start, engine ${engine}`;
  return [
    { ...own, variant, measure: 'cpu', limit: 200, text: `${what}: processor time added, ms` },
    { ...own, variant, measure: 'pss', limit: 15, text: `${what}: PSS added, MiB` },
  ];
}

const targets: readonly Target[] = [
  ...startTargets('cloak'),
  ...startTargets('playwright'),
  ...ownStartTargets('cloak'),
  ...ownStartTargets('playwright'),
  { ...calls, measure: 'earlyTree', limit: 250, text: 'tiny call, the first 500: processor time added, us' },
  { ...calls, measure: 'tinyTree', limit: 250, text: 'tiny call, after 3500: processor time added, us' },
  { ...calls, measure: 'soonRate', limit: 0.45, is: 'at least', text: '16 calls at once, the first 3000: rate, ratio' },
  { ...calls, measure: 'manyRate', limit: 0.45, is: 'at least', text: '16 calls at once, after 5500: rate, ratio' },
  ...[
    ['image', '5 MiB result'],
    ['ready', '5 MiB result, prepared bytes'],
  ].flatMap(([key, text]): Target[] => [
    { ...calls, measure: `${key}Trip`, limit: 1.4, text: `${text}: round trip, ratio` },
    { ...calls, measure: `${key}Tree`, limit: 2, text: `${text}: processor time, ratio` },
  ]),
  ...[12, 64].map((size): Target => {
    return {
      ...calls,
      of: 'value',
      is: 'at least',
      measure: `large${size}`,
      limit: 1,
      text: `${size} MiB result passes, the session lives`,
    };
  }),
  { ...base, section: 'end-idle', variant: 'bridge', measure: 'end', limit: 1.5, text: 'end of stdin, idle: ratio' },
  {
    ...base,
    section: 'end-browser',
    variant: 'bridge',
    measure: 'end',
    limit: 1.5,
    text: 'end of stdin, page open: ratio',
  },
];

function measuredOf(target: Target, variant: string, sections: readonly Section[]): number {
  const section = sections.find((one) => one.name === target.section);
  const measure = section?.measures.find((one) => one.key === target.measure);
  if (section === undefined || measure === undefined || !section.variants.includes(variant)) return Number.NaN;
  const figure = figureOf(section, measure, section.variants.indexOf(variant));
  return (target.of === 'value' ? figure.value : figure.compared)?.median ?? Number.NaN;
}

/** Holds what was measured against every target; medians count. */
export function judge(sections: readonly Section[]): readonly Verdict[] {
  return targets.map((target) => {
    const measured = measuredOf(target, target.variant, sections);
    const isMet = target.is === 'at most' ? measured <= target.limit : measured >= target.limit;
    const isKnown = sections.some((section) => section.name === target.section);
    return {
      text: target.text,
      wanted: `${target.is} ${target.limit}`,
      measured,
      floor: measuredOf(target, 'pipe relay', sections),
      isMet: isKnown ? isMet : undefined,
    };
  });
}
