import { BridgeError, messageOf, toBridgeError } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import type { Host } from '../core/host.ts';
import type { Logger } from '../core/logger.ts';
import type { Redactor } from '../core/redact.ts';
import { folderError } from './binary-failure.ts';
import { describeBinary } from './binary-info.ts';
import type { BinaryInfo } from './binary-info.ts';
import { runJob } from './binary-job.ts';
import type { JobAnswer, JobMessage, Task, WrapperFacts, WrapperLaunch } from './binary-job.ts';
import { acquireDownloadLock, clearDeadLock, watchDownloadLock } from './download-lock.ts';
import type { DownloadLock } from './download-lock.ts';
import { DownloadProgress } from './download-progress.ts';
import type { DownloadState } from './download-state.ts';
import { checkBinaryPath, isExecutableFile } from './executable.ts';
import { planLaunch, refusesSandbox } from './launch.ts';
import type { LaunchPlan } from './launch.ts';
import { detectSandbox } from './sandbox.ts';
import { hasStaging, openStaging, sweepStaging } from './staging.ts';
import { resolveCacheDir, resolveJob, resolveWorkerEnv, secretsOf } from './wrapper-settings.ts';
import type { BinarySettings } from './wrapper-settings.ts';

export { describeDownload } from './download-state.ts';
export type { DownloadState } from './download-state.ts';
export type { BinaryInfo } from './binary-info.ts';
export type { LaunchPlan } from './launch.ts';
export type { BinarySettings } from './wrapper-settings.ts';

/** What the source is given by the program around it. */
export interface BinaryDependencies {
  readonly logger: Logger;
  readonly redactor: Redactor;
  readonly onProgress: (state: DownloadState) => void;
  /** The built `binary-worker`. */
  readonly workerUrl: URL;
  readonly host: Host;
}

/** Finds the browser, downloads it if it is missing, and says how to launch it. */
export class BinarySource {
  readonly #settings: BinarySettings;
  readonly #logger: Logger;
  readonly #redactor: Redactor;
  readonly #workerUrl: URL;
  readonly #host: Host;
  readonly #progress: DownloadProgress;
  readonly #cacheDir: string;
  readonly #closing = new AbortController();
  readonly #background = new Set<Promise<void>>();
  #flight: Promise<LaunchPlan> | undefined;
  #plan: LaunchPlan | undefined;
  #facts: WrapperFacts | undefined;
  #source: BinaryInfo['source'];

  constructor(settings: BinarySettings, dependencies: BinaryDependencies) {
    this.#settings = settings;
    this.#logger = dependencies.logger;
    this.#redactor = dependencies.redactor;
    this.#workerUrl = dependencies.workerUrl;
    this.#host = dependencies.host;
    this.#progress = new DownloadProgress(dependencies.logger, dependencies.onProgress);
    this.#cacheDir = resolveCacheDir(settings.env, dependencies.host.homeDir);
    this.#source = settings.binaryPath === undefined ? 'none' : 'binary-path';
    this.#redactor.add(...secretsOf(settings));
  }

  /** How far the browser binary is. */
  get download(): DownloadState {
    return this.#progress.state;
  }

  /**
   * The plan for a launch. Callers share one search and one download; the signal ends only the caller's own wait. The
   * plan is kept, so that every generation of a session gets the same fingerprint.
   */
  async resolve(signal?: AbortSignal): Promise<LaunchPlan> {
    const flight = this.#flight ?? this.#begin();
    if (signal === undefined) return flight;
    return untilAborted(flight, signal);
  }

