import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { describeDownload } from '../../src/browser/binary.ts';
import type { BinarySettings } from '../../src/browser/binary.ts';
import { BridgeError } from '../../src/core/errors.ts';
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
import type { ArchiveAnswer, DownloadServer, TestSource } from './binary-downloads.ts';

let worker: URL;
let folders: TestFolders;
let server: DownloadServer;
const opened: TestSource[] = [];

beforeAll(async () => {
  worker = await buildWorker();
});

afterAll(removePrograms);

beforeEach(async () => {
  folders = await makeFolders();
  server = await startDownloadServer();
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map(({ source }) => source.close()));
  await server.close();
  await folders.remove();
});

function open(changes: Partial<BinarySettings> = {}, env: Record<string, string> = {}, url = worker): TestSource {
  const base = { CLOAKBROWSER_CACHE_DIR: folders.cache, CLOAKBROWSER_DOWNLOAD_URL: server.url };
  const made = makeSource(url, { ...base, ...env }, changes);
  opened.push(made);
  return made;
}

/** The error of a search that must fail, well before the test's own limit. */
async function expectFailure(made: TestSource): Promise<BridgeError> {
  const outcome = await withDeadline(
    'the search to fail',
    made.source.resolve().catch((error: unknown) => error),
    15_000,
  );
  if (!(outcome instanceof BridgeError)) throw new Error('the search did not fail with a BridgeError');
  expect(made.source.download).toMatchObject({ state: 'failed', code: outcome.code });
  return outcome;
}

/** Whatever a later start could take for an installed browser, or would have to clear. */
async function leftovers(): Promise<string[]> {
  const names = await readdir(folders.cache).catch(() => []);
  return names.filter((name) => /^(chromium-|_download|\.staging|\.download)/.test(name));
}

describe('a download', () => {
  it('installs the browser once and tells its progress', async () => {
    const { source, states, log } = open();
    const plan = await withDeadline('the download', source.resolve());
    expect(plan.executablePath).toMatch(new RegExp(`^${folders.cache}/chromium-[\\d.]+/chrome$`));
    expect(plan.info).toMatchObject({
      installed: true,
      source: 'downloaded',
      tier: 'free',
      download: { state: 'ready' },
    });
    expect(plan.info.platform).toBe('linux-x64');
    expect(states.map(({ state }) => state).filter((state, index, all) => state !== all[index - 1])).toEqual([
      'checking',
      'downloading',
      'extracting',
      'ready',
    ]);
    expect(log.join('\n')).toMatch(/info browser download progressed .*0 %, 0 of 0 MB from 127.0.0.1/);
    await source.close();
    expect(await leftovers()).toEqual([`chromium-${plan.info.version}`]);
  });

  it('is not repeated by a second start, which asks the server for nothing', async () => {
    await open().source.resolve();
    server.requests.length = 0;
    const second = open({ autoUpdate: true });
    const plan = await second.source.resolve();
    expect(plan.info).toMatchObject({ source: 'cache', updatePolicy: 'background' });
    await waitUntil('the update', () => second.log.find((line) => line.startsWith('debug browser update ended')));
    await second.source.close();
    expect(server.requests).toEqual([]);
    expect(await leftovers()).toEqual([`chromium-${plan.info.version}`]);
  });

  it('keeps the plan for the next generation, until the browser is gone', async () => {
    const { source } = open();
    const plan = await source.resolve();
    expect(await source.resolve()).toBe(plan);
    await rm(join(folders.cache, `chromium-${plan.info.version}`), { recursive: true });
    expect((await source.resolve()).executablePath).toBe(plan.executablePath);
    expect(server.archives).toHaveLength(2);
  });

  it('is made once for five sources at the same time, and those who wait see its progress', async () => {
    server.answer = (response, archive) => {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, 200_000));
      setTimeout(() => response.end(archive.subarray(200_000)), 2000);
    };
    const all = Array.from({ length: 5 }, () => open());
    const plans = await withDeadline('five sources', Promise.all(all.map(({ source }) => source.resolve())), 30_000);
    expect(new Set(plans.map(({ executablePath }) => executablePath)).size).toBe(1);
    expect(server.archives).toHaveLength(1);
    expect(plans.filter(({ info }) => info.source === 'downloaded')).toHaveLength(1);
    for (const { states } of all) expect(states.some(({ state }) => state === 'downloading')).toBe(true);
  });

  it('of one byte a second is no stall; its end by close leaves nothing', async () => {
    server.answer = sendSlowly;
    const made = open({ stallTimeoutMs: 1500 });
    const outcome = made.source.resolve().catch((error: unknown) => error);
    const waiting = made.source.resolve(AbortSignal.timeout(300)).catch((error: unknown) => error);
    expect(await waiting).toMatchObject({ code: 'start_pending' });
    await waitUntil('three bytes', () => {
      const { download } = made.source;
      return download.state === 'downloading' && download.receivedBytes >= 3 ? true : undefined;
    });
    expect(describeDownload(made.source.download)).toBe('downloading CloakBrowser 0 %, 0 of 0 MB');
    await withDeadline('close', made.source.close(), 3000);
    expect(await outcome).toMatchObject({ code: 'closing' });
    expect(await leftovers()).toEqual([]);
  });

  it('replaces a folder that was left half unpacked', async () => {
    const { version } = await open().source.info();
    await mkdir(join(folders.cache, `chromium-${version}`), { recursive: true });
    await writeFile(join(folders.cache, `chromium-${version}`, 'chrome'), 'half');
    const plan = await open().source.resolve();
    expect(plan.info.source).toBe('downloaded');
    expect(server.archives).toHaveLength(1);
  });
});

