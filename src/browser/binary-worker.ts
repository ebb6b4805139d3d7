/**
 * The only code that calls `cloakbrowser`. It runs in a thread of its own because the wrapper prints on stdout, reads
 * its settings from `process.env` and writes files through streams without error handlers.
 */
import { readFileSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type * as Cloak from 'cloakbrowser';
import { flattenFailure } from './binary-failure.ts';
import type { Job, JobAnswer, JobMessage, WrapperFacts, WrapperLaunch } from './binary-job.ts';
import { DownloadMeter } from './download-meter.ts';

type Wrapper = typeof Cloak;

const job = workerData as Job;

function post(message: JobMessage): void {
  parentPort?.postMessage(message);
}

const meter = new DownloadMeter({
  fetch: globalThis.fetch,
  mayDownload: job.task === 'install' || job.task === 'update',
  stallTimeoutMs: job.stallTimeoutMs,
  onProgress: (request) => {
    post({ type: 'progress', request });
  },
  onReceived: () => {
    post({ type: 'received' });
  },
});
globalThis.fetch = meter.fetch;

function fail(thrown: unknown): void {
  post({ type: 'failed', failure: flattenFailure(thrown), request: meter.latest });
}

// Wrapper 0.5.10 opens its download file without an error handler: a full or read-only disk arrives here.
process.on('uncaughtException', (error) => {
  // It also destroys that file with writes pending; the reason for doing so follows as an error of the call.
  if ('code' in error && error.code === 'ERR_STREAM_DESTROYED') return;
  fail(error);
});
process.on('unhandledRejection', fail);

function wrapperVersion(): string {
  const manifest = new URL('../package.json', import.meta.resolve('cloakbrowser'));
  const parsed: unknown = JSON.parse(readFileSync(manifest, 'utf8'));
  const version = typeof parsed === 'object' && parsed !== null && 'version' in parsed ? parsed.version : undefined;
  return typeof version === 'string' ? version : 'unknown';
}

interface Found {
  readonly facts: WrapperFacts;
  readonly installed: boolean;
}

function look(wrapper: Wrapper): Found {
  const base = { wrapperVersion: wrapperVersion(), platform: `${platform()}-${arch()}` };
  if (job.binaryPath !== undefined) {
    const version = job.browserVersion ?? 'unknown';
    return { facts: { ...base, tier: 'unknown', version, path: job.binaryPath }, installed: true };
  }
  const info = wrapper.binaryInfo(job.browserVersion, job.releaseChannel);
  const { tier, version, binaryPath } = info;
  return { facts: { ...base, platform: info.platform, tier, version, path: binaryPath }, installed: info.installed };
}

/** Looking must not fail where there is no build: the info tool still has to say so. */
function lookSafely(wrapper: Wrapper): Found {
  try {
    return look(wrapper);
  } catch {
    const version = job.browserVersion ?? 'unknown';
    const facts = { wrapperVersion: wrapperVersion(), platform: `${platform()}-${arch()}`, version };
    return { facts: { ...facts, tier: 'unknown' }, installed: false };
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

async function buildLaunch(wrapper: Wrapper): Promise<WrapperLaunch> {
  const { server, bypass, username, password } = job.proxy ?? { server: '' };
  const options: Cloak.LaunchOptions = {
    headless: job.headless,
    stealthArgs: job.stealthArgs,
    args: [...job.extraArgs],
    releaseChannel: job.releaseChannel,
    ...(job.browserVersion === undefined ? {} : { browserVersion: job.browserVersion }),
    ...(server === ''
      ? {}
      : {
          proxy: {
            server,
            ...(bypass === undefined ? {} : { bypass }),
            ...(username === undefined ? {} : { username }),
            ...(password === undefined ? {} : { password }),
          },
        }),
    // An empty environment makes the builder return only what the browser needs in addition: a licence key.
    launchOptions: { env: {} },
  };
  const built: unknown = await wrapper.buildLaunchOptions(options);
  return readLaunch(built as Readonly<Record<string, unknown>>);
}

/** The builder's type says only that it is an object; each field is looked at. */
function readLaunch(built: Readonly<Record<string, unknown>>): WrapperLaunch {
  const list = (value: unknown): string[] => (Array.isArray(value) ? value.filter(isText) : []);
  return {
    executablePath: String(built['executablePath']),
    headless: built['headless'] !== false,
    args: list(built['args']),
    ignoreDefaultArgs: list(built['ignoreDefaultArgs']),
    proxy: built['proxy'] as WrapperLaunch['proxy'],
    env: built['env'] as WrapperLaunch['env'],
  };
}

async function planned(wrapper: Wrapper, found: Found): Promise<JobAnswer> {
  const { facts } = found;
  if (!found.installed) return { facts };
  try {
    return { facts, launch: await buildLaunch(wrapper) };
  } catch (cause) {
    // The wrapper wanted an archive: what it launches is not what is on disk (not executable, other tier).
    if (meter.hasRefused) return { facts };
    throw cause;
  }
}

async function perform(): Promise<JobAnswer> {
  const wrapper = await import('cloakbrowser');
  if (job.task === 'info') return { facts: lookSafely(wrapper).facts };
  const found = look(wrapper);
  post({ type: 'facts', facts: found.facts });
  if (job.task === 'plan') return planned(wrapper, found);
  const executablePath = await wrapper.ensureBinary(undefined, job.browserVersion, job.releaseChannel);
  return { facts: found.facts, executablePath };
}

/** What was printed leaves before the answer, because the thread is ended as soon as the answer arrives. */
function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write('', () => {
      resolve();
    });
  });
}

try {
  const answer = await perform();
  await flush(process.stdout);
  await flush(process.stderr);
  post({ type: 'answer', answer });
} catch (thrown) {
  fail(thrown);
}
