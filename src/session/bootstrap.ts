import { timedOut, within } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import { type Generation, describeExit, lastWords } from './generation.ts';
import type { BrowserLoss, Surface } from './surface-port.ts';

/** What a generation's surface is opened with. */
export interface BootstrapParts {
  readonly generation: Generation;
  readonly surface: Surface;
  /** Time for the browser to start and to be proven, in milliseconds. */
  readonly timeoutMs: number;
  readonly onLost: (loss: BrowserLoss) => void;
}

/**
 * Starts the browser of a booted generation and opens the surface on it. Throws `cdp_start_failed` or `closing`, with
 * the generation ended.
 */
export async function bootstrap(parts: BootstrapParts, signal: AbortSignal): Promise<void> {
  const { generation, surface, timeoutMs, onLost } = parts;
  const { browser, child, link } = generation;
  const stop = new AbortController();
  const ended = child.ended.then((exit) => {
    throw failure(`the upstream process ended (${describeExit(exit)}).${lastWords(child)}`);
  });
  ended.catch(() => undefined);
  const abort = new Promise<never>((_resolve, reject) => {
    const refuse = (): void => reject(new BridgeError('closing', 'The session is ending.'));
    if (signal.aborted) refuse();
    signal.addEventListener('abort', refuse, { once: true, signal: stop.signal });
  });
  abort.catch(() => undefined);
  try {
    if (browser === undefined) throw failure('the child was started without it.');
    const opening = surface.open(
      {
        number: generation.number,
        browser,
        callTool: (name, parameters) => link.callTool(name, parameters),
        onLost,
      },
      AbortSignal.any([signal, stop.signal]),
    );
    const done = await within(Promise.race([opening, ended, abort]), timeoutMs);
    if (done === timedOut) {
      generation.giveUp();
      throw failure(`it took longer than ${timeoutMs} ms.${lastWords(child)}`);
    }
    // It may have been lost in the moment after it was published.
    if (generation.state !== 'ready') throw failure('the browser ended at once.');
  } catch (cause) {
    stop.abort();
    surface.withdraw({ generation: generation.number, code: 'start_failed' });
    await generation.close();
    throw cause;
  } finally {
    stop.abort();
  }
}

function failure(text: string): BridgeError {
  return new BridgeError('cdp_start_failed', `The browser could not be opened for managed CDP: ${text}`, {
    hint: 'Try the call again. `cloakbrowser-mcp doctor` shows which part does not work; --no-cdp does without.',
    data: { phase: 'cdp' },
  });
}
