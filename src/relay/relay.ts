import { type BadLine, type Envelope, paramsOf, readEnvelope, toolNameOf, withId } from '../core/envelope.ts';
import { BridgeError, toBridgeError } from '../core/errors.ts';
import type { LineParts } from '../core/framing.ts';
import { scanArray, startsArray } from '../core/json-scan.ts';
import type { Logger } from '../core/logger.ts';
import { badLineError, errorLine, failureLine, notificationLine, resultLine, tooLargeError } from './answers.ts';
import { ClientLog, type LogLevel } from './client-log.ts';
import type { ClientPort } from './client-port.ts';
import type { Link } from './link.ts';
import type { Listing } from './listing.ts';
import { runTool } from './local-tools.ts';
import { type Pending, PendingRequests, type Ticket } from './pending.ts';

/** Where a call waits for a ready child. */
export interface GatePort {
  /** The ready child; undefined while there is none. */
  readonly link: Link | undefined;
  enter(ticket: Ticket): void;
  withdraw(ticket: Ticket): void;
  /** Passes a notification on to the child, in order with the waiting calls; dropped while no child is being started. */
  pass(message: Envelope): void;
}

/** What a relay is made with. */
export interface RelayParts {
  readonly client: ClientPort;
  readonly gate: GatePort;
  readonly listing: Listing;
  readonly logger: Logger;
  /** Settles when a catalog is known or cannot be had; `initialize` and `tools/list` wait for it. */
  readonly catalogReady: Promise<void>;
  /** The client said `initialize`; its parameters are replayed to every child. */
  readonly onInitialize: (params: Readonly<Record<string, unknown>>) => void;
}

