import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { findTestBrowser } from './browser.ts';
import { type BrowserBridgeOptions, browserMs, callTool, startBrowserBridge, type ToolCaller } from './browser-bed.ts';
import { stateOf } from './browser-server.ts';
import type { JsonObject, LineClient } from './client.ts';
import type { Testbed } from './testbed.ts';
import { waitUntil, withDeadline } from './waiting.ts';

/** The real upstream behind a switch that neither it nor the bridge has. */
export class SwitchedUpstream {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly #file: string;

  constructor(testbed: Testbed) {
    const program = fileURLToPath(new URL('../fixtures/switched-upstream.mjs', import.meta.url));
    this.#file = join(testbed.folders.root, 'switch');
    this.args = ['--upstream-cli', program, '--child-env', 'SWITCHED_UPSTREAM_FILE'];
    this.env = { SWITCHED_UPSTREAM_FILE: this.#file };
    this.turn('');
  }

  /** `hang`, milliseconds of its idle timer, or empty for upstream as it is; counts from the next start. */
  turn(wish: string): void {
    writeFileSync(this.#file, wish);
  }
}

/** What `cloakbrowser_bridge_info` tells of managed CDP. */
export interface CdpInfo extends JsonObject {
  readonly state: string;
  readonly generation: number;
  readonly port: number | null;
  readonly discoveryUrl: string | null;
  readonly webSocketDebuggerUrl: string | null;
  readonly browserContextId: string | null;
  readonly activeConnections: number;
  readonly lastLoss: { readonly reason: string; readonly generation: number } | null;
  readonly lastError: { readonly code: string; readonly message: string } | null;
}

/** A published browser: what its session is told of it. */
export interface Published {
  readonly generation: number;
  readonly port: number;
  readonly discoveryUrl: string;
  readonly webSocketUrl: string;
  readonly capability: string;
  readonly browserContextId: string;
}

/** Starts a bridge over stdio with managed CDP, and says hello to it. */
export async function startCdpBridge(testbed: Testbed, options: BrowserBridgeOptions = {}): Promise<LineClient> {
  const client = startBrowserBridge(testbed, { ...options, args: ['--cdp', ...(options.args ?? [])] });
  await client.initialize();
  return client;
}

/** What the bridge tells of the CDP of a session. */
export async function cdpOf(client: ToolCaller): Promise<CdpInfo> {
  return (await stateOf(client))['cdp'] as CdpInfo;
}

/** The browser of a session, which must be published. */
export async function publishedOf(client: ToolCaller): Promise<Published> {
  const info = await cdpOf(client);
  const { generation, port, discoveryUrl, webSocketDebuggerUrl, browserContextId } = info;
  if (info.state !== 'ready' || discoveryUrl === null || webSocketDebuggerUrl === null || port === null)
    throw new Error(`No browser is published: ${JSON.stringify(info)}`);
  const capability = discoveryUrl.slice(discoveryUrl.lastIndexOf('/') + 1);
  const shared = { generation, port, discoveryUrl, capability, webSocketUrl: webSocketDebuggerUrl };
  return { ...shared, browserContextId: browserContextId ?? '' };
}

/** Starts the browser of a session by a call, if it has none; the calls of a session find it again. */
export async function startBrowser(client: ToolCaller, url: string): Promise<Published> {
  const result = await callTool(client, 'browser_navigate', { url });
  if (result['isError'] === true) throw new Error(JSON.stringify(result));
  return publishedOf(client);
}

/** How a socket was closed. */
export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/** A CDP client without any library. */
export class CdpClient {
  readonly closed: Promise<Closed>;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: JsonObject) => void>();
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      socket.once('close', (code, reason) => {
        resolve({ code, reason: reason.toString('utf8') });
      });
    });
    socket.on('error', () => undefined); // its end tells enough
    socket.on('message', (data: Buffer) => {
      const answer = JSON.parse(data.toString('utf8')) as JsonObject;
      this.#waiting.get(Number(answer['id']))?.(answer);
    });
  }

  static async open(url: string): Promise<CdpClient> {
    const socket = new WebSocket(url);
    const client = new CdpClient(socket);
    const opened = new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    });
    await withDeadline('an open socket', opened, browserMs);
    return client;
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Sends a command whose answer may never come. */
  send(method: string, params: JsonObject = {}, sessionId?: string): number {
    this.#count += 1;
    this.#socket.send(
      JSON.stringify({ id: this.#count, method, params, ...(sessionId === undefined ? {} : { sessionId }) }),
    );
    return this.#count;
  }

  /** Sends a command and gives its result; an error of the browser fails the test. */
  async request(method: string, params: JsonObject = {}, sessionId?: string): Promise<JsonObject> {
    const id = this.send(method, params, sessionId);
    const answered = new Promise<JsonObject>((resolve) => this.#waiting.set(id, resolve));
    const answer = await withDeadline(`the answer to ${method}`, answered, browserMs);
    if (answer['error'] !== undefined) throw new Error(`${method}: ${JSON.stringify(answer['error'])}`);
    return answer['result'] as JsonObject;
  }

  /** The browser's main process, as the browser tells it. */
  async browserPid(): Promise<number> {
    const { processInfo } = await this.request('SystemInfo.getProcessInfo');
    const main = (processInfo as { type: string; id: number }[]).find(({ type }) => type === 'browser');
    if (main === undefined) throw new Error(JSON.stringify(processInfo));
    return main.id;
  }

  /** How it is closed, which must come within this time. */
  end(ms = browserMs): Promise<Closed> {
    return withDeadline('the end of a socket', this.closed, ms);
  }

  /** Goes without a goodbye. */
  cut(): void {
    this.#socket.terminate();
  }
}

/** A client of the whole browser and one of its first page. */
export async function attach({ discoveryUrl, webSocketUrl }: Published): Promise<[CdpClient, CdpClient]> {
  const list = (await (await fetch(`${discoveryUrl}/json/list`)).json()) as Record<string, string>[];
  const page = list.find(({ type }) => type === 'page')?.['webSocketDebuggerUrl'];
  if (page === undefined) throw new Error(`No page in ${JSON.stringify(list)}`);
  return Promise.all([CdpClient.open(webSocketUrl), CdpClient.open(page)]);
}

/** What an address answers: status and error code, 0 where nobody listens. */
export async function knock(discoveryUrl: string): Promise<{ status: number; code: unknown }> {
  try {
    const answer = await fetch(`${discoveryUrl}/json/version`);
    const body = (await answer.json()) as { error?: { code: unknown } };
    return { status: answer.status, code: body.error?.code };
  } catch {
    return { status: 0, code: 'nobody listens' };
  }
}

/** The status with which the address of a socket refuses; 101 if it does not. */
export function knockSocket(url: string): Promise<number> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url);
    socket.on('error', () => {
      resolve(0);
    });
    socket.once('unexpected-response', (_request, response) => {
      resolve(response.statusCode ?? 0);
      socket.terminate();
    });
    socket.once('open', () => {
      resolve(101);
      socket.terminate();
    });
  });
}

