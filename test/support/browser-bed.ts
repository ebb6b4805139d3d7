import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { findTestBrowser } from './browser.ts';
import type { JsonObject, LineClient, Message } from './client.ts';
import { descendantsOf, listProcesses, type ProcessEntry } from './processes.ts';
import { bridgeProgram, type Testbed } from './testbed.ts';
import { waitUntil } from './waiting.ts';

/** A browser start on a busy machine of two cores; far above what is usual, so that only a hang reaches it. */
export const browserMs = 60_000;

/** How a bridge with a real browser is started. */
export interface BrowserBridgeOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where the tool list is kept; all bridges of a test file share it unless it is told. */
  readonly cacheDir?: string;
  /** Leaves the profile to upstream's default instead of keeping it in memory. */
  readonly isPersistent?: boolean;
}

let sharedCache: string | undefined;

/** A start without a stored tool list takes a second more; the first bridge of a test file shows that this works too. */
function sharedCacheDir(): string {
  sharedCache ??= mkdtempSync(join(tmpdir(), 'cbm-catalog-'));
  return sharedCache;
}

// For each test file that imports this: a worker of the test runner is ended without its exit handlers.
afterAll(() => {
  if (sharedCache !== undefined) rmSync(sharedCache, { recursive: true, force: true });
});

/** Starts the bridge in front of the packaged upstream and the browser of the tests. */
export function startBrowserBridge(testbed: Testbed, options: BrowserBridgeOptions = {}): LineClient {
  return testbed.startProgram({
    program: bridgeProgram,
    args: [
      ...['--cache-dir', options.cacheDir ?? sharedCacheDir()],
      ...(options.isPersistent === true ? [] : ['--isolated']),
      ...(options.args ?? []),
    ],
    env: { CLOAKBROWSER_BINARY_PATH: findTestBrowser().path, ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
}

/** A client that calls tools, over whatever transport. */
export interface ToolCaller {
  call(name: string, args?: JsonObject, options?: { readonly ms?: number }): Promise<Message>;
}

/** Calls a tool and gives its result; a JSON-RPC error fails the test. */
export async function callTool(client: ToolCaller, name: string, args: JsonObject = {}): Promise<JsonObject> {
  const answer: Message = await client.call(name, args, { ms: browserMs });
  if (answer.result === undefined) throw new Error(`${name} was answered with ${JSON.stringify(answer.error)}`);
  return answer.result;
}

/** All text of a tool's result; one that is an error fails the test. */
export async function callText(client: ToolCaller, name: string, args: JsonObject = {}): Promise<string> {
  const result = await callTool(client, name, args);
  if (result['isError'] === true) throw new Error(`${name} failed: ${resultText(result)}`);
  return resultText(result);
}

/** The names of the listed tools, in order. */
export async function toolNames(client: LineClient): Promise<string[]> {
  const { result } = await client.request('tools/list', {}, { ms: browserMs });
  const tools = Array.isArray(result?.['tools']) ? (result['tools'] as JsonObject[]) : [];
  return tools.map((tool) => String(tool['name']));
}

/** The text parts of a result. */
export function resultText(result: JsonObject): string {
  const content = Array.isArray(result['content']) ? (result['content'] as JsonObject[]) : [];
  return content.map((part) => (typeof part['text'] === 'string' ? part['text'] : '')).join('\n');
}

/** The upstream program below a bridge. */
export function childOf(client: LineClient): ProcessEntry | undefined {
  return listProcesses().find(
    ({ parent, command }) =>
      parent === client.pid && command.includes('@playwright/mcp') && command.includes('--config'),
  );
}

/** The browser's main process below a bridge: the one with a pipe for Playwright. */
export function browserOf(client: LineClient): ProcessEntry | undefined {
  return descendantsOf(client.pid).find(
    ({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='),
  );
}

/** Waits for what `find` looks for. */
export function mustFind(what: string, find: () => ProcessEntry | undefined): Promise<ProcessEntry> {
  return waitUntil(what, find, browserMs);
}

/** The arguments of a process, its program first. */
export function argumentsOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
}

/** The environment that a process was started with. */
export function environmentOf(pid: number): Record<string, string> {
  const entries = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').slice(0, -1);
  return Object.fromEntries(
    entries.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
  );
}

/** The folders of sessions below a test's temporary folder. */
export function sessionFolders(testbed: Testbed): string[] {
  return readdirSync(testbed.folders.tmp)
    .filter((name) => name.startsWith('cbmcp-'))
    .map((name) => join(testbed.folders.tmp, name));
}
