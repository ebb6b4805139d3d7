import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { Worker } from 'node:worker_threads';
import { BridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Redactor } from '../core/redact.ts';
import { explainFailure, flattenFailure } from './binary-failure.ts';
import type { ArchiveRequest, WrapperFailure } from './binary-failure.ts';

/**
 * What the worker is to do: `plan` builds launch options from what is installed, `install` downloads, `update` lets
 * the wrapper look for a newer build, `info` only looks.
 */
export type Task = 'plan' | 'install' | 'update' | 'info';

/** A proxy with its credentials apart from the address. */
export interface ProxySettings {
  readonly server: string;
  readonly bypass?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** The order given to the worker. */
export interface Job {
  readonly task: Task;
  readonly binaryPath?: string | undefined;
  readonly browserVersion?: string | undefined;
  readonly releaseChannel: 'stable' | 'preview';
  readonly stallTimeoutMs: number;
  readonly headless: boolean;
  readonly stealthArgs: boolean;
  readonly extraArgs: readonly string[];
  readonly proxy?: ProxySettings | undefined;
}

/** What the wrapper says of itself and of the browser. */
export interface WrapperFacts {
  readonly wrapperVersion: string;
  readonly platform: string;
  readonly tier: 'free' | 'pro' | 'unknown';
  readonly version: string;
  readonly path?: string | undefined;
}

/** What the wrapper's launch builder returned. */
export interface WrapperLaunch {
  readonly executablePath: string;
  readonly headless: boolean;
  readonly args: readonly string[];
  readonly ignoreDefaultArgs: readonly string[];
  readonly proxy?: ProxySettings | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** The worker's answer; a `plan` without `launch` means that the browser is not installed. */
export interface JobAnswer {
  readonly facts: WrapperFacts;
  readonly launch?: WrapperLaunch | undefined;
  readonly executablePath?: string | undefined;
}

/** What the worker sends. */
export type JobMessage =
  | { readonly type: 'facts'; readonly facts: WrapperFacts }
  | { readonly type: 'progress'; readonly request: ArchiveRequest }
  | { readonly type: 'received' }
  | { readonly type: 'answer'; readonly answer: JobAnswer }
  | { readonly type: 'failed'; readonly failure: WrapperFailure; readonly request: ArchiveRequest | undefined };

/** Where and how a job runs. */
export interface JobSetup {
  readonly workerUrl: URL;
  readonly env: Readonly<Record<string, string>>;
  readonly cacheDir: string;
  readonly logger: Logger;
  readonly redactor: Redactor;
  readonly onMessage: (message: JobMessage) => void;
}

/** The wrapper's lines are short; a longer one is cut so that a log stays readable. */
const longestLine = 2000;

/** Runs one job in a worker of its own, whose output goes to the log, and ends the worker before it returns. */
export async function runJob(job: Job, setup: JobSetup, signal: AbortSignal): Promise<JobAnswer> {
  if (signal.aborted) throw closingError();
  const { logger, redactor } = setup;
  const worker = new Worker(setup.workerUrl, {
    workerData: job,
    env: setup.env,
    execArgv: [],
    stdout: true,
    stderr: true,
  });
  forwardLines(worker.stdout, (line) => {
    logger.debug('wrapper printed', { line: redactor.clean(line) });
  });
  forwardLines(worker.stderr, (line) => {
    logger.info('wrapper noted', { line: redactor.clean(line) });
  });
  const abort = new AbortController();
  try {
    return await Promise.race([listen(worker, job, setup), abortion(signal, abort.signal)]);
  } finally {
    abort.abort();
    await worker.terminate();
  }
}

function listen(worker: Worker, job: Job, setup: JobSetup): Promise<JobAnswer> {
  return new Promise((resolve, reject) => {
    let answer: JobAnswer | undefined;
    let facts: WrapperFacts | undefined;
    const fail = (failure: WrapperFailure, request?: ArchiveRequest): void => {
      const version = facts?.version ?? job.browserVersion ?? 'unknown';
      const platform = facts?.platform ?? 'this platform';
      const context = { request, version, platform, cacheDir: setup.cacheDir, stallTimeoutMs: job.stallTimeoutMs };
      reject(explainFailure(failure, context));
    };
    worker.on('message', (message: JobMessage) => {
      setup.onMessage(message);
      if (message.type === 'facts') facts = message.facts;
      if (message.type === 'failed') fail(message.failure, message.request);
      if (message.type !== 'answer') return;
      answer = message.answer;
      // The wrapper's update goes on by itself after its answer; the thread's end is the only sign that it is over.
      if (job.task !== 'update') resolve(answer);
    });
    worker.on('error', (error) => {
      fail(flattenFailure(error));
    });
    worker.on('exit', () => {
      if (answer === undefined) fail(flattenFailure(new Error('the resolver ended without an answer')));
      else resolve(answer);
    });
  });
}

function closingError(): BridgeError {
  return new BridgeError('closing', 'The search for the browser was ended because the bridge is closing.');
}

function abortion(signal: AbortSignal, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => {
      reject(closingError());
    };
    signal.addEventListener('abort', stop, { once: true });
    over.addEventListener('abort', () => {
      signal.removeEventListener('abort', stop);
    });
  });
}

function forwardLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream }).on('line', (text) => {
    const line = text.trim();
    if (line !== '') onLine(line.slice(0, longestLine));
  });
}
