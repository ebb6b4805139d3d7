import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Commands } from './commands.ts';
import { treeOf } from './process-tree.ts';
import type { Plan, Sample, Variant } from './section.ts';
import { type Command, type Server, withServer } from './server.ts';

const page = '<!doctype html><title>Benchmark</title><h1>Benchmark</h1><p>A page with a <a href="/">link</a>.</p>';

/** Serves one small page on loopback while `use` runs. */
async function withPage<T>(use: (url: string) => Promise<T>): Promise<T> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end(page);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

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