/** Listens on a port of this host and stops again; rejects if somebody holds it. */
export async function bindOnce(port: number, host = '127.0.0.1'): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, exclusive: true }, resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
  return bound;
}

/** Waits for the loss of a generation; returns what the bridge tells then. */
export function waitForLoss(client: ToolCaller, generation: number): Promise<CdpInfo> {
  return waitUntil(
    `the loss of generation ${generation}`,
    async () => {
      const info = await cdpOf(client);
      return info.lastLoss?.generation === generation ? info : undefined;
    },
    browserMs,
  );
}

/** How a browser program behaves at its next start. */
export type BrowserMode =
  | { readonly kind: 'sound' | 'exits' | 'hangs' | 'silent' | 'removed' }
  /** Listens on this port instead of one that the system chooses. */
  | { readonly kind: 'port'; readonly port: number }
  /** Does not listen, and names somebody else in its port file. */
  | { readonly kind: 'names'; readonly port: number; readonly browserId: string };

/** A browser program in front of the browser of the tests that can be told to fail. */
export class MoodyBrowser {
  readonly path: string;
  readonly #folder: string;

  constructor(testbed: Testbed) {
    this.#folder = testbed.folders.root;
    this.path = join(this.#folder, 'browser');
    this.become({ kind: 'sound' });
  }

  /** Counts from the next start. */
  become(mode: BrowserMode): void {
    if (mode.kind === 'removed') {
      rmSync(this.path);
      return;
    }
    const port = mode.kind === 'port' ? mode.port : 0;
    const portFile = mode.kind === 'names' ? `${mode.port}\n/devtools/browser/${mode.browserId}` : '';
    writeFileSync(join(this.#folder, 'named'), portFile);
    writeFileSync(
      this.path,
      `#!/bin/sh
case ${mode.kind} in
  exits) echo 'no browser today' >&2; exit 1 ;;
  hangs) exec sleep 600 ;;
esac
for argument do
  shift
  case "$argument" in
    --user-data-dir=*) profile="\${argument#*=}" ;;
    --remote-debugging-port=*)
      case ${mode.kind} in silent|names) continue ;; port) argument=--remote-debugging-port=${port} ;; esac ;;
  esac
  set -- "$@" "$argument"
done
# Playwright would wait for this line.
case ${mode.kind} in silent|names|port) echo 'DevTools listening on ws://127.0.0.1:1/devtools/browser/x' >&2 ;; esac
if [ ${mode.kind} = names ]; then cp '${this.#folder}/named' "$profile/DevToolsActivePort"; fi
# Chromium writes the file only for a port that the system chose.
if [ ${mode.kind} = port ]; then
  mkfifo "$profile/errors"
  while read -r line; do
    case "$line" in *'DevTools listening on '*) printf '${port}\n/devtools/browser/%s' "\${line##*/}" > "$profile/DevToolsActivePort" ;; esac
  done < "$profile/errors" &
  exec 2> "$profile/errors"
fi
exec '${findTestBrowser().path}' "$@"
`,
    );
    chmodSync(this.path, 0o755);
  }
}
