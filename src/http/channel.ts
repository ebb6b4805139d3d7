import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

import { idKey } from '../core/envelope.ts';
import { BridgeError } from '../core/errors.ts';
import type { LineParts } from '../core/framing.ts';
import type { Logger } from '../core/logger.ts';
import { errorLine } from '../relay/answers.ts';
import type { ClientPort, Told } from '../relay/client-port.ts';
import { Exchange, type Question } from './exchange.ts';
import { Replay, type ReplayLimits } from './replay.ts';
import { type Frame, commentFrame, lengthOf, primingFrame } from './sse-frame.ts';
import { SseStream, type StreamLimits } from './sse-stream.ts';

/** Number of the stream that a GET opens; requests count from 1. */
const standalone = 0;
/**
 * Bytes of all streams of a session that the client has not taken, from which on a stream that lags behind is cut. One
 * answer may be larger, but not lie on top of another one that nobody reads.
 */
const maxUnreadBytes = 67_108_864;

/** What a channel tells of its calls, for metrics. */
export interface ChannelMeter {
  /** A request was answered after so many milliseconds; `isDelivered` false when its connection was gone. */
  answered(method: string, durationMs: number, isDelivered: boolean): void;
  /** Bytes were sent to the client. */
  sent(bytes: number): void;
}

/** What a channel is made with. */
export interface ChannelParts {
  readonly sessionId: string;
  readonly logger: Logger;
  readonly streams: StreamLimits;
  readonly replay: ReplayLimits;
  /** When a client should come back after a break, in milliseconds. */
  readonly retryMs: number;
  readonly meter: ChannelMeter;
  /** The client went away before it had the answer to `initialize`. */
  readonly onAbandoned: () => void;
}

/** One client over HTTP: a stream for each of its POSTs with requests, and one that it may open to listen. */
export class Channel implements ClientPort {
  readonly #parts: ChannelParts;
  readonly #replay: Replay;
  /** Requests without an answer, by their ids. */
  readonly #exchanges = new Map<string, Exchange>();
  /** Change notices that nobody could be told of yet, by method. */
  readonly #later = new Map<string, LineParts>();
  /** All answers that are not over, also those whose last event is on its way. */
  readonly #streams = new Set<SseStream>();
  #listener: SseStream | undefined;
  #lastStream = standalone;
  #isClosed = false;

  constructor(parts: ChannelParts) {
    this.#parts = parts;
    this.#replay = new Replay(parts.replay);
  }

  /** Requests without an answer. */
  get inFlight(): number {
    return this.#exchanges.size;
  }

