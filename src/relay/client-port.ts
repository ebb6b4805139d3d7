import type { LineParts } from '../core/framing.ts';

/** What is known of a message for the client, for a transport that has several streams to choose from. */
export interface Told {
  readonly method: string;
  /** The id under which an answer is expected; undefined for a notification. */
  readonly outerId: string | undefined;
  /** The progress token of a progress notification. */
  readonly progressToken?: () => unknown;
}

/** The way to one client. */
export interface ClientPort {
  /** Sends the answer to the request of this id; undefined when the request had none that could be read. */
  answer(idText: string | undefined, parts: LineParts): void;
  /** Sends a request or a notification. False when no client can be reached with it. */
  tell(parts: LineParts, about: Told): boolean;
  /** No answer will come for the request of this id: the client withdrew it. */
  drop(idText: string): void;
}

/** A client with one stream for everything, as over stdio. */
export function singleStream(send: (parts: LineParts) => void): ClientPort {
  return {
    answer: (_idText, parts) => {
      send(parts);
    },
    tell: (parts) => {
      send(parts);
      return true;
    },
    drop: () => undefined,
  };
}
