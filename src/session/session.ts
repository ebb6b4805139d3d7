import { randomBytes } from 'node:crypto';

import { type Catalog, isSameList } from '../core/catalog.ts';
import { within } from '../core/deadline.ts';
import { BridgeError, type ErrorCode, messageOf, toBridgeError } from '../core/errors.ts';
import { idOfCutLine, kindOfCutLine } from '../core/line-ends.ts';
import type { Logger } from '../core/logger.ts';
import type { ClientPort } from '../relay/client-port.ts';
import { type Listing, fetchToolList, negotiateVersion } from '../relay/listing.ts';
import { tooLargeError } from '../relay/answers.ts';
import { Relay } from '../relay/relay.ts';
import type { ChildExit } from '../upstream/child.ts';
import { Gate, type GateLimits, closingError } from './gate.ts';
import { type Generation, type StartedChild, describeExit, lastWords, startGeneration } from './generation.ts';

/** What a child is told of a client that leaves out what the protocol requires. */
const assumedClient = { capabilities: {}, clientInfo: { name: 'unknown', version: '0' } };

/** Time for a new child to list its tools before the client is told of the replacement all the same. */
const compareMs = 5000;

/** Limits of a session. */
export interface SessionLimits extends GateLimits {
  readonly rootsTimeoutMs: number;
  readonly closeGraceMs: number;
  readonly maxMessageBytes: number;
}

/** Why a generation was lost. */
export interface Loss {
  readonly generation: number;
  readonly reason: string;
  /** ISO 8601. */
  readonly at: string;
}

/** What a session tells of its generations, for metrics. */
export interface SessionEvents {
  /** A generation answered after so many milliseconds. */
  onReady(durationMs: number): void;
  onStartFailed(code: ErrorCode): void;
  /** A generation was lost; the reason is a word of a closed list. */
  onLost(reason: 'exit' | 'signal' | 'failure'): void;
}

/** What a session is made with. */
export interface SessionParts {
  readonly client: ClientPort;
  readonly listing: Listing;
  readonly logger: Logger;
  readonly limits: SessionLimits;
  /** The catalog, stored or learned; undefined when it cannot be had. */
  readonly catalog: Promise<Catalog | undefined>;
  /** Keeps a catalog that a real child corrected. */
  readonly storeCatalog: (catalog: Catalog) => void;
  readonly startChild: (number: number, signal: AbortSignal) => Promise<StartedChild>;
  readonly describeWait: () => string;
  /** True to start the first child as soon as the client has said `initialize`, false to wait for its first call. */
  readonly isEager: boolean;
  readonly events?: SessionEvents;
}

