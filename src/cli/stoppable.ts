import { constants } from 'node:os';

import { watchStop } from './stop.ts';

/**
 * Runs a command of a person, who may interrupt it: the command sees an abort, gives back what it holds and ends as
 * usual. A second signal ends the program at once. Returns the exit code.
 */
export async function runStoppable(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  let failure: Error | undefined;
  const watch = watchStop(
    (code) => process.exit(code),
    (uncaught) => {
      failure = uncaught;
    },
  );
  // A reader such as `head` may leave early; what it did not want to see is not worth a failure.
  process.stdout.on('error', () => undefined);
  const code = await work(watch.signal);
  if (failure !== undefined) throw failure;
  if (!watch.signal.aborted) return code;
  const number = Object.entries(constants.signals).find(([name]) => name === watch.signal.reason)?.[1];
  return number === undefined ? 1 : 128 + number;
}
