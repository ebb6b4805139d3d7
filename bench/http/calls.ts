import { fineProcessorMs, treeOf } from '../process-tree.ts';
import type { Measure, Plan, Sample, Variant } from '../section.ts';
import { quantile } from '../statistics.ts';
import type { HttpSession } from './client.ts';
import type { HttpCommands } from './commands.ts';
import { type HttpCommand, type HttpServer, withHttpServer } from './server.ts';

/** Calls before the counted ones, for V8 to compile what is used. */
const warmCalls = 1600;
const countedCalls = 3200;

/** Sessions that call at the same time, each one call after another. */
const groups = [
  { key: 'eight', sessions: 8 },
  { key: 'many', sessions: 32 },
] as const;

/** Calls over all sessions, one of each at a time; returns how long each took, in milliseconds. */
async function callAll(sessions: readonly HttpSession[], count: number): Promise<number[]> {
  const latencies: number[] = [];
  let begun = 0;
  const lane = async (session: HttpSession): Promise<void> => {
    while (begun < count) {
      begun += 1;
      const begin = performance.now();
      await session.call('echo');
      latencies.push(performance.now() - begin);
    }
  };
  await Promise.all(sessions.map(lane));
  return latencies;
}

async function measureGroup(server: HttpServer, sessions: readonly HttpSession[], key: string): Promise<Sample> {
  const work = (count: number): Promise<number[]> => server.wait(callAll(sessions, count), `${count} calls`);
  await work(sessions.length); // The first call of a session starts its child.
  await work(warmCalls);
  const tree = treeOf(server.program.pid);
  const before = tree.map(fineProcessorMs);
  const begin = performance.now();
  const latencies = await work(countedCalls);
  const wallMs = performance.now() - begin;
  const used = tree.map((pid, index) => fineProcessorMs(pid) - (before[index] ?? 0));
  const perCall = (ms: number): number => (ms * 1000) / latencies.length;
  return {
    [`${key}Rate`]: (latencies.length * 1000) / wallMs,
    [`${key}Trip`]: quantile(latencies, 0.5),
    [`${key}Slow`]: quantile(latencies, 0.95),
    [`${key}Tree`]: perCall(used.reduce((sum, ms) => sum + ms, 0)),
    [`${key}Root`]: perCall(used[0] ?? Number.NaN),
  };
}

async function measureCalls(server: HttpServer): Promise<Sample> {
  const sessions: HttpSession[] = [];
  const figures: Record<string, number> = {};
  for (const group of groups) {
    sessions.push(...(await server.openAll(group.sessions - sessions.length)));
    Object.assign(figures, await measureGroup(server, sessions, group.key));
  }
  return figures;
}

function measuresOf({ key, sessions }: (typeof groups)[number]): Measure[] {
  return [
    {
      key: `${key}Tree`,
      title: `${sessions} sessions, processor time of the tree a call`,
      unit: 'us',
      compare: 'ratio',
    },
    { key: `${key}Root`, title: `${sessions} sessions, of the started process alone`, unit: 'us', compare: 'ratio' },
    { key: `${key}Rate`, title: `${sessions} sessions, calls a second`, unit: '1/s', compare: 'ratio' },
    { key: `${key}Trip`, title: `${sessions} sessions, round trip`, unit: 'ms', compare: 'ratio' },
    { key: `${key}Slow`, title: `${sessions} sessions, round trip, 95th percentile`, unit: 'ms', compare: 'ratio' },
  ];
}

/** Calls over many sessions of an instant upstream. */
export function planHttpCalls(commands: HttpCommands): Plan {
  const variant = (command: HttpCommand): Variant => ({
    name: command.name,
    run: () => withHttpServer(command, measureCalls),
  });
  return {
    name: 'http-calls',
    title: 'HTTP: calls over an instant upstream',
    note:
      `${countedCalls} calls after ${warmCalls} uncounted ones; each session makes one after another. Processor time ` +
      'without the client, which has the same two processors, so that the rate is not what the server could reach alone. ' +
      'Direct is one process with a bare node:http server: no child, no pipes, what HTTP itself costs.',
    measures: groups.flatMap(measuresOf),
    variants: [commands.direct('instant'), commands.bridge('instant'), ...commands.others('instant')].map(variant),
  };
}