  /** True while a request without an answer has an open connection, or an answer is on its way. */
  get isBusy(): boolean {
    for (const exchange of this.#exchanges.values()) if (exchange.isOpen) return true;
    for (const stream of this.#streams) if (!stream.isOpen) return true;
    return false;
  }

  /** True while the client listens on a stream of its own. */
  get hasListener(): boolean {
    return this.#listener?.isOpen === true;
  }

  /** True while a request of this id has no answer. */
  has(idText: string): boolean {
    return this.#exchanges.has(idKey(idText));
  }

  /** Opens the stream of a POST. Its requests must be new ones. `isPrimed`: the client knows events without a message. */
  openExchange(res: ServerResponse, questions: readonly Question[], isPrimed: boolean): void {
    this.#lastStream += 1;
    const number = this.#lastStream;
    const exchange = new Exchange(number, questions);
    for (const { idText } of questions) this.#exchanges.set(idKey(idText), exchange);
    const eventId = this.#replay.open(number);
    exchange.stream = this.#openStream(
      res,
      isPrimed ? primingFrame(eventId, this.#parts.retryMs) : undefined,
      (isComplete) => {
        if (exchange.isInitialize && !isComplete) this.#parts.onAbandoned();
      },
    );
  }

  /** Opens the stream that a client listens on; an older one is ended, since its peer may be long gone without a word. */
  openListener(res: ServerResponse, isPrimed: boolean): void {
    const eventId = this.#replay.open(standalone);
    this.#listen(res, [isPrimed ? primingFrame(eventId, this.#parts.retryMs) : commentFrame]);
    for (const [method, parts] of this.#later) this.tell(parts, { method, outerId: undefined });
    this.#later.clear();
  }

  /** Goes on with a stream that broke. Throws `replay_gone` when what was missed is no longer kept. */
  resume(res: ServerResponse, lastEventId: string, isPrimed: boolean): void {
    if (this.#replay.isOver(lastEventId)) {
      // What EventSource knows as "do not come back"; clients of the SDK take it so as well.
      res.writeHead(204).end();
      return;
    }
    const missed = this.#replay.after(lastEventId);
    if (missed === undefined) {
      throw new BridgeError(
        'replay_gone',
        'What came after this event is no longer kept, or there was no such event.',
        {
          hint: 'Open a new stream without Last-Event-ID. --http-replay-events and --http-replay-bytes decide how much is kept.',
        },
      );
    }
    const { stream } = missed;
    // Says again where the client stands: should this stream break before its first event, it would not know any more.
    const first = isPrimed ? [primingFrame(lastEventId, this.#parts.retryMs)] : [];
    const frames = [...first, ...missed.frames];
    if (stream === standalone) {
      this.#listen(res, frames);
      this.#later.clear();
      return;
    }
    const exchange = [...this.#exchanges.values()].find((one) => one.number === stream);
    exchange?.stream?.end();
    const opened = this.#openStream(res, frames.flat());
    if (exchange === undefined) opened.end();
    else exchange.stream = opened;
  }

  answer(idText: string | undefined, parts: LineParts): void {
    const key = idText === undefined ? undefined : idKey(idText);
    const exchange = key === undefined ? undefined : this.#exchanges.get(key);
    if (key === undefined || exchange === undefined) {
      this.#parts.logger.debug('answer without a request dropped');
      return;
    }
    this.#exchanges.delete(key);
    const { stream } = exchange;
    const frame = this.#replay.add(exchange.number, parts, () => substitute(idText, parts));
    const isDelivered = exchange.isOpen;
    const isLast = exchange.settle(key, true);
    if (isLast) this.#replay.finish(exchange.number);
    this.#parts.meter.answered(exchange.methodOf(key), performance.now() - exchange.startedAt, isDelivered);
    if (stream !== undefined) this.#send(stream, frame, isLast);
  }

  tell(parts: LineParts, about: Told): boolean {
    if (this.#isClosed) return false;
    const related = this.#relatedTo(about);
    if (related !== undefined) {
      this.#sendOn(related, parts);
      return true;
    }
    if (this.#listener?.isOpen === true) {
      this.#send(this.#listener, this.#replay.add(standalone, parts));
      return true;
    }
    return about.outerId === undefined && this.#tellLater(parts, about.method);
  }

  /** Sends a request of our own on the stream that the client listens on. */
  ask(parts: LineParts): void {
    if (this.#listener?.isOpen === true) this.#send(this.#listener, this.#replay.add(standalone, parts));
  }

  drop(idText: string): void {
    const key = idKey(idText);
    const exchange = this.#exchanges.get(key);
    if (exchange === undefined) return;
    this.#exchanges.delete(key);
    if (!exchange.settle(key)) return;
    if (exchange.hasAnswers) this.#replay.finish(exchange.number);
    else this.#replay.withdraw(exchange.number);
    exchange.stream?.end();
  }

  /** Ends all streams; what is unanswered has been answered before. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.end();
    this.#exchanges.clear();
    this.#later.clear();
  }

  #listen(res: ServerResponse, first: readonly Frame[]): void {
    this.#listener?.end();
    const stream = this.#openStream(res, first.flat());
    this.#listener = stream;
  }

  #openStream(
    res: ServerResponse,
    first: Frame | undefined,
    onClosed: (isComplete: boolean) => void = () => undefined,
  ): SseStream {
    const headers: OutgoingHttpHeaders = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'mcp-session-id': this.#parts.sessionId,
    };
    const stream = new SseStream({
      res,
      headers,
      first,
      limits: this.#parts.streams,
      onClosed: (isComplete) => {
        this.#streams.delete(stream);
        onClosed(isComplete);
      },
    });
    this.#streams.add(stream);
    return stream;
  }

  /** The exchange on whose stream a message goes: that of its progress token, or the only one there is. */
  #relatedTo(about: Told): Exchange | undefined {
    const all = [...new Set(this.#exchanges.values())];
    const token = about.method === 'notifications/progress' ? about.progressToken?.() : undefined;
    const named = token === undefined ? undefined : all.find((exchange) => exchange.hasToken(token));
    if (named !== undefined) return named;
    const open = all.filter((exchange) => exchange.isOpen);
    // A request that waits for an answer must reach somebody now.
    if (about.outerId !== undefined) return open.at(-1);
    // With one call in flight it can only be about that one; a change of lists is about all.
    const [only] = all.length === 1 ? all : [];
    if (only?.isOpen === true) return only;
    if (this.hasListener) return undefined;
    return open.at(-1) ?? (isListChange(about.method) ? undefined : only);
  }

  #sendOn(exchange: Exchange, parts: LineParts): void {
    const frame = this.#replay.add(exchange.number, parts);
    if (exchange.stream !== undefined) this.#send(exchange.stream, frame);
  }

  #tellLater(parts: LineParts, method: string): boolean {
    if (this.#lastStream > standalone || this.#listener !== undefined) this.#replay.add(standalone, parts);
    if (isListChange(method)) this.#later.set(method, parts);
    return true;
  }

  #send(stream: SseStream, frame: Frame, isLast = false): void {
    this.#relieve();
    if (stream.isOpen) this.#parts.meter.sent(lengthOf(frame));
    if (isLast) stream.end(frame);
    else stream.write(frame);
  }

  /** A client that asks for much and reads nothing must not fill the memory. */
  #relieve(): void {
    let unread = 0;
    for (const stream of this.#streams) unread += stream.unread;
    if (unread <= maxUnreadBytes) return;
    this.#parts.logger.warn('client cut off', { reason: 'it does not read what it asked for', bytes: unread });
    for (const stream of this.#streams) if (stream.unread > 0) stream.destroy();
  }
}

function isListChange(method: string): boolean {
  return method.endsWith('/list_changed');
}

function substitute(idText: string | undefined, parts: LineParts): LineParts {
  const bytes = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  const text = `The connection broke, and the answer of ${bytes} bytes was too large to be kept for another one.`;
  return errorLine(idText, new BridgeError('replay_gone', text, { hint: 'Raise --http-replay-bytes.' }));
}
