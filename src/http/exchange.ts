import { idKey } from '../core/envelope.ts';
import type { SseStream } from './sse-stream.ts';

/** A request of a client. */
export interface Question {
  /** The id as JSON. */
  readonly idText: string;
  readonly method: string;
  /** Undefined when the client wants no progress. */
  readonly progressToken: string | number | undefined;
}

/** One POST with requests, from its arrival until the last of them is answered. */
export class Exchange {
  readonly number: number;
  readonly startedAt = performance.now();
  /** Where the answers go; undefined or closed when the client is gone. */
  stream: SseStream | undefined;
  readonly #questions: readonly Question[];
  readonly #open: Set<string>;
  #hasAnswers = false;

  constructor(number: number, questions: readonly Question[]) {
    this.number = number;
    this.#questions = questions;
    this.#open = new Set(questions.map(({ idText }) => idKey(idText)));
  }

  /** True while the client can be told something. */
  get isOpen(): boolean {
    return this.stream?.isOpen === true;
  }

  /** True for the POST that opened the session. */
  get isInitialize(): boolean {
    return this.#questions[0]?.method === 'initialize';
  }

  /** What the request of this id asks for. */
  methodOf(key: string): string {
    return this.#questions.find(({ idText }) => idKey(idText) === key)?.method ?? '';
  }

  /** True if one of its requests without an answer has this progress token. */
  hasToken(token: unknown): boolean {
    return this.#questions.some(
      ({ idText, progressToken }) => progressToken === token && this.#open.has(idKey(idText)),
    );
  }

  /** True once one of its requests was answered. */
  get hasAnswers(): boolean {
    return this.#hasAnswers;
  }

  /** A request is answered or withdrawn; true when it was the last one. */
  settle(key: string, isAnswered = false): boolean {
    this.#hasAnswers ||= isAnswered;
    this.#open.delete(key);
    return this.#open.size === 0;
  }
}
