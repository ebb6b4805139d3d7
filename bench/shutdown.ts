import type { Commands } from './commands.ts';
import { withPage } from './page.ts';
import { treeOf } from './process-tree.ts';
import type { Command } from './program.ts';
import type { Plan, Sample, Variant } from './section.ts';
import { type Server, withServer } from './server.ts';

async function measureEnd(server: Server): Promise<Sample> {
  const processes = treeOf(server.pid).length;
  const { durationMs, killed } = await server.end();
  return { end: durationMs, processes, killed };
}

async function endIdle(server: Server): Promise<Sample> {
  await server.open();
  await server.settle();
  return measureEnd(server);
}

async function endWithBrowser(server: Server): Promise<Sample> {
  await server.open();
  await withPage((url) => server.call('browser_navigate', { url }));
  await server.settle();
  return measureEnd(server);
}

function planEnd(name: string, title: string, variants: readonly Variant[]): Plan {
  return {
    name,
    title,
    note: 'From the end of stdin until no process of the tree is left and all threads are gone. Begun once nothing is busy.',
    measures: [
      { key: 'end', title: 'nothing left after', unit: 'ms', compare: 'ratio' },
      { key: 'processes', title: 'processes before', unit: '', compare: 'none' },
      { key: 'killed', title: 'processes that had to be killed', unit: '', compare: 'none' },
    ],
    variants,
  };
}

/** The end of the real upstream, alone and behind the bridge, without and with a browser. */
export function planShutdown(commands: Commands): readonly Plan[] {
  const bridge = (): Command => commands.bridge({ engine: 'cloak', upstream: 'real', catalog: 'stored' });
  const variant = (name: string, command: () => Command, use: (server: Server) => Promise<Sample>): Variant => ({
    name,
    run: () => withServer(command(), undefined, use),
  });
  return [
    planEnd('end-idle', 'End of stdin, no browser open', [
      variant('direct', () => commands.directWithBrowser(), endIdle),
      variant('bridge', bridge, endIdle),
    ]),
    planEnd('end-browser', 'End of stdin, a page open in the browser', [
      variant('direct', () => commands.directWithBrowser(), endWithBrowser),
      variant('bridge', bridge, endWithBrowser),
    ]),
  ];
}
