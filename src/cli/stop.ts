import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';

import { BridgeError } from '../core/errors.ts';

/** How often the parent is looked at. A client that was killed while something else holds its pipe is noticed within this time. */
const parentCheckMs = 3000;
/** One Ctrl-C may arrive twice: from the terminal, and passed on by npx. */
const sameSignalMs = 300;
/** Shells and orchestrators read 128 + number as "ended by that signal". */
const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** What can end the program from outside. */
export interface StopWatch {
  /** Aborted once, with the reason in words. */
  readonly signal: AbortSignal;
  /** Begins the ordered end for another reason, e.g. the end of stdin. */
  readonly stop: (reason: string) => void;
}

function watchParent(onGone: () => void): void {
  const parent = process.ppid;
  // Started by init, as in a container: there is no client's parent that could die.
  if (parent <= 1) return;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, parentCheckMs);
  timer.unref();
}

/** True where a terminal controls the program: once it is closed, SIGHUP means that, and no wish to reload. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

/**
 * Turns signals, an uncaught failure and the death of the parent into one abort. A second signal calls `force`, for
 * somebody who does not want to wait for the ordered end. With `reload` it is a service: SIGHUP means to reload, and the
 * parent's death nothing.
 */
export function watchStop(
  force: (exitCode: number) => void,
  onFailure: (failure: BridgeError) => void,
  reload?: () => void,
): StopWatch {
  const controller = new AbortController();
  const stop = (reason: string): void => {
    if (!controller.signal.aborted) controller.abort(reason);
  };
  // Asked now: the descriptors of a terminal that was closed are none of a terminal any more.
  const isFromTerminal = isatty(0) || isatty(2);
  let firstAt: number | undefined;
  for (const [signal, exitCode] of Object.entries(exitCodes)) {
    process.on(signal, () => {
      if (signal === 'SIGHUP' && reload !== undefined && (!isFromTerminal || hasTerminal())) {
        reload();
        return;
      }
      // Clients end stdin first and send a signal when it takes long: that one is the first, not the second.
      if (firstAt !== undefined && performance.now() - firstAt > sameSignalMs) force(exitCode);
      firstAt ??= performance.now();
      stop(signal);
    });
  }
  const fail = (failure: unknown): void => {
    const message = failure instanceof Error ? failure.message : String(failure);
    onFailure(new BridgeError('internal', message, { cause: failure }));
    stop('an internal failure');
  };
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);
  // A service is meant to outlive the shell that started it.
  if (reload === undefined) {
    watchParent(() => {
      stop('the parent process ended');
    });
  }
  return { signal: controller.signal, stop };
}
