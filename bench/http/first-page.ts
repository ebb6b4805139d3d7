import { withPage } from '../page.ts';
import type { Plan, Sample, Variant } from '../section.ts';
import { quantile } from '../statistics.ts';
import type { HttpCommands } from './commands.ts';
import { type HttpCommand, type HttpServer, type Spares, withHttpServer } from './server.ts';

/** New sessions that each server gets, one after another; each is over and the server at rest before the next. */
const often = 3;

interface Way {
  readonly name: string;
  readonly command: HttpCommand;
  /** Whether another session has a page all the time, so that a browser that sessions share runs already. */
  readonly isShared: boolean;
  readonly rounds?: number;
}

interface Times {
  readonly openMs: number;
  readonly pageMs: number;
}

async function firstPage(server: HttpServer, url: string): Promise<Times> {
  const begin = performance.now();
  const session = await server.open();
  const openMs = performance.now() - begin;
  const snapshot = await server.wait(session.call('browser_navigate', { url }), 'the page');
  const pageMs = performance.now() - begin;
  if (!snapshot.includes('Benchmark')) throw new Error(`not the page: ${snapshot.slice(0, 500)}`);
  await server.endAll([session]);
  await server.settle();
  return { openMs, pageMs };
}

async function measurePages(server: HttpServer, url: string, isShared: boolean): Promise<Sample> {
  if (isShared) {
    const other = await server.open();
    await server.wait(other.call('browser_navigate', { url }), 'the page');
    await server.settle();
  }
  const times: Times[] = [];
  for (let index = 0; index < often; index += 1) times.push(await firstPage(server, url));
  const median = (key: keyof Times): number =>
    quantile(
      times.map((time) => time[key]),
      0.5,
    );
  return { open: median('openMs'), page: median('pageMs') };
}

/** A new session until its first page is there. */
export function planFirstPage(commands: HttpCommands): Plan {
  const bridge = (name: string, spares: Spares): Way => {
    return { name, command: commands.bridge('real', name, spares), isShared: false };
  };
  const ways: Way[] = [
    { name: 'direct, browser runs', command: commands.direct('real'), isShared: true },
    { name: 'direct, no browser yet', command: commands.direct('real'), isShared: false },
    bridge('bridge, spare child', { children: 1, browsers: 0 }),
    bridge('bridge, spare browser', { children: 0, browsers: 1 }),
    bridge('bridge, neither', { children: 0, browsers: 0 }),
    ...commands.others('real').map((command): Way => {
      return { name: command.name, command, isShared: command.name === 'mcp-proxy', rounds: 1 };
    }),
  ];
  return {
    name: 'http-page',
    title: 'HTTP: a new session until its first page is there',
    note:
      `From initialize to the answer of browser_navigate; medians of ${often} sessions of one server, which has nothing ` +
      'else to do when one begins. `direct, browser runs` adds a context to the browser of another session, as mcp-proxy ' +
      'goes on in the same tab; everybody else starts a browser.',
    measures: [
      { key: 'open', title: 'session open', unit: 'ms', compare: 'ratio' },
      { key: 'page', title: 'first page', unit: 'ms', compare: 'ratio' },
    ],
    variants: ways.map((way): Variant => {
      const { name, command, isShared, rounds } = way;
      return {
        name,
        run: () => withPage((url) => withHttpServer(command, (server) => measurePages(server, url, isShared))),
        ...(rounds === undefined ? {} : { rounds }),
      };
    }),
  };
}
