import { withPage } from '../page.ts';
import { treeMemory, treeOf } from '../process-tree.ts';
import type { Measure, Plan, Sample, Variant } from '../section.ts';
import type { HttpSession } from './client.ts';
import type { HttpCommands } from './commands.ts';
import { type HttpCommand, type HttpServer, withHttpServer } from './server.ts';

/** Sessions opened and ended before, so that what the first ones load and V8 compiles is no session's own. */
const warmSessions = 20;
const atOnce = 10;
const browserSessions = 3;

interface State {
  readonly memory: number;
  readonly processes: number;
}

async function stateOf(server: HttpServer): Promise<State> {
  await server.settle();
  const { pid } = server.program;
  return { memory: treeMemory(pid).proportional, processes: treeOf(pid).length };
}

async function openMany(server: HttpServer, count: number): Promise<HttpSession[]> {
  const sessions: HttpSession[] = [];
  while (sessions.length < count) sessions.push(...(await server.openAll(Math.min(atOnce, count - sessions.length))));
  return sessions;
}

async function endAll(server: HttpServer, sessions: readonly HttpSession[]): Promise<void> {
  for (let index = 0; index < sessions.length; index += atOnce)
    await server.endAll(sessions.slice(index, index + atOnce));
}

function added(key: string, before: State, after: State, count: number): Sample {
  return {
    [`${key}Memory`]: (after.memory - before.memory) / count,
    [`${key}Processes`]: (after.processes - before.processes) / count,
  };
}

async function measureMemory(server: HttpServer, count: number): Promise<Sample> {
  await endAll(server, await openMany(server, Math.min(warmSessions, count)));
  const empty = await stateOf(server);
  const idle = await openMany(server, count);
  const opened = await stateOf(server);
  for (const session of idle) await server.wait(session.listen(), 'a stream');
  const listening = await stateOf(server);
  await endAll(server, idle);
  const before = await stateOf(server);
  const busy = await openMany(server, browserSessions);
  const after = await withPage(async (url) => {
    for (const session of busy) await server.wait(session.call('browser_navigate', { url }), 'a page');
    return stateOf(server);
  });
  return {
    emptyMemory: empty.memory,
    emptyProcesses: empty.processes,
    ...added('idle', empty, opened, count),
    ...added('stream', empty, listening, count),
    ...added('browser', before, after, browserSessions),
  };
}

function measuresOf(key: string, title: string): Measure[] {
  return [
    { key: `${key}Memory`, title: `PSS of the tree, ${title}`, unit: 'MiB', compare: 'added' },
    { key: `${key}Processes`, title: `processes, ${title}`, unit: '', compare: 'none' },
  ];
}

/** Memory of sessions over the real upstream. */
export function planHttpMemory(commands: HttpCommands): Plan {
  const counted = (command: HttpCommand, count: number): Variant => ({
    name: `${command.name} (${count} idle)`,
    run: () => withHttpServer(command, (server) => measureMemory(server, count)),
  });
  // Four are enough of what has processes for each, and a hundred of what has 2 MiB.
  const others = commands.others('real').map((command) => counted(command, command.name === 'supergateway' ? 4 : 100));
  return {
    name: 'http-memory',
    title: 'HTTP: memory of sessions over the real upstream',
    note:
      'PSS before and after, by the number of sessions, whenever nothing is busy; garbage that was not collected counts. ' +
      'Idle sessions have initialized and listed the tools, and then opened the stream for what the server says. The ' +
      'bridge has one spare child before and after. Direct has one browser for all sessions and mcp-proxy one child with ' +
      'one browser, without any isolation; the others have one for each session.',
    measures: [
      ...measuresOf('empty', 'no session'),
      ...measuresOf('idle', 'an idle session adds'),
      ...measuresOf('stream', 'an idle session with its stream adds'),
      ...measuresOf('browser', 'a session with a page adds'),
    ],
    variants: [counted(commands.direct('real'), 100), counted(commands.bridge('real'), 300), ...others],
  };
}