const failures: { name: string; answer: ArchiveAnswer; code: string; text: RegExp; checksum?: string | undefined }[] = [
  {
    name: 'a server that accepts and never answers',
    answer: () => undefined,
    code: 'download_stalled',
    text: /no byte arrived for 800 ms \(0 MB so far\)/,
  },
  {
    name: 'a server that stops in the middle',
    answer: (response, archive) => {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, 100_000));
    },
    code: 'download_stalled',
    text: /no byte arrived for 800 ms \(2\d %, 0 of 0 MB so far\)/,
  },
  {
    name: 'HTTP 404',
    answer: (response) => response.writeHead(404).end(),
    code: 'download_missing',
    text: /the server answered HTTP 404/,
  },
  {
    name: 'HTTP 503',
    answer: (response) => response.writeHead(503).end(),
    code: 'download_network',
    text: /HTTP 503/,
  },
  {
    name: 'a connection that breaks off before the announced length',
    answer: (response, archive) => {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, 100_000), () => response.destroy());
    },
    code: 'download_network',
    text: /The browser download failed: /,
  },
  {
    name: 'a truncated archive without a length',
    answer: (response, archive) => {
      response.writeHead(200, { connection: 'close' });
      response.end(archive.subarray(0, 100_000));
    },
    code: 'download_corrupt',
    text: /Checksum verification failed/,
  },
  {
    name: 'a truncated archive without a length and without checksums',
    answer: (response, archive) => {
      response.writeHead(200, { connection: 'close' });
      response.end(archive.subarray(0, 100_000));
    },
    code: 'download_corrupt',
    text: /The downloaded archive cannot be used/,
    checksum: undefined,
  },
  {
    name: 'a checksum that does not match',
    answer: (response, archive) => response.end(archive),
    code: 'download_corrupt',
    text: /Checksum verification failed/,
    checksum: '0'.repeat(64),
  },
  {
    name: 'a web page in place of the archive',
    answer: (response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in to the network</h1>');
    },
    code: 'download_corrupt',
    text: /content type text\/html/,
    checksum: undefined,
  },
];

describe('a download that fails', () => {
  it.each(failures)('names the reason for $name', async (failure) => {
    server.answer = failure.answer;
    if ('checksum' in failure) server.checksum = failure.checksum;
    const made = open({ stallTimeoutMs: 800 });
    const error = await expectFailure(made);
    expect(error.code).toBe(failure.code);
    expect(error.message).toMatch(failure.text);
    expect(error.message).toMatch(/CloakBrowser \d[\d.]+ for linux-x64 from 127\.0\.0\.1:\d+/);
    for (const way of ['--binary-path', '--browser-version', 'CLOAKBROWSER_CACHE_DIR', '--browser-engine playwright']) {
      expect(error.hint).toContain(way);
    }
    expect(await leftovers()).toEqual([]);
  });

  it('can be tried again by the same source', async () => {
    server.answer = (response) => response.writeHead(404).end();
    const made = open();
    await expectFailure(made);
    server.answer = (response, archive) => response.end(archive);
    expect((await made.source.resolve()).info.installed).toBe(true);
  });

  it('names a server that refuses the connection', async () => {
    const gone = await startDownloadServer();
    await gone.close();
    const error = await expectFailure(open({}, { CLOAKBROWSER_DOWNLOAD_URL: gone.url }));
    expect(error.code).toBe('download_network');
    expect(error.message).toContain(`connect ECONNREFUSED ${gone.host}`);
  });

  it.each(['below a file', 'below /proc'])('names a cache folder %s', async (where) => {
    const blocked = where === 'below /proc' ? '/proc/cloak-cache' : join(folders.root, 'file');
    if (where === 'below a file') await writeFile(blocked, '');
    const error = await expectFailure(open({}, { CLOAKBROWSER_CACHE_DIR: join(blocked, 'cache') }));
    expect(error.code).toBe('folder_unwritable');
    expect(error.message).toContain(join(blocked, 'cache'));
    expect(error.hint).toMatch(/CLOAKBROWSER_CACHE_DIR.*--binary-path/);
    expect(server.archives).toEqual([]);
  });

  it('survives a download file that cannot be written', async () => {
    const source = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const create = fs.createWriteStream;
      fs.createWriteStream = () => create('/proc/no-such-folder/archive');
      syncBuiltinESMExports();
      const worker = ${JSON.stringify(worker.href)};
      await import(worker);`;
    const error = await expectFailure(open({}, {}, await buildProgram('unwritable', source)));
    expect(error.code).toBe('folder_unwritable');
    expect(await leftovers()).toEqual([]);
  });
});
