import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import type { Host } from '../../src/core/host.ts';
import type { LogFields, Logger } from '../../src/core/logger.ts';
import { Redactor } from '../../src/core/redact.ts';
import { BinarySource } from '../../src/browser/binary.ts';
import type { BinarySettings, DownloadState } from '../../src/browser/binary.ts';

const root = join(import.meta.dirname, '../..');
/** Inside the package, so that the built files find the wrapper. */
const built = join(root, 'node_modules/.cache/cloakbrowser-mcp');

/** Builds one program of the sources for a test and gives its URL. */
export async function buildProgram(name: string, source: string): Promise<URL> {
  await mkdir(built, { recursive: true });
  const outfile = join(built, `${name}-${process.pid}.mjs`);
  const stdin = { contents: source, resolveDir: root, loader: 'ts' } as const;
  const common = { bundle: true, format: 'esm', platform: 'node', target: 'node20.19', logLevel: 'silent' } as const;
  await build({ ...common, stdin, outfile, external: ['cloakbrowser', 'esbuild'] });
  return pathToFileURL(outfile);
}

/** Removes what the tests of this process have built. */
export async function removePrograms(): Promise<void> {
  for (const name of await readdir(built)) {
    if (name.endsWith(`-${process.pid}.mjs`) || name.endsWith(`-${process.pid}`))
      await rm(join(built, name), { recursive: true });
  }
}

/** Copies the built bridge; in the copy `preamble` runs in each worker thread first. Gives the program's path. */
export async function copyBridge(name: string, preamble: string): Promise<string> {
  const folder = join(built, `${name}-${process.pid}`);
  await mkdir(built, { recursive: true });
  await cp(join(root, 'dist'), folder, { recursive: true });
  await rename(join(folder, 'binary-worker.js'), join(folder, 'real-worker.js'));
  await writeFile(join(folder, 'binary-worker.js'), `${preamble}\nawait import('./real-worker.js');\n`);
  return join(folder, 'main.js');
}

/** Builds the real worker. */
export function buildWorker(): Promise<URL> {
  return buildProgram('worker', "import './src/browser/binary-worker.ts';");
}

