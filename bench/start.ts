import { setTimeout as sleep } from 'node:timers/promises';

import type { Commands } from './commands.ts';
import { nodeProcessCount, treeMemory, treeProcessorMs } from './process-tree.ts';
import type { Command } from './program.ts';
import type { Measure, Plan, Sample, Variant } from './section.ts';
import { type Server, withServer } from './server.ts';

/** By then the child that boots behind an early answer is up, too, on a quiet machine. */
const afterMs = 3000;
/** Memory right after an answer depends on whether garbage was just collected; after this time less so. */
const restMs = 1000;
/** Idle Node processes beside what is measured. */
const crowdSize = 8;

const memoryMeasures = (when: string): Measure[] => [
  { key: 'peak', title: `peak RSS of the tree, ${when}`, unit: 'MiB', compare: 'added' },
  { key: 'pss', title: `PSS of the tree, ${when}`, unit: 'MiB', compare: 'added' },
  { key: 'private', title: `private memory of the tree, ${when}`, unit: 'MiB', compare: 'added' },
  { key: 'nodes', title: 'processes of the same Node program on the machine then', unit: '', compare: 'none' },
];

function memorySample(pid: number): Sample {
  const { peakResident, proportional, private: own } = treeMemory(pid);
  return { peak: peakResident, pss: proportional, private: own, nodes: nodeProcessCount() };
}

async function measureStart(server: Server): Promise<Sample> {
  const { initializeMs, listMs } = await server.open();
  const cpu = treeProcessorMs(server.pid);
  await sleep(afterMs);
  return {
    initialize: initializeMs,
    list: listMs,
    cpu,
    cpuLater: treeProcessorMs(server.pid),
    ...memorySample(server.pid),
  };
}

/** The start of the real upstream, alone and behind the bridge. */
export function planStart(commands: Commands): Plan {
  const companion = commands.direct('instant');
  const variant = (name: string, command: () => Command, isDirect = false): Variant => ({
    name,
    run: () => withServer(command(), isDirect ? companion : undefined, measureStart),
  });
  return {
    name: 'start',
    title: 'Start over the real upstream',
    note:
      'Time from starting the process. The bridge runs one Node process more than direct, so an idle one runs beside ' +
      'direct; PSS and private memory are then alike in what they share.',
    measures: [
      { key: 'initialize', title: 'initialize answered', unit: 'ms', compare: 'ratio' },
      { key: 'list', title: 'tools/list answered', unit: 'ms', compare: 'ratio' },
      { key: 'cpu', title: 'processor time of the tree until then', unit: 'ms', compare: 'ratio' },
      { key: 'cpuLater', title: 'processor time of the tree 3 s later', unit: 'ms', compare: 'ratio' },
      ...memoryMeasures('3 s later'),
    ],
    variants: [
      variant('direct', () => commands.direct('real'), true),
      ...(['cloak', 'playwright'] as const).flatMap((engine) =>
        (['stored', 'none'] as const).map((catalog) =>
          variant(`${engine}, catalog ${catalog}`, () => commands.bridge({ engine, upstream: 'real', catalog })),
        ),
      ),
    ],
  };
}

async function measureOwnStart(server: Server): Promise<Sample> {
  const { listMs } = await server.open();
  await server.call('echo');
  const callMs = performance.now() - server.startedAt;
  const cpu = treeProcessorMs(server.pid);
  const early = memorySample(server.pid);
  await sleep(restMs);
  const { pss, private: own } = memorySample(server.pid);
  const later = { cpuLater: treeProcessorMs(server.pid), pssLater: pss ?? 0, privateLater: own ?? 0 };
  return { list: listMs, call: callMs, cpu, ...early, ...later };
}

async function measureBareNode(server: Server): Promise<Sample> {
  await server.settle();
  const { pss, private: own, nodes } = memorySample(server.pid);
  const memory = { pss: pss ?? 0, private: own ?? 0, nodes: nodes ?? 0, pssLater: pss ?? 0, privateLater: own ?? 0 };
  const cpu = treeProcessorMs(server.pid);
  return { cpu, cpuLater: cpu, ...memory };
}

/** What the bridge itself adds to a start, over an upstream that costs next to nothing. */
export function planOwnStart(commands: Commands): Plan {
  const companion = commands.direct('instant');
  const bridge = (engine: 'cloak' | 'playwright'): Variant => ({
    name: `bridge, ${engine}`,
    run: () =>
      withServer(commands.bridge({ engine, upstream: 'instant', catalog: 'stored' }), undefined, measureOwnStart),
  });
  return {
    name: 'own-start',
    title: "The bridge's own start, over an instant upstream",
    note:
      'Until tools/list and one call are answered; the catalog is stored. What is added is the tree minus direct of the ' +
      "same round. Node's program has some 36 MiB that all its processes share, and PSS spreads them over however many " +
      `there are; so ${crowdSize} idle ones run all the time, as on a machine with several servers, and one more beside direct and the ` +
      'bare Node, for the one that the bridge adds. Private memory does not depend on others. `pipe relay` is the least ' +
      'program that starts upstream and passes bytes on.',
    measures: [
      { key: 'list', title: 'tools/list answered', unit: 'ms', compare: 'added' },
      { key: 'call', title: 'first call answered', unit: 'ms', compare: 'added' },
      { key: 'cpu', title: 'processor time of the tree until then', unit: 'ms', compare: 'added' },
      { key: 'cpuLater', title: 'processor time of the tree 1 s later', unit: 'ms', compare: 'added' },
      ...memoryMeasures('at the first answer'),
      { key: 'pssLater', title: 'PSS of the tree, 1 s later', unit: 'MiB', compare: 'added' },
      { key: 'privateLater', title: 'private memory of the tree, 1 s later', unit: 'MiB', compare: 'added' },
    ],
    variants: [
      { name: 'direct', run: () => withServer(commands.direct('instant'), companion, measureOwnStart) },
      bridge('playwright'),
      bridge('cloak'),
      { name: 'pipe relay', run: () => withServer(commands.relay(), undefined, measureOwnStart) },
      { name: 'bare node', run: () => withServer(commands.bareNode(), companion, measureBareNode) },
    ],
    idle: Array.from({ length: crowdSize }, () => companion),
  };
}
