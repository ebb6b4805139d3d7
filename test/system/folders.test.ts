import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { listEntries } from '../support/folders.ts';
import { structuredOf, Testbed, textOf, type BridgeOptions } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  await testbed.close();
});

/** A path that can be neither made nor written, also not by root: it lies below a file. */
function impossibleFolder(): string {
  const file = join(testbed.folders.root, 'file');
  writeFileSync(file, '');
  return join(file, 'folder');
}

/** Runs a session; returns where the child worked and what was told on stderr. */
async function run(options: BridgeOptions): Promise<{ cwd: string; temp: string; stderr: string }> {
  const client = testbed.start(options);
  await client.initialize();
  const { cwd, env } = structuredOf(await client.call('inspect')) as { cwd: string; env: { TMPDIR: string } };
  await client.close();
  return { cwd, temp: env.TMPDIR, stderr: client.stderr };
}

describe('where a child works', () => {
  test('in the working folder of the user', async () => {
    const { cwd } = await run({});
    expect(cwd).toBe(testbed.folders.cwd);
    expect(await listEntries(testbed.folders.cwd)).toEqual([]);
  });

  test('not in the root of the file system, where desktop clients start servers; the user is told', async () => {
    const { cwd, stderr } = await run({ cwd: '/' });
    expect(cwd.startsWith(testbed.folders.home)).toBe(true);
    expect(stderr).toContain(cwd);
  });

  test('in a temporary folder when the home folder cannot be written either', async () => {
    const { cwd, stderr } = await run({ cwd: '/', env: { HOME: impossibleFolder() } });
    expect(cwd.startsWith(testbed.folders.tmp)).toBe(true);
    expect(stderr).toContain(cwd);
    expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  });
});

describe('a working folder that is removed while the bridge runs', () => {
  test('does not keep the next child from starting; the user is told where files go', async () => {
    const cwd = join(testbed.folders.root, 'project');
    mkdirSync(cwd);
    const client = testbed.start({ cwd });
    await client.initialize();
    const first = structuredOf(await client.call('inspect')) as { pid: number };
    rmSync(cwd, { recursive: true });
    process.kill(first.pid, 'SIGKILL');
    await waitUntil('the loss', () => Promise.resolve(client.stderr.includes('generation lost') || undefined));
    const second = structuredOf(await client.call('inspect')) as { cwd: string };
    expect(second.cwd.startsWith(testbed.folders.home)).toBe(true);
    expect(client.stderr).toContain(second.cwd);
  });
});

describe('folders that cannot be written', () => {
  test('a cache folder: everything works, the catalog is learned each time', async () => {
    const args = ['--cache-dir', impossibleFolder()];
    await run({ args });
    await run({ args });
    expect(testbed.eventsOf('start')).toHaveLength(4);
  });

  test('the temporary folder: initialize is answered, the call tells the reason', async () => {
    const temp = impossibleFolder();
    const client = testbed.start({ env: { TMPDIR: temp } });
    await client.initialize();
    expect(JSON.stringify((await client.request('tools/list')).result)).toContain('cloakbrowser_bridge_info');
    const answer = await client.call('echo');
    expect(answer.result?.['isError']).toBe(true);
    expect(textOf(answer)).toContain(temp);
    expect(await client.close()).toEqual({ code: 0, signal: null });
    expect(client.strayLines).toEqual([]);
  });

  test('a temporary folder whose name is too long for the sockets of Chromium is replaced by the one of the system', async () => {
    const { temp } = await run({ env: { TMPDIR: `${testbed.folders.tmp}/${'long'.repeat(12)}` } });
    expect(temp.length).toBeLessThanOrEqual(62);
    expect(temp.startsWith('/tmp/')).toBe(true);
  });
});
