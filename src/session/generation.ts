import type { Catalog } from '../core/catalog.ts';
import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { Scope } from '../core/scope.ts';
import { Link, type LinkParts } from '../relay/link.ts';
import { fetchToolList } from '../relay/listing.ts';
import type { Child, ChildExit } from '../upstream/child.ts';
import type { DebuggedBrowser } from './surface-port.ts';

/** `starting -> ready -> lost -> closed`, only to the right. */
export type GenerationState = 'starting' | 'ready' | 'lost' | 'closed';

/** A started child and what must be given back after its end. */
export interface StartedChild {
  readonly child: Child;
  readonly release: () => void | Promise<void>;
  /** Called when the start has ended, well or not: the child no longer uses the machine as a starting one does. */
  readonly settled?: () => void;
  /** How its browser is reached beside MCP; undefined without managed CDP. */
  readonly browser?: DebuggedBrowser;
}

/** What a generation is started with. */
export interface GenerationParts {
  readonly number: number;
  readonly logger: Logger;
  /** Parameters of the `initialize` that the child gets. */
  readonly initialize: Readonly<Record<string, unknown>>;
  /** Log level to repeat to the child, if the client set one. */
  readonly logLevel: string | undefined;
  /** Time for the child to answer `initialize`, in milliseconds. */
  readonly timeoutMs: number;
  /** Time for a used child to end after SIGTERM, in milliseconds. */
  readonly closeGraceMs: number;
  readonly link: Omit<LinkParts, 'port' | 'logger'>;
  readonly startChild: (signal: AbortSignal) => Promise<StartedChild>;
}

/** One child with its browser. Replaceable, never revived. Made by `startGeneration`. */
export class Generation {
  readonly number: number;
  readonly link: Link;
  readonly child: Child;
  /** How its browser is reached beside MCP; undefined without managed CDP. */
  readonly browser: DebuggedBrowser | undefined;
  readonly #scope = new Scope();
  readonly #parts: GenerationParts;
  #state: GenerationState = 'starting';
  #isGivenUp = false;

  constructor(started: StartedChild, parts: GenerationParts) {
    this.number = parts.number;
    this.child = started.child;
    this.browser = started.browser;
    this.#parts = parts;
    this.#scope.defer(() => started.release());
    this.link = new Link({ ...parts.link, port: started.child, logger: parts.logger });
    this.#scope.defer(() => this.#endChild());
    started.child.listen({
      onLine: (line) => {
        this.link.accept(line);
      },
      onChunks: (chunks, bytes) => {
        this.link.acceptChunks(chunks, bytes);
      },
      onOversize: (head, tail, bytes) => {
        this.link.acceptOversize(head, tail, bytes);
      },
    });
  }

  get state(): GenerationState {
    return this.#state;
  }

  /** The child answered `initialize`. */
  markReady(): void {
    this.#state = 'ready';
  }

