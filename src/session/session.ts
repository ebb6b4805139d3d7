import { randomBytes } from 'node:crypto';

import { type Catalog, isSameList } from '../core/catalog.ts';
import { within } from '../core/deadline.ts';
import { type ErrorCode, messageOf, toBridgeError } from '../core/errors.ts';
import { idOfCutLine, kindOfCutLine } from '../core/line-ends.ts';
import type { Logger } from '../core/logger.ts';
import type { ClientPort } from '../relay/client-port.ts';
import { type Listing, fetchToolList, negotiateVersion } from '../relay/listing.ts';
import { tooLargeError } from '../relay/answers.ts';
import { Relay } from '../relay/relay.ts';
import { Ahead, type Booted } from './ahead.ts';
import { bootstrap } from './bootstrap.ts';
import { Gate, type GateLimits, closingError } from './gate.ts';
import { type Generation, type StartedChild, startGeneration } from './generation.ts';
import { type Loss, type LossKind, Losses } from './losses.ts';
import type { BrowserLoss, Surface } from './surface-port.ts';

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

/** What a session tells of its generations, for metrics. */
export interface SessionEvents {
  /** A generation answered after so many milliseconds. */
  onReady(durationMs: number): void;
  onStartFailed(code: ErrorCode): void;
  /** A generation was lost; the reason is a word of a closed list. */
  onLost(kind: LossKind): void;
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
  /** The second surface on the browser. */
  readonly surface?: Surface | undefined;
  /** True to start a browser with a surface as soon as the child: otherwise it waits for the first call. */
  readonly opensSurface?: boolean;
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
  readonly #losses: Losses;
  readonly #ahead: Ahead;
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
        if (parts.isEager) void catalogReady.then(() => this.#prepare());
      },
    });
    this.#losses = new Losses({
      forget: (generation) => this.#gate.lose(generation),
      relay: this.#relay,
      listing: parts.listing,
      surface: parts.surface,
      logger: parts.logger,
      onLost: (kind) => parts.events?.onLost(kind),
      answerMs: parts.limits.closeGraceMs,
    });
    this.#ahead = new Ahead((signal) => this.#bootChild(1, signal));
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
    return this.#losses.last;
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
    const { surface } = this.#parts;
    this.#relay.close(closingError());
    surface?.stop();
    try {
      await this.#ahead.close();
      await this.#gate.close();
      await this.#losses.ending;
    } finally {
      await surface?.close();
    }
  }

  /** A browser with a surface is started for the first call, unless that is wanted sooner; its child need not wait. */
  #prepare(): void {
    if (this.#closing !== undefined) return;
    if (this.#parts.surface === undefined || this.#parts.opensSurface === true) this.#gate.warm();
    else this.#ahead.begin();
  }

  async #startGeneration(number: number, signal: AbortSignal): Promise<Generation> {
    const { limits, logger, surface } = this.#parts;
    const startedAt = performance.now();
    const { generation, answer } = (await this.#ahead.take()) ?? (await this.#bootChild(number, signal));
    if (surface !== undefined) {
      const timeoutMs = Math.max(0, limits.restartTimeoutMs - (performance.now() - startedAt));
      const onLost = (loss: BrowserLoss): void => this.#losses.loseBrowser(generation, loss);
      await bootstrap({ generation, surface, timeoutMs, onLost }, signal);
    }
    this.#answers.set(generation, JSON.parse(answer.toString('utf8')) as Record<string, unknown>);
    const durationMs = Math.round(performance.now() - startedAt);
    logger.info('generation ready', { generation: number, pid: generation.child.pid, durationMs });
    this.#parts.events?.onReady(durationMs);
    return generation;
  }

  async #bootChild(number: number, signal: AbortSignal): Promise<Booted> {
    // The old child is gone before a new one starts: there is never more than one browser, and its profile is free.
    await this.#losses.ending;
    const { limits, logger } = this.#parts;
    return startGeneration(
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
  }

  #welcome(generation: Generation): void {
    this.#relay.attach(generation.link, this.#parts.limits.maxMessageBytes);
    void generation.child.gone.then(() => {
      this.#losses.loseChild(generation);
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
}

/** True when both answers to `initialize` offer the same; the protocol version is each client's own. */
function isSameOffer(one: Readonly<Record<string, unknown>>, other: Readonly<Record<string, unknown>>): boolean {
  const { protocolVersion: _one, ...first } = one;
  const { protocolVersion: _other, ...second } = other;
  return JSON.stringify(first) === JSON.stringify(second);
}
