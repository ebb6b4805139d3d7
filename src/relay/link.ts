import { BridgeError } from '../core/errors.ts';
import { type Envelope, idKey, paramsOf, readEnvelope, resultOf, withId } from '../core/envelope.ts';
import type { LineParts } from '../core/framing.ts';
import { idOfCutLine, idOfLargeAnswer, kindOfCutLine } from '../core/line-ends.ts';
import type { Logger } from '../core/logger.ts';
import { errorLine, notificationLine } from './answers.ts';
import type { Told } from './client-port.ts';

/** A child that tells more than this before its client is there floods us. */
const maxEarly = 1000;

/** Where the lines of a child go and come from. */
export interface ChildPort {
  send(parts: LineParts): void;
}

/** What a link tells the relay. */
export interface LinkEvents {
  /** An answer to a request of the client. */
  onAnswer(answer: Envelope): void;
  /** A large answer, in chunks; false if it is not one that can be passed on as it is. */
  onLargeAnswer(idText: string, chunks: readonly Buffer[]): boolean;
  /** An answer that was too long to be kept; its id, if it could be told. */
  onOversize(idText: string | undefined, bytes: number): void;
  /** A request or notification for the client, under an id of the session's own space; false if it cannot be reached. */
  onMessage(parts: LineParts, about: Told): boolean;
  /** The child said that its tool list changed. */
  onToolsChanged(): void;
}

interface OwnRequest {
  resolve(result: Buffer): void;
  reject(error: BridgeError): void;
}

interface ClientRequest {
  readonly childId: string;
  readonly timer: NodeJS.Timeout | undefined;
}

/** What a link is made with. */
export interface LinkParts {
  readonly port: ChildPort;
  readonly logger: Logger;
  /** Prefix of the ids of the bridge's own requests; unguessable, so that no client's id is taken for one. */
  readonly ownPrefix: string;
  /** Gives the next id for a request to the client; one space for all generations of a session. */
  readonly nextOuterId: () => number;
  /** Time that the client has to answer `roots/list`, in milliseconds. */
  readonly rootsTimeoutMs: number;
}