/** One MCP client's stay: owns relay, gate and generations, and gives them back in reverse order. */
export class Session {
  readonly #parts: SessionParts;
  readonly #gate: Gate;
  readonly #relay: Relay;
  readonly #ownPrefix = `cloakbrowser-mcp/${randomBytes(9).toString('base64url')}/`;
  #initialize: Readonly<Record<string, unknown>> | undefined;
  /** What each child answered to `initialize`. */
  readonly #answers = new WeakMap<Generation, Readonly<Record<string, unknown>>>();
  #outerIds = 0;
  #ending: Promise<void> = Promise.resolve();
  #lastLoss: Loss | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    const catalogReady = parts.catalog.then(
      (catalog) => {
        if (catalog !== undefined) parts.listing.use(catalog);
      },
      (failure: unknown) => {
        // Without a catalog the client still gets the local tools, which tell why.
        parts.logger.error('catalog not found', { reason: messageOf(failure) });
      },
    );
    this.#gate = new Gate({
      limits: parts.limits,
      logger: parts.logger,
      startGeneration: async (number, signal) => {
        try {
          return await this.#startGeneration(number, signal);
        } catch (failure) {
          parts.events?.onStartFailed(toBridgeError(failure).code);
          throw failure;
        }
      },
      onReady: (generation) => {
        this.#welcome(generation);
      },
      describeWait: parts.describeWait,
    });
    this.#relay = new Relay({
      client: parts.client,
      gate: this.#gate,
      listing: parts.listing,
      logger: parts.logger,
      catalogReady,
      onInitialize: (params) => {
        // Every child speaks the version that the client was told.
        const protocolVersion = negotiateVersion(params['protocolVersion']);
        // A child cannot be told of another client: the first one counts for all of them.
        this.#initialize ??= { ...assumedClient, ...params, protocolVersion };
        // Learning the catalog goes first: two children at once would slow the answer down.
        if (parts.isEager)
          void catalogReady.then(() => {
            this.#gate.warm();
          });
      },
    });
  }

  /** The relay, for what the client is told besides answers. */
  get relay(): Relay {
    return this.#relay;
  }

  /** The gate, for the info tool. */
  get gate(): Gate {
    return this.#gate;
  }

  /** Why the last generation was lost. */
  get lastLoss(): Loss | undefined {
    return this.#lastLoss;
  }

  /** `open -> closing`, only to the right. */
  get state(): 'open' | 'closing' {
    return this.#closing === undefined ? 'open' : 'closing';
  }

  /** Bytes of the client's messages that no child has read yet. */
  get unreadBytes(): number {
    return this.#gate.unreadBytes + this.#relay.waitingBytes;
  }

  /** Takes one line from the client. */
  accept(line: Buffer): void {
    if (this.#closing === undefined) this.#relay.accept(line);
  }

  /** Takes the notice that a line of the client was over the limit. */
  acceptOversize(head: Buffer, tail: Buffer, bytes: number): void {
    const { maxMessageBytes } = this.#parts.limits;
    const idText = idOfCutLine(head, tail);
    if (kindOfCutLine(head) === 'answer') {
      this.#gate.link?.failAnswer(idText, tooLargeError('The answer of the client', bytes, maxMessageBytes));
    } else {
      this.#relay.acceptOversize(idText, bytes, maxMessageBytes);
    }
  }

  /** Ends the session and everything below it, once. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    this.#relay.close(closingError());
    await this.#gate.close();
    await this.#ending;
  }

  async #startGeneration(number: number, signal: AbortSignal): Promise<Generation> {
    // The old child is gone before a new one starts: there is never more than one browser, and its profile is free.
    await this.#ending;
    const { limits, logger } = this.#parts;
    const startedAt = performance.now();
    const { generation, answer } = await startGeneration(
      {
        number,
        logger,
        initialize: this.#initialize ?? assumedClient,
        logLevel: this.#relay.logLevel,
        timeoutMs: limits.restartTimeoutMs,
        closeGraceMs: limits.closeGraceMs,
        link: {
          ownPrefix: this.#ownPrefix,
          rootsTimeoutMs: limits.rootsTimeoutMs,
          nextOuterId: () => {
            this.#outerIds += 1;
            return this.#outerIds - 1;
          },
        },
        startChild: (abort) => this.#parts.startChild(number, abort),
      },
      signal,
    );
    this.#answers.set(generation, JSON.parse(answer.toString('utf8')) as Record<string, unknown>);
    const durationMs = Math.round(performance.now() - startedAt);
    logger.info('generation ready', { generation: number, pid: generation.child.pid, durationMs });
    this.#parts.events?.onReady(durationMs);
    return generation;
  }

  #welcome(generation: Generation): void {
    this.#relay.attach(generation.link, this.#parts.limits.maxMessageBytes);
    void generation.child.gone.then(() => {
      this.#lose(generation);
    });
    // A child that is slow to list its tools must not keep the client from learning that it is another one.
    void within(this.#compareList(generation), compareMs).then((hasChanged) => {
      if (hasChanged === true || generation.number > 1) this.#relay.announceTools();
    });
  }

  /** Compares a real child's list and offer with the catalog, and corrects it; true when the tools are others. */
  async #compareList(generation: Generation): Promise<boolean> {
    const { listing, logger } = this.#parts;
    const answer = this.#answers.get(generation) ?? {};
    try {
      const list = await fetchToolList(generation.link);
      const isSame = isSameList(list, listing.catalog);
      if (generation.state !== 'ready' || (isSame && isSameOffer(answer, listing.catalog.initialize))) return false;
      const catalog = { ...list, initialize: answer };
      listing.use(catalog);
      this.#parts.storeCatalog(catalog);
      logger.info('catalog corrected', { generation: generation.number, count: list.tools.length });
      return !isSame;
    } catch (failure) {
      logger.debug('tool list not compared', { generation: generation.number, reason: messageOf(failure) });
      return false;
    }
  }

  /** At once nothing more goes to a lost child; what was with it is answered when its last lines are read. */
  #lose(generation: Generation): void {
    if (!generation.markLost()) return;
    this.#gate.lose(generation);
    this.#ending = generation.child.ended.then((exit) => this.#bury(generation, exit));
  }

  async #bury(generation: Generation, exit: ChildExit): Promise<void> {
    const reason = `The browser process ended (${describeExit(exit)}).`;
    this.#lastLoss = { generation: generation.number, reason, at: new Date().toISOString() };
    this.#parts.logger.warn('generation lost', { generation: generation.number, code: exit.code, signal: exit.signal });
    this.#parts.events?.onLost(exit.failure !== undefined ? 'failure' : exit.signal === null ? 'exit' : 'signal');
    this.#parts.listing.reset();
    const words = lastWords(generation.child);
    this.#relay.failAll(
      generation.link,
      () =>
        new BridgeError(
          'child_lost',
          `${reason} This call had been sent to it and may have run, in part or whole.${words}`,
          {
            hint: 'It is not repeated. The next call gets a new browser; open tabs and their state are gone.',
            data: { phase: 'call', exitCode: exit.code, signal: exit.signal },
          },
        ),
    );
    generation.link.break(reason);
    await generation.close().catch((failure: unknown) => {
      this.#parts.logger.error('generation not closed', { generation: generation.number, reason: messageOf(failure) });
    });
  }
}

/** True when both answers to `initialize` offer the same; the protocol version is each client's own. */
function isSameOffer(one: Readonly<Record<string, unknown>>, other: Readonly<Record<string, unknown>>): boolean {
  const { protocolVersion: _one, ...first } = one;
  const { protocolVersion: _other, ...second } = other;
  return JSON.stringify(first) === JSON.stringify(second);
}
