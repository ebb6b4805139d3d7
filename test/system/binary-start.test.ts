import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { DownloadState } from '../../src/browser/binary.ts';
import { makeFolders } from '../support/folders.ts';
import type { TestFolders } from '../support/folders.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';
import {
  buildProgram,
  buildWorker,
  makeSource,
  removePrograms,
  sendSlowly,
  startDownloadServer,
} from './binary-downloads.ts';
import type { DownloadServer } from './binary-downloads.ts';

let worker: URL;
let program: URL;
let folders: TestFolders;
let server: DownloadServer;
const started: ChildProcess[] = [];

/** A program that resolves the browser and prints every state, then the plan or the error, one JSON object a line. */
const resolvingProgram = `
  import { makeSource } from './test/system/binary-downloads.ts';
  const print = (value) => { console.log(JSON.stringify(value)); };
  const { source, states } = makeSource(new URL(process.argv[2]), process.env);
  const timer = setInterval(() => { for (const state of states.splice(0)) print(state); }, 50);
  try {
    const { executablePath, info } = await source.resolve();
    print({ state: 'plan', executablePath, source: info.source });
  } catch (error) {
    print({ state: 'error', code: error.code });
  }
  clearInterval(timer);
  await source.close();
`;

interface Run {
  readonly child: ChildProcess;
  readonly lines: (DownloadState | { state: string; executablePath?: string; source?: string })[];
  readonly exit: Promise<unknown>;
}

function run(): Run {
  const child = spawn(process.execPath, [fileURLToPath(program), worker.href], {
    env: { PATH: process.env['PATH'], CLOAKBROWSER_CACHE_DIR: folders.cache, CLOAKBROWSER_DOWNLOAD_URL: server.url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  started.push(child);
  const lines: Run['lines'] = [];
  const exit = once(child, 'close');
  createInterface({ input: child.stdout }).on('line', (line) => {
    // A line that is not the program's own does not parse and fails the test: nothing else may reach stdout.
    lines.push(JSON.parse(line) as DownloadState);
  });
  return { child, lines, exit };
}

beforeAll(async () => {
  worker = await buildWorker();
  program = await buildProgram('resolving', resolvingProgram);
});

afterAll(removePrograms);

beforeEach(async () => {
  folders = await makeFolders();
  server = await startDownloadServer();
});

afterEach(async () => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
  await server.close();
  await folders.remove();
});

describe('several programs with one cache folder', () => {
  it('share one download', async () => {
    server.answer = (response, archive) => {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, 100_000));
      setTimeout(() => response.end(archive.subarray(100_000)), 2500);
    };
    const runs = [run(), run()];
    await withDeadline('both programs', Promise.all(runs.map(({ exit }) => exit)), 30_000);
    const ends = runs.map(({ lines }) => lines.at(-1));
    expect(ends.map((end) => end?.state)).toEqual(['plan', 'plan']);
    expect(server.archives).toHaveLength(1);
    for (const { lines } of runs) expect(lines.some(({ state }) => state === 'downloading')).toBe(true);
    expect((await readdir(folders.cache)).filter((name) => /^\.(staging|download)/.test(name))).toEqual([]);
  });

  it('recover at once from one that was killed during its download', async () => {
    server.answer = sendSlowly;
    const killed = run();
    await waitUntil('bytes', () => killed.lines.find((line) => 'receivedBytes' in line && line.receivedBytes > 0));
    const waiter = run();
    await waitUntil('the other one to wait', () => waiter.lines.find(({ state }) => state === 'downloading'));
    expect(server.archives).toHaveLength(1);
    server.answer = (response, archive) => response.end(archive);
    killed.child.kill('SIGKILL');
    await killed.exit;
    await withDeadline('the one that waited', waiter.exit, 8000);
    expect(waiter.lines.at(-1)).toMatchObject({ state: 'plan', source: 'downloaded' });
    expect((await readdir(folders.cache)).filter((name) => /^\.(staging|download)/.test(name))).toEqual([]);
  });

  it('take nothing of a killed download for a browser, and the next start sweeps it', async () => {
    server.answer = sendSlowly;
    const killed = run();
    await waitUntil('bytes', () => killed.lines.find((line) => 'receivedBytes' in line && line.receivedBytes > 0));
    killed.child.kill('SIGKILL');
    await killed.exit;
    const left = await readdir(folders.cache);
    expect(left.some((name) => name.startsWith('.staging-'))).toBe(true);
    expect(left.filter((name) => name.startsWith('chromium-'))).toEqual([]);
    server.answer = (response, archive) => response.end(archive);
    const next = run();
    await withDeadline('the next start', next.exit);
    expect(next.lines.at(-1)).toMatchObject({ state: 'plan', source: 'downloaded' });
    expect((await readdir(folders.cache)).filter((name) => /^\.(staging|download)/.test(name))).toEqual([]);
  });

  it('sweep what a killed one left even if the browser is installed', async () => {
    await run().exit;
    const foreign = join(folders.cache, '.staging-999999-abcd');
    await mkdir(foreign);
    const next = run();
    await next.exit;
    expect(next.lines.at(-1)).toMatchObject({ state: 'plan', source: 'cache' });
    expect((await readdir(folders.cache)).filter((name) => name.startsWith('.staging'))).toEqual([]);
    expect(server.archives).toHaveLength(1);
  });
});