  #begin(): Promise<LaunchPlan> {
    const flight = this.#attempt().finally(() => {
      if (this.#flight === flight) this.#flight = undefined;
    });
    this.#flight = flight;
    return flight;
  }

  async #attempt(): Promise<LaunchPlan> {
    try {
      if (this.#plan !== undefined && (await isExecutableFile(this.#plan.executablePath))) return this.#plan;
      this.#progress.set({ state: 'checking' });
      if (this.#settings.binaryPath !== undefined) await checkBinaryPath(this.#settings.binaryPath);
      const launch = await this.#obtain();
      this.#progress.set({ state: 'ready' });
      this.#plan = await this.#describePlan(launch);
      this.#followUp();
      return this.#plan;
    } catch (thrown) {
      const error = this.#withoutSecrets(toBridgeError(thrown));
      this.#progress.set({ state: 'failed', code: error.code, message: error.message });
      throw error;
    }
  }

  #withoutSecrets(error: BridgeError): BridgeError {
    const hint = error.hint === undefined ? undefined : this.#redactor.clean(error.hint);
    return new BridgeError(error.code, this.#redactor.clean(error.message), { hint, data: error.data });
  }

  /** What is installed, or what is installed after a download of ours or of another program. */
  async #obtain(): Promise<WrapperLaunch> {
    let hasInstalled = false;
    for (;;) {
      const { launch, facts } = await this.#run('plan', this.#cacheDir);
      this.#facts = facts;
      if (launch !== undefined) {
        if (this.#settings.binaryPath === undefined) this.#source = hasInstalled ? 'downloaded' : 'cache';
        return launch;
      }
      if (hasInstalled) {
        throw new BridgeError('download_corrupt', `The downloaded browser is not usable: ${facts.path ?? 'no path'}.`);
      }
      const lock = await this.#acquireLock();
      if (lock === undefined) {
        await this.#watchOther();
        continue;
      }
      try {
        await this.#install('install', lock);
        hasInstalled = true;
      } finally {
        await lock.release();
      }
    }
  }

  async #acquireLock(): Promise<DownloadLock | undefined> {
    try {
      makeFolder(this.#cacheDir);
      return await acquireDownloadLock(this.#cacheDir, this.#host);
    } catch (cause) {
      throw folderError(this.#cacheDir, cause);
    }
  }

  async #watchOther(): Promise<void> {
    this.#logger.info('download by another program awaited', { path: this.#cacheDir });
    await watchDownloadLock(this.#cacheDir, {
      host: this.#host,
      signal: this.#closing.signal,
      onProgress: (state) => {
        this.#progress.set(state);
      },
    });
    this.#progress.set({ state: 'checking' });
  }

  async #install(task: 'install' | 'update', lock: DownloadLock): Promise<void> {
    await sweepStaging(this.#cacheDir, this.#host);
    const staging = await openStaging(this.#cacheDir, this.#host);
    const startedAt = performance.now();
    try {
      const { executablePath } = await this.#run(task, staging.folder, lock);
      if (executablePath === undefined) throw new Error('the wrapper named no executable');
      await staging.promote(executablePath).catch((cause: unknown) => {
        throw folderError(this.#cacheDir, cause);
      });
      if (task === 'update') return;
      this.#logger.info('browser installed', {
        durationMs: Math.round(performance.now() - startedAt),
        path: this.#cacheDir,
      });
    } finally {
      await staging.close();
    }
  }

  #run(task: Task, cacheDir: string, lock?: DownloadLock): Promise<JobAnswer> {
    const onMessage = (message: JobMessage): void => {
      if (message.type === 'facts') this.#facts = message.facts;
      // An update goes on behind a browser that is ready; its progress would hide that.
      if (task !== 'install') return;
      if (message.type === 'progress') this.#progress.setRequest(message.request, this.#facts?.version ?? 'unknown');
      if (message.type === 'received') this.#progress.set({ state: 'extracting' });
      lock?.report(this.#progress.state);
    };
    const setup = {
      workerUrl: this.#workerUrl,
      env: resolveWorkerEnv(task, this.#settings, cacheDir),
      cacheDir: this.#cacheDir,
      logger: this.#logger,
      redactor: this.#redactor,
      onMessage,
    };
    return runJob(resolveJob(task, this.#settings), setup, this.#closing.signal);
  }

  async #describePlan(launch: WrapperLaunch): Promise<LaunchPlan> {
    this.#redactor.add(...Object.values(launch.env ?? {}));
    const { sandbox, extraArgs } = this.#settings;
    const isDecided = sandbox !== undefined || refusesSandbox(extraArgs);
    const detected = isDecided ? { enabled: true } : await detectSandbox(launch.executablePath);
    const info = this.#describe(launch.executablePath, true);
    return planLaunch({ launch, info, extraArgs, sandbox, detected });
  }

  #describe(path: string | undefined, installed: boolean): BinaryInfo {
    return describeBinary({
      facts: this.#facts,
      path,
      installed,
      source: this.#source,
      settings: this.#settings,
      cacheDir: this.#cacheDir,
      download: this.download,
    });
  }

  /** What is known of the browser: never downloads, and starts nothing once a search has run. */
  async info(): Promise<BinaryInfo> {
    if (this.#facts === undefined) {
      const answer = await this.#run('info', this.#cacheDir).catch(() => undefined); // Unknown is an answer, too.
      // A search that ran meanwhile knows more.
      this.#facts ??= answer?.facts;
    }
    const path = this.#plan?.executablePath ?? this.#settings.binaryPath ?? this.#facts?.path;
    return this.#describe(path, path !== undefined && (await isExecutableFile(path)));
  }

  /** What need not be waited for: leftovers of dead programs, and the wrapper's own update if it is wanted. */
  #followUp(): void {
    if (this.#settings.binaryPath !== undefined) return;
    const work = this.#tidyAndUpdate().catch((cause: unknown) => {
      if (this.#closing.signal.aborted) return; // Ended by us.
      this.#logger.warn('browser update failed', { reason: this.#redactor.clean(messageOf(cause)) });
    });
    this.#background.add(work);
    void work.then(() => this.#background.delete(work));
  }

  async #tidyAndUpdate(): Promise<void> {
    await clearDeadLock(this.#cacheDir, this.#host);
    if (!this.#settings.autoUpdate && !(await hasStaging(this.#cacheDir))) return;
    // Only under the lock: another container's download may use this cache, whose processes cannot be told from here.
    const lock = await acquireDownloadLock(this.#cacheDir, this.#host);
    if (lock === undefined) return;
    try {
      await sweepStaging(this.#cacheDir, this.#host);
      if (!this.#settings.autoUpdate) return;
      await this.#install('update', lock);
      this.#logger.debug('browser update ended');
    } finally {
      await lock.release();
    }
  }

  /** Ends what is running; no thread, lock or staging folder is left. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#flight?.catch(() => undefined); // Whoever waits for it gets the error.
    await Promise.all(this.#background);
  }
}

function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(new BridgeError('start_pending', 'The wait for the browser was ended.', { cause: signal.reason }));
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    void promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', abort);
    });
  });
}
