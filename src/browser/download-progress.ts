import type { Logger } from '../core/logger.ts';
import type { ArchiveRequest } from './binary-failure.ts';
import { describeAmount } from './download-state.ts';
import type { DownloadState } from './download-state.ts';

/** A log line at each tenth, or after this time. */
const logIntervalMs = 5000;
const tenths = 10;

/** Holds the state of the browser binary, passes each change on and writes a few of them to the log. */
export class DownloadProgress {
  readonly #logger: Logger;
  readonly #onProgress: (state: DownloadState) => void;
  #state: DownloadState = { state: 'idle' };
  #loggedTenth = -1;
  #loggedAt = 0;

  constructor(logger: Logger, onProgress: (state: DownloadState) => void) {
    this.#logger = logger;
    this.#onProgress = onProgress;
  }

  /** The latest state. */
  get state(): DownloadState {
    return this.#state;
  }

  /** Takes a new state over. */
  set(state: DownloadState): void {
    if (state.state === 'downloading') this.#log(state);
    else this.#loggedTenth = -1;
    this.#state = state;
    this.#onProgress(state);
  }

  /** Takes the numbers of an archive request over. */
  setRequest(request: ArchiveRequest, version: string): void {
    const { host, receivedBytes, totalBytes } = request;
    this.set({ state: 'downloading', host, version: request.version ?? version, receivedBytes, totalBytes });
  }

  #log(state: Extract<DownloadState, { state: 'downloading' }>): void {
    const { receivedBytes, totalBytes, version } = state;
    const now = performance.now();
    const tenth = totalBytes === undefined ? 0 : Math.floor((receivedBytes / totalBytes) * tenths);
    if (tenth <= this.#loggedTenth && now - this.#loggedAt < logIntervalMs) return;
    this.#loggedTenth = Math.max(tenth, this.#loggedTenth);
    this.#loggedAt = now;
    const line = `${describeAmount(receivedBytes, totalBytes)} from ${state.host}`;
    this.#logger.info('browser download progressed', { line, version, bytes: receivedBytes });
  }
}