/** The relay's side towards one client: decides for each message what happens to it (docs/architecture.md, table). */
export class Relay {
  readonly #parts: RelayParts;
  readonly #pending = new PendingRequests();
  readonly #log = new ClientLog((method, params) => {
    this.#notify(method, params);
  });
  #isInitialized = false;
  #forwarded = 0;

  constructor(parts: RelayParts) {
    this.#parts = parts;
  }

  /** The log level that the client asked for, to be repeated to a new child. */
  get logLevel(): string | undefined {
    return this.#log.level;
  }

  /** How many requests were sent to a child. */
  get forwarded(): number {
    return this.#forwarded;
  }

  /** Bytes of the client's requests that wait for a child. */
  get waitingBytes(): number {
    return this.#pending.waitingBytes();
  }

  /** Takes one line from the client. */
  accept(line: Buffer): void {
    if (startsArray(line)) {
      this.#acceptBatch(line);
      return;
    }
    const message = readEnvelope(line);
    if ('bad' in message) this.#refuse(message);
    else if (message.kind === 'request') this.#acceptRequest(message);
    else if (message.kind === 'notification') this.#acceptNotification(message);
    else if (this.#parts.gate.link?.answerChild(message) !== true) this.#parts.logger.debug('late answer dropped');
  }

  /** Takes the notice that a line of the client was over the limit. */
  acceptOversize(idText: string | undefined, bytes: number, maxBytes: number): void {
    this.#parts.client.answer(idText, errorLine(idText, tooLargeError('The request', bytes, maxBytes)));
  }

  /** Connects a ready child. */
  attach(link: Link, maxBytes: number): void {
    link.attach({
      onAnswer: (answer) => {
        this.#answer(answer);
      },
      onLargeAnswer: (idText, chunks) => this.#answerLarge(idText, chunks),
      onOversize: (idText, bytes) => {
        this.#failOversize(link, idText, tooLargeError('The answer', bytes, maxBytes));
      },
      onMessage: (parts, about) => this.#parts.client.tell(parts, about),
      onToolsChanged: () => {
        this.#parts.listing.markStale();
      },
    });
  }

  /** What is with the child: the tool of each call, undefined for any other request. */
  toolsAt(link: Link): readonly (string | undefined)[] {
    return this.#pending.sentTo(link).map(({ tool }) => tool);
  }

  /** Resolves when everything that was sent to the child is answered. */
  whenAnswered(link: Link): Promise<void> {
    return this.#pending.whenSettled(link);
  }

  /** Answers everything that was with a lost child. */
  failAll(link: Link, errorFor: () => BridgeError): void {
    for (const { idText, method } of this.#pending.takeSentTo(link)) {
      this.#parts.client.answer(idText, failureLine(idText, method, errorFor()));
    }
  }

  /** Answers everything that has no answer yet: rather an error at the end than a wrong or no answer. */
  close(error: BridgeError): void {
    for (const { idText, method } of this.#pending.takeAll()) {
      this.#parts.client.answer(idText, failureLine(idText, method, error));
    }
  }

  /** Tells the client that the tool list is another one. */
  announceTools(): void {
    if (this.#isInitialized) this.#notify('notifications/tools/list_changed');
  }

  /** Tells the calls that wait with a progress token, and a client that asked for log messages, how a download goes. */
  tellProgress(progress: { readonly progress: number; readonly total?: number; readonly message: string }): void {
    for (const progressToken of this.#pending.takeTokensBelow(progress.progress)) {
      this.#notify('notifications/progress', { progressToken, ...progress });
    }
    this.#log.tellProgress(progress.message);
  }

  /** Tells a client of an event in a log message, unless it asked for more important ones only. */
  tellLog(level: LogLevel, data: Readonly<Record<string, unknown>>): void {
    if (this.#isInitialized) this.#log.tell(level, data);
  }

  #notify(method: string, params?: Readonly<Record<string, unknown>>): void {
    const progressToken = (): unknown => params?.['progressToken'];
    this.#parts.client.tell(notificationLine(method, params), { method, outerId: undefined, progressToken });
  }

  #acceptBatch(line: Buffer): void {
    const elements = scanArray(line);
    if (elements === undefined || elements.length === 0) {
      this.#refuse({ bad: elements === undefined ? 'parse' : 'shape', idText: undefined });
      return;
    }
    // Revision 2025-03-26 has batches; each message is answered by itself, which JSON-RPC receivers of a stream accept.
    for (const { start, end } of elements) {
      const element = line.subarray(start, end);
      if (startsArray(element)) this.#refuse({ bad: 'shape', idText: undefined });
      else this.accept(element);
    }
  }

  #refuse(line: BadLine): void {
    this.#parts.client.answer(line.idText, errorLine(line.idText, badLineError(line.bad)));
  }

  #acceptRequest(request: Envelope): void {
    const idText = request.idText ?? 'null';
    const method = request.method ?? '';
    if (this.#pending.has(idText)) {
      const error = new BridgeError('invalid_request', `The id ${idText} belongs to a request that is still running.`);
      this.#parts.client.answer(idText, errorLine(idText, error));
    } else if (method === 'ping') {
      this.#parts.client.answer(idText, resultLine(idText, '{}'));
    } else if (method === 'initialize') {
      this.#initialize(request, idText);
    } else if (!this.#isInitialized) {
      const error = new BridgeError(
        'not_initialized',
        `Method not found: ${method}. The session starts with initialize.`,
      );
      this.#parts.client.answer(idText, errorLine(idText, error));
    } else {
      this.#serve(request, idText, method);
    }
  }

  #serve(request: Envelope, idText: string, method: string): void {
    if (method === 'tools/list') {
      this.#answerLater(idText, method, () => this.#parts.listing.listText(this.#parts.gate.link));
      return;
    }
    if (method === 'logging/setLevel') this.#log.setLevel(paramsOf(request)?.['level']);
    const name = method === 'tools/call' ? toolNameOf(request) : undefined;
    const local = this.#parts.listing.localTool(name);
    if (this.#parts.listing.isHidden(name)) {
      const error = new BridgeError('usage', `The tool ${name ?? ''} is switched off on this server (--hide-tools).`);
      this.#parts.client.answer(idText, failureLine(idText, method, error));
    } else if (this.#parts.gate.link === undefined && !this.#parts.listing.offers(method)) {
      // Many clients ask for these by habit: that must neither wait for a download nor start a browser.
      this.#parts.client.answer(idText, errorLine(idText, new BridgeError('method_not_found', 'Method not found')));
    } else if (local !== undefined) {
      // Not after the catalog: while upstream hangs, this is how the client learns why.
      this.#answerLater(idText, method, () => runTool(local), Promise.resolve());
    } else if (method === 'logging/setLevel' && this.#parts.listing.hasOwnLog) {
      this.#parts.client.answer(idText, resultLine(idText, '{}'));
    } else {
      this.#toChild(request, { idText, method, tool: name });
    }
  }

  #initialize(request: Envelope, idText: string): void {
    const params = paramsOf(request) ?? {};
    this.#isInitialized = true;
    this.#parts.onInitialize(params);
    this.#answerLater(idText, 'initialize', () =>
      Promise.resolve(this.#parts.listing.initializeText(params['protocolVersion'])),
    );
  }

  #answerLater(idText: string, method: string, make: () => Promise<string>, after = this.#parts.catalogReady): void {
    const pending = this.#pending.add(idText, method);
    const send = (parts: LineParts): void => {
      // Cancelled meanwhile: no answer is wanted.
      if (this.#pending.settle(pending)) this.#parts.client.answer(idText, parts);
    };
    void after.then(make).then(
      (result) => {
        send(resultLine(idText, result));
      },
      (failure: unknown) => {
        send(failureLine(idText, method, toBridgeError(failure)));
      },
    );
  }

  #toChild(request: Envelope, { idText, method, tool }: Pick<Pending, 'idText' | 'method' | 'tool'>): void {
    const pending = this.#pending.add(idText, method);
    pending.tool = tool;
    const forward = (link: Link): void => {
      this.#forwarded += 1;
      pending.request = undefined;
      pending.link = link;
      link.forward(request);
    };
    const { link } = this.#parts.gate;
    if (link !== undefined) {
      forward(link);
      return;
    }
    const ticket: Ticket = {
      forward,
      fail: (error) => {
        if (this.#pending.settle(pending)) this.#parts.client.answer(idText, failureLine(idText, method, error));
      },
    };
    pending.request = request;
    pending.ticket = ticket;
    this.#parts.gate.enter(ticket);
  }

  #answer(answer: Envelope): void {
    const pending = this.#pending.find(answer.idText ?? 'null');
    if (pending?.link === undefined) {
      this.#parts.logger.debug('late answer dropped');
      return;
    }
    this.#pending.settle(pending);
    this.#parts.client.answer(pending.idText, withId(answer, pending.idText));
  }

  #answerLarge(idText: string, chunks: readonly Buffer[]): boolean {
    const pending = this.#pending.find(idText);
    if (pending?.link === undefined || pending.idText !== idText) return false;
    this.#pending.settle(pending);
    this.#parts.client.answer(idText, chunks);
    return true;
  }

  #failOversize(link: Link, idText: string | undefined, error: BridgeError): void {
    if (idText === undefined) {
      // It cannot be told whose answer it was: rather an error for all than one that waits for ever.
      this.failAll(link, () => error);
      return;
    }
    const known = this.#pending.find(idText);
    // The answer to a cancelled request is one that nobody waits for.
    if (known?.link !== link || !this.#pending.settle(known)) return;
    this.#parts.client.answer(known.idText, failureLine(known.idText, known.method, error));
  }

  #acceptNotification(message: Envelope): void {
    if (!this.#isInitialized || message.method === 'notifications/initialized') return;
    if (message.method === 'notifications/cancelled') this.#cancel(message);
    else this.#parts.gate.pass(message);
  }

  #cancel(message: Envelope): void {
    const requestId = paramsOf(message)?.['requestId'];
    if (typeof requestId !== 'string' && typeof requestId !== 'number') return;
    const pending = this.#pending.find(JSON.stringify(requestId));
    if (pending === undefined || pending.method === 'initialize' || !this.#pending.settle(pending)) return;
    this.#parts.client.drop(pending.idText);
    if (pending.link !== undefined) pending.link.forward(message);
    else if (pending.ticket !== undefined) this.#parts.gate.withdraw(pending.ticket);
  }
}