  /** The child is gone; false if that was known or wanted. */
  markLost(): boolean {
    if (this.#state !== 'ready') return false;
    this.#state = 'lost';
    return true;
  }

  /** Nothing is left in it that a slow end would save. */
  giveUp(): void {
    this.#isGivenUp = true;
  }

  /** Ends the child and what it started, and removes its folder. */
  close(): Promise<void> {
    this.#state = 'closed';
    return this.#scope.close();
  }

  async #endChild(): Promise<void> {
    this.child.mute();
    // What was never used holds no page, no profile and no file that a slow end would save.
    await this.child.close(this.link.isUsed && !this.#isGivenUp ? this.#parts.closeGraceMs : 0);
    this.link.break('The browser process was ended.');
  }
}

/** How a child ended, in words. */
export function describeExit(exit: ChildExit): string {
  if (exit.failure !== undefined) return exit.failure;
  return exit.signal === null ? `exit code ${exit.code ?? 'unknown'}` : `signal ${exit.signal}`;
}

/** The last lines of the child's stderr as the end of a message; empty if it wrote none. */
export function lastWords(child: Child): string {
  const tail = child.stderrTail();
  return tail === '' ? '' : ` Its last lines were:\n${tail}`;
}

async function handshake(generation: Generation, parts: GenerationParts): Promise<Buffer> {
  const { link } = generation;
  const answer = await link.request('initialize', parts.initialize);
  link.notify('notifications/initialized');
  if (parts.logLevel !== undefined) {
    link.request('logging/setLevel', { level: parts.logLevel }).catch(() => {
      // An upstream without logging refuses it, as it refused the client's own request.
    });
  }
  return answer;
}

function startFailure(generation: Generation, exit: ChildExit): BridgeError {
  const { code, signal } = exit;
  const message = `The upstream process ended before it answered initialize (${describeExit(exit)}).${lastWords(generation.child)}`;
  return new BridgeError('child_start_failed', message, {
    hint: 'Run `cloakbrowser-mcp doctor` to see which part does not work.',
    data: { phase: 'start', exitCode: code, signal },
  });
}

function startTimeout(generation: Generation, ms: number): BridgeError {
  const message = `The upstream process did not answer initialize within ${ms} ms.${lastWords(generation.child)}`;
  return new BridgeError('child_start_timeout', message, {
    hint: 'Raise --restart-timeout-ms on a slow machine, or run `cloakbrowser-mcp doctor`.',
    data: { phase: 'start' },
  });
}

/** Rejects when the signal is aborted, until it is released. */
function untilAborted(signal: AbortSignal): { readonly promise: Promise<never>; readonly release: () => void } {
  let release = (): void => undefined;
  const promise = new Promise<never>((_resolve, reject) => {
    const refuse = (): void => {
      reject(new BridgeError('closing', 'The session is ending.'));
    };
    release = () => {
      signal.removeEventListener('abort', refuse);
    };
    if (signal.aborted) refuse();
    else signal.addEventListener('abort', refuse, { once: true });
  });
  promise.catch(() => undefined);
  return { promise, release };
}

/** Starts a child and returns it ready, with its answer to `initialize`; throws with everything undone. */
export async function startGeneration(
  parts: GenerationParts,
  signal: AbortSignal,
): Promise<{ readonly generation: Generation; readonly answer: Buffer }> {
  const started = await parts.startChild(signal);
  const generation = new Generation(started, parts);
  const ended = generation.child.ended.then((exit) => {
    throw startFailure(generation, exit);
  });
  // After the start nobody waits for these any more.
  ended.catch(() => undefined);
  const abort = untilAborted(signal);
  try {
    const answer = await within(Promise.race([handshake(generation, parts), ended, abort.promise]), parts.timeoutMs);
    if (answer === timedOut) throw startTimeout(generation, parts.timeoutMs);
    generation.markReady();
    return { generation, answer };
  } catch (cause) {
    await generation.close();
    throw cause;
  } finally {
    started.settled?.();
    abort.release();
  }
}

/**
 * Learns the catalog from a child of its own. The child is ended afterwards, behind the caller's back: `onClosing` gets
 * the end of it, so that the client's first answers need not wait for it.
 */
export async function learnCatalog(
  parts: GenerationParts,
  signal: AbortSignal,
  onClosing: (closing: Promise<void>) => void,
): Promise<Catalog> {
  const endsAt = performance.now() + parts.timeoutMs;
  const { generation, answer } = await startGeneration(parts, signal);
  const abort = untilAborted(signal);
  try {
    const ended = generation.child.ended.then((exit) => {
      throw startFailure(generation, exit);
    });
    ended.catch(() => undefined);
    const left = Math.max(0, endsAt - performance.now());
    const list = await within(Promise.race([fetchToolList(generation.link), ended, abort.promise]), left);
    if (list === timedOut) throw startTimeout(generation, parts.timeoutMs);
    const closing = generation.close().catch((failure: unknown) => {
      parts.logger.warn('listing child not closed', { reason: messageOf(failure) });
    });
    onClosing(closing);
    return { ...list, initialize: JSON.parse(answer.toString('utf8')) as Record<string, unknown> };
  } catch (cause) {
    await generation.close();
    throw cause;
  } finally {
    abort.release();
  }
}