describe('a browser of the user', () => {
  const proxy = { server: 'http://person:s3cret-word@127.0.0.1:3128', bypass: '.example.com' };

  async function makeBrowser(mode = 0o755): Promise<string> {
    const path = join(folders.root, 'browser');
    await writeFile(path, '#!/bin/sh\n');
    await chmod(path, mode);
    return path;
  }

  function open(binaryPath: string, changes: Parameters<typeof makeSource>[2] = {}): ReturnType<typeof makeSource> {
    const env = { CLOAKBROWSER_CACHE_DIR: folders.cache, CLOAKBROWSER_DOWNLOAD_URL: server.url };
    return makeSource(worker, { ...env, CLOAKBROWSER_LICENSE_KEY: 'licence-of-a-test' }, { binaryPath, ...changes });
  }

  it('is planned without a request, with the wrapper’s arguments and the sandbox told by one setting', async () => {
    const { source, log } = open(await makeBrowser(), { extraArgs: ['--lang=de', '--fingerprint=7'], sandbox: true });
    const plan = await source.resolve();
    expect(plan).toMatchObject({
      executablePath: join(folders.root, 'browser'),
      chromiumSandbox: true,
      headless: true,
    });
    expect(plan.args).toEqual(
      expect.arrayContaining(['--fingerprint=7', '--fingerprint-platform=windows', '--lang=de']),
    );
    expect(plan.args).not.toContain('--no-sandbox');
    expect(plan.ignoreDefaultArgs).toContain('--enable-automation');
    expect(plan.info).toMatchObject({
      source: 'binary-path',
      version: 'unknown',
      updatePolicy: 'off',
      installed: true,
    });
    expect(plan.info.wrapperVersion).toMatch(/^\d+\.\d+\.\d+$/);
    expect(plan.env).toEqual({ CLOAKBROWSER_LICENSE_KEY: 'licence-of-a-test' });
    expect(log.join('\n')).not.toContain('licence-of-a-test');
    expect(server.requests).toEqual([]);
    expect(await readdir(folders.cache).catch(() => [])).toEqual([]);
  });

  it('gets no stealth argument when they are switched off', async () => {
    const { source } = open(await makeBrowser(), { stealthArgs: false, headless: false });
    const plan = await source.resolve();
    expect(plan.args).toEqual(['--ignore-gpu-blocklist']);
    expect(plan.headless).toBe(false);
  });

  it('gets proxy credentials apart from its command line', async () => {
    const { source } = open(await makeBrowser(), { proxy });
    const plan = await source.resolve();
    expect(plan.proxy).toEqual({
      server: 'http://127.0.0.1:3128',
      bypass: '.example.com',
      username: 'person',
      password: 's3cret-word',
    });
    expect(plan.args.join(' ')).not.toContain('s3cret-word');
  });

  it('with its version named may need them there; then they are still in no log', async () => {
    const { source, log } = open(await makeBrowser(), { proxy, browserVersion: '148.0.7778.215.4' });
    const plan = await source.resolve();
    expect(plan.args).toContain('--proxy-server=http://person:s3cret-word@127.0.0.1:3128');
    expect(plan.info.version).toBe('148.0.7778.215.4');
    expect(log.join('\n')).not.toContain('s3cret-word');
  });

  it.each([
    ['is missing', 'no such file'],
    ['is a folder', 'it is a folder'],
    ['is not executable', 'not executable'],
  ])('that %s is refused by name', async (problem, text) => {
    const path = problem === 'is a folder' ? folders.cwd : join(folders.root, 'browser');
    if (problem === 'is not executable') await makeBrowser(0o644);
    const { source } = open(path);
    const error: unknown = await source.resolve().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'binary_path', message: expect.stringContaining(text) });
    expect(error).toMatchObject({
      message: expect.stringContaining(path),
      hint: expect.stringContaining('--binary-path'),
    });
  });
});

describe('information', () => {
  it('is given without a download', async () => {
    const env = { CLOAKBROWSER_CACHE_DIR: folders.cache, CLOAKBROWSER_DOWNLOAD_URL: server.url };
    const { source } = makeSource(worker, env);
    expect(await source.info()).toMatchObject({
      platform: 'linux-x64',
      tier: 'free',
      installed: false,
      source: 'none',
      download: { state: 'idle' },
    });
    expect(server.requests).toEqual([]);
    expect(await readdir(folders.cache).catch(() => [])).toEqual([]);
  });

  it('and a clear error are given where there is no build', async () => {
    const url = await buildProgram(
      'other-platform',
      `import { parentPort, workerData } from 'node:worker_threads';
       import { flattenFailure } from './src/browser/binary-failure.ts';
       const error = new Error('Unsupported platform: win32 arm64. Supported: linux-x64, linux-arm64');
       console.log('[cloakbrowser] said on stdout');
       if (workerData.task === 'info') {
         const facts = { wrapperVersion: '1.2.3', platform: 'win32-arm64', tier: 'unknown', version: 'unknown' };
         parentPort.postMessage({ type: 'answer', answer: { facts } });
       } else parentPort.postMessage({ type: 'failed', failure: flattenFailure(error) });`,
    );
    const { source } = makeSource(url, { CLOAKBROWSER_CACHE_DIR: folders.cache });
    const error: unknown = await source.resolve().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'platform',
      message: expect.stringContaining('win32 arm64'),
      hint: expect.stringMatching(/--binary-path.*--browser-engine playwright/),
    });
    expect(await source.info()).toMatchObject({ platform: 'win32-arm64', installed: false, wrapperVersion: '1.2.3' });
  });

  it.each(["throw new Error('broken wrapper');", 'process.exit(3);'])(
    'and an error are given for a worker that runs %s',
    async (code) => {
      const { source } = makeSource(await buildProgram('broken', code), { CLOAKBROWSER_CACHE_DIR: folders.cache });
      await expect(withDeadline('the error', source.resolve())).rejects.toMatchObject({ code: 'internal' });
      expect(await withDeadline('the info', source.info())).toMatchObject({
        wrapperVersion: 'unknown',
        installed: false,
      });
    },
  );
});