/** The relay's side towards one child: its lines, the bridge's own requests to it, and its requests to the client. */
export class Link {
  readonly #parts: LinkParts;
  readonly #own = new Map<string, OwnRequest>();
  readonly #asked = new Map<string, ClientRequest>();
  /** Notifications of a child that has no client yet. */
  readonly #early: Envelope[] = [];
  #events: LinkEvents | undefined;
  #ownCount = 0;
  #isBroken = false;
  #isUsed = false;

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** Connects the link to the relay; it gets first what the child has told so far. */
  attach(events: LinkEvents): void {
    this.#events = events;
    for (const message of this.#early.splice(0)) this.#tellClient(message);
  }

  /** Takes one line from the child. */
  accept(line: Buffer): void {
    const message = readEnvelope(line);
    if ('bad' in message) {
      this.#parts.logger.warn('child line dropped', {
        reason: 'it is no JSON-RPC message',
        line: line.toString('utf8', 0, 200),
      });
      return;
    }
    if (message.kind === 'response') this.#acceptAnswer(message);
    else if (message.kind === 'request') this.#askClient(message);
    else this.#tellClient(message);
  }

  /** Takes a large line whose chunks are not joined. */
  acceptChunks(chunks: readonly Buffer[], bytes: number): void {
    const idText = idOfLargeAnswer(chunks);
    if (idText !== undefined && this.#events?.onLargeAnswer(idText, chunks) === true) return;
    this.accept(Buffer.concat(chunks, bytes));
  }

  /** Takes the notice that a line of the child was over the limit. */
  acceptOversize(head: Buffer, tail: Buffer, bytes: number): void {
    const idText = idOfCutLine(head, tail);
    if (kindOfCutLine(head) === 'message') {
      this.#refuseLarge(idText, bytes);
      return;
    }
    const own = idText === undefined ? undefined : this.#takeOwn(idText);
    if (own !== undefined)
      own.reject(new BridgeError('message_too_large', `An answer of upstream has ${bytes} bytes.`));
    else this.#events?.onOversize(idText, bytes);
  }

  /** True once a request of the client or a tool call was sent: only then can the child hold anything worth a slow end. */
  get isUsed(): boolean {
    return this.#isUsed;
  }

  /** Sends a client's message as it is. */
  forward(message: Envelope): void {
    this.#isUsed ||= message.kind === 'request';
    this.#parts.port.send([message.line]);
  }

  /** A request of the bridge's own; resolves with the text of its result, rejects with what the child answered or when it is lost. */
  request(method: string, params: Readonly<Record<string, unknown>>): Promise<Buffer> {
    const id = `${this.#parts.ownPrefix}${this.#ownCount}`;
    this.#ownCount += 1;
    return new Promise((resolve, reject) => {
      if (this.#isBroken) {
        reject(new BridgeError('child_lost', 'The upstream process has ended.'));
        return;
      }
      this.#own.set(`s${id}`, { resolve, reject });
      this.#parts.port.send([JSON.stringify({ jsonrpc: '2.0', id, method, params })]);
    });
  }

  /** A tool call of the bridge's own: from then on the child may hold something worth a slow end. */
  callTool(name: string, parameters: Readonly<Record<string, unknown>>): Promise<Buffer> {
    this.#isUsed = true;
    return this.request('tools/call', { name, arguments: parameters });
  }

  /** A notification of the bridge's own. */
  notify(method: string): void {
    this.#parts.port.send(notificationLine(method));
  }

  /** Takes the client's answer to a request of this child. False if there is no such request. */
  answerChild(answer: Envelope): boolean {
    const outerId = answer.idText === undefined ? undefined : idKey(answer.idText);
    const asked = outerId === undefined ? undefined : this.#asked.get(outerId);
    if (outerId === undefined || asked === undefined) return false;
    this.#forget(outerId, asked);
    this.#parts.port.send(withId(answer, asked.childId));
    return true;
  }

  /** Answers a request of this child with an error in the client's place. */
  failAnswer(outerIdText: string | undefined, error: BridgeError): void {
    const outerId = outerIdText === undefined ? undefined : idKey(outerIdText);
    const asked = outerId === undefined ? undefined : this.#asked.get(outerId);
    if (outerId === undefined || asked === undefined) return;
    this.#forget(outerId, asked);
    this.#parts.port.send(errorLine(asked.childId, error));
  }

  /** Breaks the link after the child was lost: own requests fail, and the client is told that nobody waits for its answers. */
  break(reason: string): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    for (const own of this.#own.values()) own.reject(new BridgeError('child_lost', reason));
    this.#own.clear();
    for (const [outerId, asked] of this.#asked) {
      this.#forget(outerId, asked);
      const requestId = Number(outerId.slice(1));
      const line = notificationLine('notifications/cancelled', { requestId, reason });
      this.#events?.onMessage(line, { method: 'notifications/cancelled', outerId: undefined });
    }
    this.#events = undefined;
  }

  /** A request or notification of the child that was over the limit: only a request can be answered. */
  #refuseLarge(idText: string | undefined, bytes: number): void {
    this.#parts.logger.warn('child line dropped', { reason: 'it is over the limit', bytes });
    const error = new BridgeError('message_too_large', `The request has ${bytes} bytes and was not passed on.`);
    if (idText !== undefined) this.#parts.port.send(errorLine(idText, error));
  }

  #takeOwn(idText: string): OwnRequest | undefined {
    const key = idKey(idText);
    const own = this.#own.get(key);
    this.#own.delete(key);
    return own;
  }

  #acceptAnswer(answer: Envelope): void {
    const own = answer.idText === undefined ? undefined : this.#takeOwn(answer.idText);
    if (own === undefined) {
      this.#events?.onAnswer(answer);
      return;
    }
    const result = resultOf(answer);
    if (result !== undefined) own.resolve(result);
    else
      own.reject(
        new BridgeError(
          'internal',
          `Upstream refused a request of the bridge: ${answer.line.toString('utf8', 0, 500)}`,
        ),
      );
  }

  #askClient(request: Envelope): void {
    const childId = request.idText ?? 'null';
    const method = request.method ?? '';
    if (this.#events === undefined) {
      this.#parts.port.send(errorLine(childId, new BridgeError('no_answer', 'No client is connected.')));
      return;
    }
    const outerId = String(this.#parts.nextOuterId());
    const timer =
      method === 'roots/list' ? setTimeout(() => this.#giveUp(`n${outerId}`), this.#parts.rootsTimeoutMs) : undefined;
    this.#asked.set(`n${outerId}`, { childId, timer });
    if (this.#events.onMessage(withId(request, outerId), { method, outerId })) return;
    this.failAnswer(
      outerId,
      new BridgeError('no_answer', `The client has no open stream to be asked on for ${method}.`),
    );
  }

  /** Answers the child in the client's place; what a person answers has no limit of ours, a list of folders has. */
  #giveUp(outerId: string): void {
    const asked = this.#asked.get(outerId);
    if (asked === undefined) return;
    this.#forget(outerId, asked);
    const ms = this.#parts.rootsTimeoutMs;
    this.#parts.logger.warn('client did not answer', { method: 'roots/list', durationMs: ms });
    this.#parts.port.send(
      errorLine(asked.childId, new BridgeError('no_answer', `The client did not answer roots/list within ${ms} ms.`)),
    );
  }

  #forget(outerId: string, asked: ClientRequest): void {
    clearTimeout(asked.timer);
    this.#asked.delete(outerId);
  }

  #tellClient(message: Envelope): void {
    const events = this.#events;
    if (events === undefined) {
      if (!this.#isBroken && this.#early.length < maxEarly) this.#early.push(message);
      return;
    }
    const method = message.method ?? '';
    if (method === 'notifications/tools/list_changed') events.onToolsChanged();
    const parts = method === 'notifications/cancelled' ? this.#cancelForClient(message) : [message.line];
    const progressToken = (): unknown => paramsOf(message)?.['progressToken'];
    if (parts !== undefined) events.onMessage(parts, { method, outerId: undefined, progressToken });
  }

  /** The child withdraws a request to the client: the client knows it by the session's id. */
  #cancelForClient(message: Envelope): LineParts | undefined {
    const params = paramsOf(message);
    const wanted = idKey(JSON.stringify(params?.['requestId'] ?? null));
    for (const [outerId, asked] of this.#asked) {
      if (idKey(asked.childId) !== wanted) continue;
      this.#forget(outerId, asked);
      return notificationLine('notifications/cancelled', { ...params, requestId: Number(outerId.slice(1)) });
    }
    return undefined;
  }
}
