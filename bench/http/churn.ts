import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { treeOf } from '../process-tree.ts';
import type { Plan, Sample, Variant } from '../section.ts';
import type { HttpCommands } from './commands.ts';
import { type HttpCommand, HttpServer } from './server.ts';

/** Until then caches fill and V8 compiles. */
const warmSessions = 60;
const kibibyte = 1024;

interface State {
  readonly heapUsed: number;
  readonly rss: number;
  readonly resources: number;
  readonly processes: number;
  readonly files: number;
}

interface Churn {
  readonly command: HttpCommand;
  readonly name: string;
  readonly sessions: number;
  /** Whether each session calls a tool, for which the bridge must start a child. */
  readonly hasCall: boolean;
}

/** The command with the probe in its Node; children do not get it. */
function probed({ on, ...rest }: HttpCommand): HttpCommand {
  const probe = pathToFileURL(join(process.cwd(), 'bench', 'heap-probe.mjs')).href;
  return {
    ...rest,
    on: (port) => {
      const { args, env } = on(port);
      return { args: ['--expose-gc', '--import', probe, ...args], env };
    },
  };
}

async function stateOf(server: HttpServer, folders: readonly string[]): Promise<State> {
  await server.settle();
  server.disconnect();
  await server.program.settle();
  const memory = (await server.program.ask('memory')) as Pick<State, 'heapUsed' | 'rss' | 'resources'>;
  const files = [server.program.folder, ...folders].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }),
  );
  return { ...memory, processes: treeOf(server.program.pid).length, files: files.length };
}

async function openAndEnd(server: HttpServer, count: number, hasCall: boolean): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const session = await server.open();
    if (hasCall) await server.wait(session.call('echo'), 'a call');
    await server.endAll([session]);
  }
}

async function measureChurn({ command, sessions, hasCall }: Churn, folders: readonly string[]): Promise<Sample> {
  const server = await HttpServer.start(probed(command), true);
  try {
    await openAndEnd(server, warmSessions, hasCall);
    const before = await stateOf(server, folders);
    const begin = performance.now();
    await openAndEnd(server, sessions, hasCall);
    const wallMs = performance.now() - begin;
    const after = await stateOf(server, folders);
    return {
      heap: (after.heapUsed - before.heapUsed) / sessions / kibibyte,
      rss: (after.rss - before.rss) / sessions / kibibyte,
      processes: after.processes - before.processes,
      files: after.files - before.files,
      resources: after.resources - before.resources,
      time: wallMs / sessions,
    };
  } finally {
    await server.end();
  }
}

/** Many sessions one after another, and what they leave behind. */
export function planChurn(commands: HttpCommands): Plan {
  const churns: Churn[] = [
    { command: commands.direct('instant'), name: 'direct', sessions: 300, hasCall: true },
    { command: commands.bridge('instant'), name: 'bridge', sessions: 300, hasCall: true },
    { command: commands.bridge('instant'), name: 'bridge, no call', sessions: 300, hasCall: false },
    // A hundred of what starts two processes for each session show the same.
    ...commands.others('instant').map((command) => {
      return { command, name: command.name, sessions: command.name === 'supergateway' ? 100 : 300, hasCall: true };
    }),
  ];
  const shown = churns.map(({ name, sessions }) => `${name} ${sessions}`).join(', ');
  return {
    name: 'http-churn',
    title: 'HTTP: sessions opened and ended one after another, over an instant upstream',
    note:
      `${shown}, after ${warmSessions} uncounted ones; with one call each, for which the bridge starts a child, if not said ` +
      'otherwise. Heap after garbage was collected, in the started process. Files are all in its temporary and cache ' +
      'folders.',
    measures: [
      { key: 'heap', title: 'growth of the heap a session', unit: 'KiB', compare: 'none' },
      { key: 'rss', title: 'growth of the RSS a session', unit: 'KiB', compare: 'none' },
      { key: 'processes', title: 'processes left', unit: '', compare: 'none' },
      { key: 'files', title: 'files and folders left', unit: '', compare: 'none' },
      { key: 'resources', title: 'sockets, timers and the like left', unit: '', compare: 'none' },
      { key: 'time', title: 'a session', unit: 'ms', compare: 'none' },
    ],
    variants: churns.map((churn): Variant => {
      return { name: churn.name, run: () => measureChurn(churn, commands.folders) };
    }),
  };
}
