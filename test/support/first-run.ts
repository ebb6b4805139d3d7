import { join } from 'node:path';
import { expect } from 'vitest';
import type { LineClient } from './client.ts';
import { listEntries } from './folders.ts';
import { type BridgeOptions, type Testbed, textOf } from './testbed.ts';

/** How the bridge of somebody who has never run it is started. */
export interface FirstRunOptions extends BridgeOptions {
  /** Where the browser is downloaded from. */
  readonly url: string;
  /** Another program than the built one. */
  readonly program?: string;
}

/** Where the browsers of a test are installed. */
export function browsersOf(testbed: Testbed): string {
  return join(testbed.folders.root, 'browsers');
}

/** Starts the bridge with nothing stored and no browser installed, in front of the fake upstream. */
export function startFirstRun(testbed: Testbed, { url, program, cwd, ...options }: FirstRunOptions): LineClient {
  const command = testbed.command({
    engine: 'cloak',
    ...options,
    env: { CLOAKBROWSER_CACHE_DIR: browsersOf(testbed), CLOAKBROWSER_DOWNLOAD_URL: url, ...options.env },
  });
  return testbed.startProgram({
    ...command,
    ...(program === undefined ? {} : { program }),
    ...(cwd === undefined ? {} : { cwd }),
  });
}

/** Every first run must get this far, whatever is wrong: initialize and the whole tool list. */
export async function greet(client: LineClient): Promise<void> {
  expect((await client.initialize()).result?.['serverInfo']).toMatchObject({ name: 'cloakbrowser-mcp' });
  const tools = JSON.stringify((await client.request('tools/list')).result);
  for (const name of ['echo', 'cloakbrowser_binary_info']) expect(tools).toContain(`"${name}"`);
}

/** The text of a call that must fail, on a server that goes on afterwards. */
export async function failedCall(client: LineClient): Promise<string> {
  const answer = await client.call('echo', {}, { ms: 20_000 });
  expect(answer.result?.['isError']).toBe(true);
  expect((await client.request('ping')).result).toEqual({});
  return textOf(answer);
}

/** A call that reaches the fake upstream. */
export async function goodCall(client: LineClient): Promise<void> {
  expect(textOf(await client.call('echo', { n: 'arrived' }, { ms: 20_000 }))).toContain('"arrived"');
}

/** Ends the bridge, which must have kept its standard output clean. */
export async function endCleanly(client: LineClient): Promise<void> {
  expect(await client.close()).toEqual({ code: 0, signal: null });
  expect(client.strayLines).toEqual([]);
  expect(client.stderr).not.toMatch(/program failed|not closed cleanly|\n {4}at /);
}

/** What a later start could take for an installed browser, or would have to clear. */
export async function browserLeftovers(testbed: Testbed): Promise<string[]> {
  const names = await listEntries(browsersOf(testbed));
  return names.filter((name) => /^(chromium-|_download|\.staging|\.download)/.test(name) && !name.includes('/'));
}