function tarEntry(name: string, content: Buffer, mode: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write(`${mode}\0`, 100);
  header.write('0000000\x000000000\0', 108);
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write('        0', 148);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

/** An archive as the download server has it: a program named `chrome` and something that does not compress. */
function makeArchive(program: string): Buffer {
  const chrome = tarEntry('chrome', Buffer.from(program), '0000755');
  const weight = tarEntry('resources.pak', randomBytes(400_000), '0000644');
  return gzipSync(Buffer.concat([chrome, weight, Buffer.alloc(1024)]));
}

/** Answers an archive request. */
export type ArchiveAnswer = (response: ServerResponse, archive: Buffer) => void;

/** Sends the archive whole. */
export const sendAll: ArchiveAnswer = (response, archive) => {
  response.writeHead(200, { 'content-type': 'application/gzip', 'content-length': archive.length });
  response.end(archive);
};

/** Sends the headers and then one byte a second, until the function that it gives is called; then the rest. */
function trickle(response: ServerResponse, archive: Buffer): () => void {
  response.writeHead(200, { 'content-type': 'application/gzip', 'content-length': archive.length });
  let sent = 0;
  const send = (): void => {
    response.write(archive.subarray(sent, sent + 1));
    sent += 1;
  };
  send();
  const timer = setInterval(send, 1000);
  response.on('close', () => {
    clearInterval(timer);
  });
  return () => {
    clearInterval(timer);
    response.end(archive.subarray(sent));
  };
}

/** Sends the headers and then one byte a second. */
export const sendSlowly: ArchiveAnswer = (response, archive) => {
  trickle(response, archive);
};

/** An archive of one byte a second that can be released. */
export interface HeldArchive {
  readonly answer: ArchiveAnswer;
  /** Sends the rest of what is held back, and from then on every archive, at full speed. */
  release(): void;
}

/** Holds archives back until they are released. */
export function holdBack(): HeldArchive {
  const held: (() => void)[] = [];
  let isReleased = false;
  return {
    answer: (response, archive) => {
      if (isReleased) sendAll(response, archive);
      else held.push(trickle(response, archive));
    },
    release: () => {
      isReleased = true;
      for (const sendRest of held.splice(0)) sendRest();
    },
  };
}

/** A download server on loopback that counts what it is asked for. */
export interface DownloadServer {
  readonly url: string;
  readonly host: string;
  readonly archives: string[];
  readonly requests: string[];
  answer: ArchiveAnswer;
  /** What SHA256SUMS says; undefined means that there is none. */
  checksum: string | undefined;
  close(): Promise<void>;
}

/** Starts a download server, on a port that the system chooses if none is given; `program` is the archive's `chrome`. */
export async function startDownloadServer(
  answer: ArchiveAnswer = sendAll,
  { port = 0, program = '#!/bin/sh\necho stand-in\n' } = {},
): Promise<DownloadServer> {
  const archive = makeArchive(program);
  const listener = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? '';
    server.requests.push(path);
    if (path.endsWith('.tar.gz')) {
      server.archives.push(path);
      server.answer(response, archive);
    } else if (path.endsWith('SHA256SUMS') && server.checksum !== undefined) {
      response.end(`${server.checksum}  cloakbrowser-linux-x64.tar.gz\n`);
    } else {
      response.writeHead(404).end();
    }
  });
  listener.listen(port, '127.0.0.1');
  await once(listener, 'listening');
  const host = `127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const server: DownloadServer = {
    url: `http://${host}`,
    host,
    archives: [],
    requests: [],
    answer,
    checksum: createHash('sha256').update(archive).digest('hex'),
    async close() {
      listener.closeAllConnections();
      listener.close();
      await once(listener, 'close');
    },
  };
  return server;
}

/** A logger that keeps what it is told as text. */
function recordLog(lines: string[]): Logger {
  const record =
    (level: string) =>
    (event: string, fields?: LogFields): void => {
      lines.push(`${level} ${event} ${JSON.stringify(fields ?? {})}`);
    };
  return { debug: record('debug'), info: record('info'), warn: record('warn'), error: record('error') };
}

/** The host that the tests run on, with another home folder. */
function makeHost(homeDir: string): Host {
  return {
    platform: process.platform,
    execPath: process.execPath,
    pid: process.pid,
    uid: process.getuid?.(),
    hostname: hostname(),
    homeDir,
    tempDir: tmpdir(),
    cwd: process.cwd(),
    env: {},
    kill: (pid, signal) => {
      process.kill(pid, signal);
    },
  };
}

/** A source with everything that it told. */
export interface TestSource {
  readonly source: BinarySource;
  readonly states: DownloadState[];
  readonly log: string[];
}

/** Makes a source; only what a test is about has to be given. */
export function makeSource(
  workerUrl: URL,
  env: Record<string, string>,
  changes: Partial<BinarySettings> = {},
): TestSource {
  const states: DownloadState[] = [];
  const log: string[] = [];
  const settings: BinarySettings = {
    engine: 'cloak',
    releaseChannel: 'stable',
    autoUpdate: false,
    stallTimeoutMs: 20_000,
    headless: true,
    stealthArgs: true,
    extraArgs: [],
    env: { PATH: process.env['PATH'], CLOAKBROWSER_SUPPRESS_FONT_WARNING: '1', ...env },
    ...changes,
  };
  const source = new BinarySource(settings, {
    workerUrl,
    logger: recordLog(log),
    redactor: new Redactor(),
    host: makeHost('/nonexistent-home'),
    onProgress: (state) => {
      states.push(state);
    },
  });
  return { source, states, log };
}
