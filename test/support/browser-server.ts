import { readdirSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { expect } from 'vitest';
import {
  browserMs,
  callText,
  callTool,
  mustFind,
  sessionFolders,
  startBrowserBridge,
  toolNames,
  type ToolCaller,
} from './browser-bed.ts';
import type { JsonObject } from './client.ts';
import type { Sent } from './http-exchange.ts';
import { HttpServer, serverArgs, type ServerSettings } from './http-server.ts';
import { descendantsOf, waitForNoProcess, type ProcessEntry } from './processes.ts';
import type { Testbed } from './testbed.ts';
import { waitUntil, withDeadline } from './waiting.ts';

/** How a server with a real browser is started. */
export interface BrowserServerOptions {
  readonly settings?: ServerSettings;
  /** Flags beside the settings. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Has the tool list stored, so that servers of this test file start no child for it, and every child is a session's. */
export async function learnToolList(testbed: Testbed): Promise<void> {
  const bridge = startBrowserBridge(testbed, { isPersistent: true });
  await bridge.initialize();
  await toolNames(bridge);
  await bridge.close();
}

/** A server in front of the packaged upstream and the browser of the tests; it keeps no spare unless the settings say so. */
export function startBrowserServer(testbed: Testbed, options: BrowserServerOptions = {}): Promise<HttpServer> {
  const { settings, args = [], env = {} } = options;
  return HttpServer.of(
    startBrowserBridge(testbed, { isPersistent: true, args: [...serverArgs(settings), ...args], env }),
  );
}

/** What the bridge tells of the session and of itself. */
export async function stateOf(client: ToolCaller): Promise<JsonObject> {
  return (await callTool(client, 'cloakbrowser_bridge_info'))['structuredContent'] as JsonObject;
}

/** The number and the child of a session's generation; the child is 0 before there is one. */
export async function generationOf(client: ToolCaller): Promise<{ number: number; state: string; pid: number }> {
  const { number, state, pid } = (await stateOf(client))['generation'] as JsonObject;
  return { number: Number(number), state: String(state), pid: Number(pid ?? 0) };
}

/** The folder that a session's files lie in. */
export async function workingFolderOf(client: ToolCaller): Promise<string> {
  return realpathSync(String(((await stateOf(client))['session'] as JsonObject)['workingFolder']));
}

/** Kills a session's child and waits until the bridge knows it. */
export async function killChild(client: ToolCaller): Promise<void> {
  const { pid, number } = await generationOf(client);
  process.kill(pid, 'SIGKILL');
  await waitUntil('the loss', async () => {
    const lost = (await stateOf(client))['lastLoss'] as JsonObject | null;
    return lost?.['generation'] === number || undefined;
  });
}

/** Waits until upstream knows that its browser is gone; for some milliseconds it still answers from that one. */
export function waitForTabs(client: ToolCaller): Promise<true> {
  return waitUntil(
    'upstream to notice',
    async () => (await callTool(client, 'browser_tabs', { action: 'list' }))['isError'] !== true || undefined,
    browserMs,
  );
}

/** The browsers' main processes below this one. */
export function browsersBelow(pid: number): ProcessEntry[] {
  return descendantsOf(pid).filter(
    ({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='),
  );
}

/** The browser of this child. */
export function browserBelow(child: number): Promise<ProcessEntry> {
  return mustFind(`the browser of ${child}`, () => browsersBelow(child)[0]);
}

/** The upstream programs of a server, spare ones included. */
export function childrenOf(server: HttpServer): number[] {
  return descendantsOf(server.program.pid)
    .filter(({ parent, command }) => parent === server.program.pid && command.includes('--config'))
    .map(({ pid }) => pid);
}

/** Evaluates a function in the page and gives what it returned, read from the result's text. */
export async function evaluate(client: ToolCaller, code: string): Promise<unknown> {
  const text = await callText(client, 'browser_evaluate', { function: code });
  const result = /^### Result\n(?<json>.*?)\n### Ran /s.exec(text)?.groups?.['json'];
  if (result === undefined) throw new Error(`No result in ${text}`);
  return JSON.parse(result) as unknown;
}

/** Opens the page of a file input and gives it this file; the result tells whether that was allowed. */
export async function upload(client: ToolCaller, page: string, path: string): Promise<JsonObject> {
  await callText(client, 'browser_navigate', { url: page });
  await callText(client, 'browser_click', { element: 'file', target: '#file' });
  return callTool(client, 'browser_file_upload', { paths: [path] });
}

/** The folders that a server has made so far. */
export function foldersOf(testbed: Testbed, server: HttpServer): string[] {
  return sessionFolders(testbed).filter((folder) => basename(folder).startsWith(`cbmcp-${server.program.pid}-`));
}

/** Expects that the sessions of a server that still runs have left neither a process nor a folder. */
export async function expectNoSession(testbed: Testbed, server: HttpServer, headers?: Sent['headers']): Promise<void> {
  expect((await server.status(headers)).sessions).toEqual([]);
  await waitUntil('no process below the server', () => descendantsOf(server.program.pid).length === 0 || undefined);
  // The server keeps one folder of its own, in which it started the child that listed the tools.
  expect(foldersOf(testbed, server).map((folder) => readdirSync(folder))).toEqual([['owner.json']]);
}

/** Ends a server in order; expects that nothing of it is left. */
export async function stopBrowserServer(testbed: Testbed, server: HttpServer): Promise<void> {
  server.program.kill('SIGTERM');
  const exit = await withDeadline('the end of the server', server.program.exited, browserMs);
  expect(exit).toEqual({ code: 0, signal: null });
  await waitForNoProcess(`/cbmcp-${server.program.pid}-`, browserMs);
  expect(foldersOf(testbed, server)).toEqual([]);
}
