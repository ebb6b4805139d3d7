import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { WebSocket } from 'ws';

import type { Commands } from './commands.ts';
import { withPage } from './page.ts';
import type { Command } from './program.ts';
import type { Plan, Sample } from './section.ts';
import { type Server, withServer } from './server.ts';
import { summarize } from './statistics.ts';

const trips = 2000;
const largeBytes = 50_000_000;
const largeTimes = 3;
const callTimes = 100;

/** One CDP client on one connection. */
class CdpClient {
  readonly #socket: WebSocket;
  #waiting: ((text: Buffer) => void) | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => this.#waiting?.(data));
  }

  static async open(url: string): Promise<CdpClient> {
    const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: 2 * largeBytes });
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve).once('error', reject);
    });
    return new CdpClient(socket);
  }

  /** Sends a command and waits for the next message, which is its answer: nothing is subscribed to. */
  ask(method: string, params: unknown = {}): Promise<Buffer> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#socket.send(JSON.stringify({ id: 1, method, params }));
    });
  }

  close(): void {
    this.#socket.terminate();
  }
}

interface Addresses {
  /** Chromium's own. */
  readonly direct: string;
  /** The one that is told. */
  readonly told: string;
}

function withBrowser(
  commands: Commands,
  more: readonly string[],
  use: (addresses: Addresses, server: Server) => Promise<Sample>,
): Promise<Sample> {
  const profile = mkdtempSync(join(commands.folder, 'profile-'));
  const { args, env } = commands.bridge({ engine: 'cloak', upstream: 'real', catalog: 'stored' });
  const kept = args.filter((arg) => arg !== '--isolated');
  const command: Command = { args: [...kept, '--user-data-dir', profile, '--cdp', ...more], env };
  const measured = withServer(command, undefined, async (server) => {
    await server.open();
    await server.call('browser_tabs', { action: 'list' });
    const text = (await server.call('cloakbrowser_bridge_info')).text();
    const told = /"webSocketDebuggerUrl":"(ws:[^"]+)"/.exec(text)?.[1] ?? '';
    const [port = '', path = ''] = readFileSync(join(profile, 'DevToolsActivePort'), 'utf8').split('\n');
    return use({ direct: `ws://127.0.0.1:${port}${path}`, told }, server);
  });
  return measured.finally(() => {
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
}

async function pageOf(url: string): Promise<string> {
  const client = await CdpClient.open(url);
  const answer = JSON.parse((await client.ask('Target.getTargets')).toString('utf8')) as {
    result: { targetInfos: { type: string; targetId: string }[] };
  };
  client.close();
  const page = answer.result.targetInfos.find(({ type }) => type === 'page');
  return url.replace(/browser\/[^/]+$/, `page/${page?.targetId ?? ''}`);
}

async function measureLink(url: string): Promise<Sample> {
  const client = await CdpClient.open(url);
  const times: number[] = [];
  for (let count = 0; count < trips; count += 1) {
    const begin = performance.now();
    await client.ask('Browser.getVersion');
    times.push((performance.now() - begin) * 1000);
  }
  client.close();
  const page = await CdpClient.open(await pageOf(url));
  const expression = `'x'.repeat(${largeBytes})`;
  const large: number[] = [];
  for (let count = 0; count < largeTimes; count += 1) {
    const begin = performance.now();
    const { length } = await page.ask('Runtime.evaluate', { expression, returnByValue: true });
    if (length < largeBytes) throw new Error(`an answer of ${length} bytes`);
    large.push(performance.now() - begin);
  }
  page.close();
  return { trip: summarize(times.slice(trips / 2)).median, large: Math.min(...large) };
}

/** A CDP client at the address that the bridge tells, beside one at the browser's own port, on the same browser. */
export function planCdp(commands: Commands): Plan {
  return {
    name: 'cdp',
    title: 'CDP: round trip and a large answer',
    note: `Browser.getVersion one after the other, the second ${trips / 2} of ${trips}; a Runtime.evaluate of 50 MB, the best of ${largeTimes}. Chromium itself, on one connection.`,
    measures: [
      { key: 'trip', title: 'round trip', unit: 'us', compare: 'ratio' },
      { key: 'large', title: '50 MB down', unit: 'ms', compare: 'ratio' },
    ],
    variants: [
      { name: 'direct', run: () => withBrowser(commands, [], ({ direct }) => measureLink(direct)) },
      { name: 'gateway', run: () => withBrowser(commands, [], ({ told }) => measureLink(told)) },
      {
        name: 'gateway, guarded',
        run: () => withBrowser(commands, ['--cdp-policy', 'guarded'], ({ told }) => measureLink(told)),
      },
    ],
  };
}

function measureCalls(server: Server): Promise<Sample> {
  return withPage(async (url) => {
    const begin = performance.now();
    await server.call('browser_navigate', { url });
    const first = performance.now() - begin;
    const times: number[] = [];
    for (let count = 0; count < callTimes; count += 1) {
      const start = performance.now();
      await server.call('browser_tabs', { action: 'list' });
      times.push(performance.now() - start);
    }
    return { first, call: summarize(times).median };
  });
}

/** What managed CDP costs calls over MCP. */
export function planCdpCalls(commands: Commands): Plan {
  const plain = commands.bridge({ engine: 'cloak', upstream: 'real', catalog: 'stored' });
  const variant = (more: readonly string[]) => (): Promise<Sample> =>
    withServer({ args: [...plain.args, ...more], env: plain.env }, undefined, async (server) => {
      await server.open();
      await server.settle();
      return measureCalls(server);
    });
  return {
    name: 'cdp-calls',
    title: 'Calls over MCP without and with managed CDP',
    note: `The first browser call, once the child is idle, and the median of ${callTimes} lists of tabs.`,
    measures: [
      { key: 'first', title: 'first page', unit: 'ms', compare: 'ratio' },
      { key: 'call', title: 'browser call', unit: 'ms', compare: 'ratio' },
    ],
    variants: [
      { name: 'without', run: variant([]) },
      { name: 'with --cdp', run: variant(['--cdp']) },
    ],
  };
}
