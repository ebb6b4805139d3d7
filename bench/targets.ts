import { type Section, figureOf } from './section.ts';

interface Target {
  readonly section: string;
  readonly measure: string;
  readonly variant: string;
  /** Which figure is held against the limit: the value itself, or the comparison with the base. */
  readonly of: 'value' | 'compared';
  /** The variant to compare with; by default the first one, which is direct. */
  readonly with?: string;
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
  /** Undefined when the section did not run, or not with what is compared. */
  readonly isMet: boolean | undefined;
}

const base = { of: 'compared', is: 'at most' } as const;
const start = { ...base, section: 'start' };
const own = { ...base, section: 'own-start' };
const calls = { ...base, section: 'calls', variant: 'bridge' };
const http = { ...base, variant: 'bridge' };

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

function openTargets(): readonly Target[] {
  const figures = { oneEach: '1 at a time', eightAll: '8 at once, all', manyAll: '32 at once, all' };
  return Object.entries(figures).map(([measure, text]) => {
    return { ...http, section: 'http-open', measure, limit: 1, text: `HTTP, sessions opened ${text}: ratio` };
  });
}

function httpCallTargets(): readonly Target[] {
  return ['supergateway', 'mcp-proxy'].flatMap((other) =>
    [
      ['eightTree', '8'],
      ['manyTree', '32'],
    ].map(([measure = '', sessions]) => {
      const text = `HTTP, a call over ${sessions} sessions: processor time, ratio to ${other}`;
      return { ...http, section: 'http-calls', measure, with: other, limit: 0.5, text };
    }),
  );
}

function memoryTargets(): readonly Target[] {
  const own = { ...http, of: 'value', section: 'http-memory', variant: 'bridge (300 idle)' } as const;
  return [
    { ...own, measure: 'idleMemory', limit: 1, text: 'HTTP, an idle session: PSS, MiB' },
    { ...own, measure: 'streamMemory', limit: 1, text: 'HTTP, an idle session with its stream: PSS, MiB' },
    { ...own, measure: 'streamProcesses', limit: 0, text: 'HTTP, an idle session: processes' },
  ];
}

function churnTargets(): readonly Target[] {
  return ['bridge', 'bridge, no call'].flatMap((variant) => {
    const own = { ...http, of: 'value', section: 'http-churn', variant } as const;
    const what = `HTTP, 300 sessions${variant === 'bridge' ? '' : ' without a call'}`;
    return [
      { ...own, measure: 'heap', limit: 30_000 / 1024, text: `${what}: heap growth a session, KiB (30 KB)` },
      { ...own, measure: 'processes', limit: 0, text: `${what}: processes left` },
      { ...own, measure: 'files', limit: 0, text: `${what}: files and folders left` },
      { ...own, measure: 'resources', limit: 0, text: `${what}: sockets and timers left` },
    ];
  });
}

function pageTargets(): readonly Target[] {
  const own = { ...http, section: 'http-page', measure: 'page' };
  return [
    { ...own, variant: 'bridge, spare child', limit: 1.25, text: 'HTTP, first page, spare child: ratio' },
    {
      ...own,
      variant: 'bridge, spare child',
      with: 'direct, no browser yet',
      limit: 1.25,
      text: 'HTTP, first page, spare child: ratio to direct that must start its browser, too',
    },
    { ...own, variant: 'bridge, spare browser', limit: 0.5, text: 'HTTP, first page, spare browser: ratio' },
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
  { ...base, section: 'cdp', variant: 'gateway', measure: 'trip', limit: 2.5, text: 'CDP, round trip: ratio' },
  { ...base, section: 'cdp', variant: 'gateway', measure: 'large', limit: 1.5, text: 'CDP, 50 MB down: ratio' },
  {
    ...base,
    section: 'cdp-calls',
    variant: 'with --cdp',
    measure: 'call',
    limit: 1.05,
    text: 'a call with --cdp: ratio',
  },
  ...openTargets(),
  ...httpCallTargets(),
  ...memoryTargets(),
  ...churnTargets(),
  ...pageTargets(),
];

/** The median that the target is about; undefined when there is nothing of the kind in these sections. */
function measuredOf(target: Target, variant: string, sections: readonly Section[]): number | undefined {
  const section = sections.find((one) => one.name === target.section);
  const measure = section?.measures.find((one) => one.key === target.measure);
  if (section === undefined || measure === undefined) return undefined;
  const own = section.variants.indexOf(variant);
  const base = target.with === undefined ? 0 : section.variants.indexOf(target.with);
  if (own === -1 || base === -1) return undefined;
  const figure = figureOf(section, measure, own, base);
  return (target.of === 'value' ? figure.value : figure.compared)?.median;
}

/** Holds what was measured against every target; medians count. */
export function judge(sections: readonly Section[]): readonly Verdict[] {
  return targets.map((target) => {
    const measured = measuredOf(target, target.variant, sections);
    const value = measured ?? Number.NaN;
    const isMet = target.is === 'at most' ? value <= target.limit : value >= target.limit;
    return {
      text: target.text,
      wanted: `${target.is} ${Number(target.limit.toFixed(2))}`,
      measured: value,
      floor: measuredOf(target, 'pipe relay', sections) ?? Number.NaN,
      isMet: measured === undefined ? undefined : isMet,
    };
  });
}
