import { treeProcessorMs } from '../process-tree.ts';
import type { Measure, Plan, Sample, Variant } from '../section.ts';
import { quantile } from '../statistics.ts';
import type { HttpSession } from './client.ts';
import type { HttpCommands } from './commands.ts';
import { type HttpCommand, type HttpServer, withHttpServer } from './server.ts';

/** How many sessions are opened at once, and how often. */
interface Group {
  readonly key: string;
  readonly atOnce: number;
  readonly often: number;
}

/** Where a session is only an entry in a table, many are opened, the first ones uncounted. */
const cheap: readonly Group[] = [
  { key: 'warm', atOnce: 4, often: 5 },
  { key: 'one', atOnce: 1, often: 20 },
  { key: 'eight', atOnce: 8, often: 5 },
  { key: 'many', atOnce: 32, often: 3 },
];

/** Where a session is a process, a group of 32 takes a quarter of a minute on two processors. */
const dear: readonly Group[] = [
  { key: 'warm', atOnce: 1, often: 1 },
  { key: 'one', atOnce: 1, often: 3 },
  { key: 'eight', atOnce: 8, often: 1 },
  { key: 'many', atOnce: 32, often: 1 },
];

interface Times {
  /** Of each session until it was open, in milliseconds. */
  readonly each: readonly number[];
  /** Until all of them were. */
  readonly all: number;
  /** Processor time of the tree, in milliseconds. */
  readonly cpu: number;
}

async function openGroup(server: HttpServer, atOnce: number): Promise<Times> {
  const before = treeProcessorMs(server.program.pid);
  const begin = performance.now();
  const each: number[] = [];
  const one = async (): Promise<HttpSession> => {
    const session = await server.open();
    each.push(performance.now() - begin);
    return session;
  };
  const sessions = await Promise.all(Array.from({ length: atOnce }, one));
  const all = performance.now() - begin;
  // Now, as the time of an ended process is lost when nobody of the tree waits for it.
  const cpu = treeProcessorMs(server.program.pid) - before;
  await server.endAll(sessions);
  return { each, all, cpu };
}

async function measureOpening(server: HttpServer, groups: readonly Group[]): Promise<Sample> {
  const figures: Record<string, number> = {};
  let cpu = 0;
  for (const { key, atOnce, often } of groups) {
    const times: Times[] = [];
    for (let index = 0; index < often; index += 1) times.push(await openGroup(server, atOnce));
    const each = times.flatMap((time) => time.each);
    figures[`${key}Each`] = quantile(each, 0.5);
    figures[`${key}All`] = quantile(
      times.map((time) => time.all),
      0.5,
    );
    cpu += times.reduce((sum, time) => sum + time.cpu, 0);
    await server.settle();
  }
  const sessions = groups.reduce((sum, { atOnce, often }) => sum + atOnce * often, 0);
  return { ...figures, cpu: cpu / sessions };
}

const measures: readonly Measure[] = [
  { key: 'oneEach', title: 'one at a time', unit: 'ms', compare: 'ratio' },
  { key: 'eightEach', title: '8 at once, each', unit: 'ms', compare: 'ratio' },
  { key: 'eightAll', title: '8 at once, all of them', unit: 'ms', compare: 'ratio' },
  { key: 'manyEach', title: '32 at once, each', unit: 'ms', compare: 'ratio' },
  { key: 'manyAll', title: '32 at once, all of them', unit: 'ms', compare: 'ratio' },
  { key: 'cpu', title: 'processor time of the tree a session', unit: 'ms', compare: 'ratio' },
];

/** Opening sessions over the real upstream. */
export function planOpening(commands: HttpCommands): Plan {
  const variant = (command: HttpCommand): Variant => {
    const isDear = command.name === 'supergateway';
    return {
      name: command.name,
      run: () => withHttpServer(command, (server) => measureOpening(server, isDear ? dear : cheap)),
      // Two rounds tell enough of what takes half a minute.
      ...(isDear ? { rounds: 2 } : {}),
    };
  };
  return {
    name: 'http-open',
    title: 'HTTP: opening sessions over the real upstream',
    note:
      'Until initialize, the notification and tools/list are answered; the server has nothing else to do when it begins. ' +
      'Direct is the HTTP server of `@playwright/mcp`, which has all sessions in one process. No session calls a tool, so ' +
      'the bridge starts no child; supergateway starts one for each, mcp-proxy has one for all. `each` is the median of ' +
      'the sessions, `all` the time until the last one is open.',
    measures,
    variants: [commands.direct('real'), commands.bridge('real'), ...commands.others('real')].map(variant),
  };
}
