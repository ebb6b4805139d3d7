import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Listing } from '../relay/listing.ts';
import type { Relay } from '../relay/relay.ts';
import type { ChildExit } from '../upstream/child.ts';
import { type Generation, describeExit, lastWords } from './generation.ts';
import type { BrowserLoss, Surface } from './surface-port.ts';

/** Why a generation was lost. */
export interface Loss {
  readonly generation: number;
  /** A word of a closed list: how the child ended, or what became of the browser. */
  readonly code: LossCode;
  readonly reason: string;
  /** ISO 8601. */
  readonly at: string;
}

/** The words for a loss. */
export type LossCode = 'child_exit' | 'browser_close_tool' | BrowserLoss;

/** What metrics are told of a loss. */
export type LossKind = 'exit' | 'signal' | 'failure' | 'browser';

/** What losses are noticed with. */
export interface LossesParts {
  /** Forgets the generation: nothing more is sent to it. */
  readonly forget: (generation: Generation) => void;
  readonly relay: Relay;
  readonly listing: Listing;
  readonly surface: Surface | undefined;
  readonly logger: Logger;
  readonly onLost: (kind: LossKind) => void;
  /** Time for a child whose browser is lost to answer what it has, in milliseconds. */
  readonly answerMs: number;
}

const browserReasons: Readonly<Record<Exclude<LossCode, 'child_exit'>, string>> = {
  browser_close_tool: 'The browser was closed by browser_close.',
  sentinel_closed: 'The browser ended.',
  heartbeat_timeout: 'The browser does not answer any more.',
  mcp_context_gone: "The browser context of the session's pages was closed.",
  idle_timeout: 'The browser was closed because nobody used it.',
};

/** Notices the loss of generations: at once nothing more goes to a lost one, then what was with it is answered and it is ended. */
export class Losses {
  readonly #parts: LossesParts;
  #last: Loss | undefined;
  #ending: Promise<void> = Promise.resolve();

  constructor(parts: LossesParts) {
    this.#parts = parts;
  }

  /** Why the last generation was lost. */
  get last(): Loss | undefined {
    return this.#last;
  }

  /** Settles when nothing is left of the lost ones. */
  get ending(): Promise<void> {
    return this.#ending;
  }

  /** Its child is gone. */
  loseChild(generation: Generation): void {
    if (!this.#lose(generation, 'child_exit')) return;
    this.#ending = generation.child.ended.then((exit) => this.#buryChild(generation, exit));
  }

  /** Its child lives, its browser does not. */
  loseBrowser(generation: Generation, loss: BrowserLoss): void {
    // Upstream closes the browser context first, and a heartbeat may come between that and the end of the browser.
    const isClosed = loss === 'sentinel_closed' || loss === 'mcp_context_gone';
    const wasAsked = isClosed && this.#parts.relay.toolsAt(generation.link).includes('browser_close');
    const code = wasAsked ? 'browser_close_tool' : loss;
    if (!this.#lose(generation, code)) return;
    this.#note(generation, code, browserReasons[code]);
    this.#ending = this.#buryBrowser(generation, browserReasons[code]);
  }

  #lose(generation: Generation, code: LossCode): boolean {
    if (!generation.markLost()) return false;
    this.#parts.forget(generation);
    this.#parts.surface?.withdraw({ generation: generation.number, code });
    return true;
  }

  #note(generation: Generation, code: LossCode, reason: string): void {
    this.#last = { generation: generation.number, code, reason, at: new Date().toISOString() };
    this.#parts.listing.reset();
  }

  async #buryChild(generation: Generation, exit: ChildExit): Promise<void> {
    const reason = `The browser process ended (${describeExit(exit)}).`;
    this.#note(generation, 'child_exit', reason);
    const { code, signal } = exit;
    this.#parts.logger.warn('generation lost', { generation: generation.number, code, signal });
    this.#parts.onLost(exit.failure !== undefined ? 'failure' : signal === null ? 'exit' : 'signal');
    this.#fail(generation, () => {
      const message = `${reason} This call had been sent to it and may have run, in part or whole.${lastWords(generation.child)}`;
      return new BridgeError('child_lost', message, {
        hint: 'It is not repeated. The next call gets a new browser; open tabs and their state are gone.',
        data: { phase: 'call', exitCode: code, signal },
      });
    });
    await this.#end(generation, reason);
  }

  /** Upstream answers most of what it has by itself: `browser_close` after the browser has gone, other calls with an error. */
  async #buryBrowser(generation: Generation, reason: string): Promise<void> {
    const { relay, logger, answerMs } = this.#parts;
    logger.warn('browser lost', { generation: generation.number, reason });
    this.#parts.onLost('browser');
    const answered = await within(
      Promise.race([relay.whenAnswered(generation.link), generation.child.ended]),
      answerMs,
    );
    if (answered === timedOut) logger.debug('calls given up', { generation: generation.number, durationMs: answerMs });
    this.#fail(
      generation,
      () =>
        new BridgeError('browser_lost', `${reason} This call had been sent to it and may have run, in part or whole.`, {
          hint: 'It is not repeated. The next call gets a new browser; open tabs and their state are gone.',
          data: { phase: 'call' },
        }),
    );
    // What it held went with the browser, so there is nothing that a slow end would save.
    generation.giveUp();
    await this.#end(generation, reason);
  }

  #fail(generation: Generation, errorFor: () => BridgeError): void {
    this.#parts.relay.failAll(generation.link, errorFor);
  }

  async #end(generation: Generation, reason: string): Promise<void> {
    generation.link.break(reason);
    await generation.close().catch((failure: unknown) => {
      this.#parts.logger.error('generation not closed', {
        generation: generation.number,
        reason: messageOf(failure),
      });
    });
  }
}
