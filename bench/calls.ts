import type { Commands } from './commands.ts';
import { fineProcessorMs, treeMemory, treeOf } from './process-tree.ts';
import { type Command, inTime } from './program.ts';
import type { Measure, Plan, Sample, Variant } from './section.ts';
import { type Server, withServer } from './server.ts';
import { quantile } from './statistics.ts';

const mebibyte = 1_048_576;

function callOf(name: string, given: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ name, arguments: given });
}

/** Calls of one kind in a row. */
interface Series {
  readonly key: string;
  readonly title: string;
  readonly call: string;
  readonly atOnce: number;
  readonly count: number;
}

/**
 * Made in this order by a fresh process each round. V8 needs some thousand calls to have everything compiled, so the
 * first calls, which are all that many a session makes, are told apart from later ones.
 */
const series: readonly Series[] = [
  { key: 'early', title: 'tiny, the first 500', call: callOf('echo'), atOnce: 1, count: 500 },
  { key: 'soon', title: '16 at once, the next 3000', call: callOf('echo'), atOnce: 16, count: 3000 },
  { key: 'tiny', title: 'tiny, after these', call: callOf('echo'), atOnce: 1, count: 2000 },
  { key: 'many', title: '16 at once, after these', call: callOf('echo'), atOnce: 16, count: 6000 },
  { key: 'text', title: '100 KiB text', call: callOf('text', { bytes: 102_400 }), atOnce: 1, count: 200 },
  { key: 'image', title: '5 MiB image', call: callOf('image', { bytes: 5 * mebibyte }), atOnce: 1, count: 12 },
  {
    key: 'ready',
    title: '5 MiB image, prepared',
    call: callOf('image', { bytes: 5 * mebibyte, prepared: true }),
    atOnce: 1,
    count: 16,
  },
];

/** Results that break a client or bridge with the SDK's limit of 10 MiB. */
const largeMebibytes = [12, 64];

function callAll(server: Server, { call, atOnce, count }: Series): Promise<number[]> {
  const latencies: number[] = [];
  let sent = 0;
  const all = new Promise<number[]>((resolve) => {
    const next = (): void => {
      if (sent === count) return;
      sent += 1;
      const begin = performance.now();
      server.client.send('tools/call', call, () => {
        latencies.push(performance.now() - begin);
        if (latencies.length === count) resolve(latencies);
        else next();
      });
    };
    for (let lane = 0; lane < atOnce; lane += 1) next();
  });
  return inTime(all, `${count} calls`);
}

async function measureSeries(server: Server, one: Series): Promise<Sample> {
  const tree = treeOf(server.pid);
  const before = tree.map(fineProcessorMs);
  const begin = performance.now();
  const latencies = await callAll(server, one);
  const wallMs = performance.now() - begin;
  const used = tree.map((pid, index) => fineProcessorMs(pid) - (before[index] ?? 0));
  const perCall = (ms: number): number => (ms * 1000) / one.count;
  return {
    [`${one.key}Trip`]: quantile(latencies, 0.5) * 1000,
    [`${one.key}Slow`]: quantile(latencies, 0.95) * 1000,
    [`${one.key}Rate`]: (one.count * 1000) / wallMs,
    [`${one.key}Root`]: perCall(used[0] ?? Number.NaN),
    [`${one.key}Tree`]: perCall(used.reduce((sum, ms) => sum + ms, 0)),
  };
}

/** True when a result of this size arrives whole and the session answers afterwards. */
async function passes(server: Server, size: number): Promise<boolean> {
  const bytes = size * mebibyte;
  const answer = await server.request('tools/call', callOf('image', { bytes }));
  await server.call('echo');
  return answer.bytes > bytes;
}

async function measureCalls(server: Server): Promise<Sample> {
  await server.open();
  await server.call('echo');
  await server.settle();
  const figures: Record<string, number> = {};
  for (const one of series) {
    // The first large result is made and the first large buffers are allocated; that is no call's own cost.
    if (one.atOnce === 1) await callAll(server, { ...one, count: 2 });
    Object.assign(figures, await measureSeries(server, one));
  }
  const { peakResident, proportional } = treeMemory(server.pid);
  Object.assign(figures, { peak: peakResident, pss: proportional });
  for (const size of largeMebibytes) figures[`large${size}`] = (await passes(server, size)) ? 1 : 0;
  return figures;
}

function measuresOf({ key, title, call, atOnce }: Series): Measure[] {
  const own = { unit: 'us', compare: call === callOf('echo') && atOnce === 1 ? 'added' : 'ratio' } as const;
  const trip: Measure[] = [
    { key: `${key}Trip`, title: `${title}, round trip`, ...own },
    { key: `${key}Slow`, title: `${title}, round trip, 95th percentile`, ...own },
  ];
  return [
    ...(atOnce === 1 ? trip : []),
    ...(atOnce === 1
      ? []
      : [{ key: `${key}Rate`, title: `${title}, calls a second`, unit: '1/s', compare: 'ratio' } as const]),
    { key: `${key}Tree`, title: `${title}, processor time of the tree a call`, ...own },
    {
      key: `${key}Root`,
      title: `${title}, processor time of the started process alone a call`,
      unit: 'us',
      compare: 'none',
    },
  ];
}

/** Calls over the instant upstream, alone and behind the bridge. */
export function planCalls(commands: Commands): Plan {
  const variant = (name: string, command: () => Command): Variant => ({
    name,
    run: () => withServer(command(), undefined, measureCalls),
  });
  return {
    name: 'calls',
    title: 'Calls over an instant upstream',
    note:
      'Processor time without the client, which finds the end of an answer and its id and reads no more. Upstream makes ' +
      "the JSON of a large result anew for each call, as upstream's SDK does; `prepared` is bytes that it made once, so " +
      'that direct costs next to nothing. `pipe relay` is a program that passes bytes on unread: the floor. Large ' +
      'results: 1 when it arrived whole and a call after it was answered.',
    measures: [
      ...series.flatMap(measuresOf),
      { key: 'peak', title: 'peak RSS of the tree after the series', unit: 'MiB', compare: 'ratio' },
      { key: 'pss', title: 'PSS of the tree after the series', unit: 'MiB', compare: 'ratio' },
      ...largeMebibytes.map((size): Measure => {
        return { key: `large${size}`, title: `${size} MiB result passes`, unit: '', compare: 'none' };
      }),
    ],
    variants: [
      variant('direct', () => commands.direct('instant')),
      variant('pipe relay', () => commands.relay()),
      variant('bridge', () => commands.bridge({ engine: 'playwright', upstream: 'instant', catalog: 'stored' })),
    ],
  };
}
