import { type Envelope, idKey, progressTokenOf } from '../core/envelope.ts';
import type { BridgeError } from '../core/errors.ts';
import type { Link } from './link.ts';

/** A call that wants to go to the child: exactly one of `forward` and `fail` is called, unless it is withdrawn. */
export interface Ticket {
  forward(link: Link): void;
  fail(error: BridgeError): void;
}

/** A request of the client that has no answer yet. */
export interface Pending {
  readonly idText: string;
  readonly method: string;
  /** The request while it waits at the gate, for its progress token. */
  request: Envelope | undefined;
  ticket: Ticket | undefined;
  /** The largest progress that was told of it; the protocol wants each one larger than the last. */
  progress: number;
  /** The child that it was sent to. */
  link: Link | undefined;
  /** The tool that it calls. */
  tool: string | undefined;
}

/** The client's requests without an answer, by their ids. */
export class PendingRequests {
  readonly #byId = new Map<string, Pending>();
  /** Called when a request is settled that was sent to a child. */
  readonly #watchers = new Set<() => void>();

  /** True while the id has no answer. */
  has(idText: string): boolean {
    return this.#byId.has(idKey(idText));
  }

  /** Notes a request. */
  add(idText: string, method: string): Pending {
    const pending: Pending = {
      idText,
      method,
      request: undefined,
      ticket: undefined,
      progress: -1,
      link: undefined,
      tool: undefined,
    };
    this.#byId.set(idKey(idText), pending);
    return pending;
  }

  /** The request of this id. */
  find(idText: string): Pending | undefined {
    return this.#byId.get(idKey(idText));
  }

  /** Bytes of the requests that wait at the gate. */
  waitingBytes(): number {
    let bytes = 0;
    for (const { request } of this.#byId.values()) bytes += request?.line.length ?? 0;
    return bytes;
  }

  /** Forgets a request, since it is answered or cancelled; false if it was so already. */
  settle(pending: Pending): boolean {
    const key = idKey(pending.idText);
    if (this.#byId.get(key) !== pending) return false;
    this.#byId.delete(key);
    for (const watch of this.#watchers) watch();
    return true;
  }

  /** What was sent to a child and has no answer. */
  sentTo(link: Link): readonly Pending[] {
    return [...this.#byId.values()].filter((pending) => pending.link === link);
  }

  /** Resolves when nothing that was sent to the child waits for its answer. */
  async whenSettled(link: Link): Promise<void> {
    while (this.sentTo(link).length > 0) {
      await new Promise<void>((resolve) => {
        const watch = (): void => {
          this.#watchers.delete(watch);
          resolve();
        };
        this.#watchers.add(watch);
      });
    }
  }

  /** Forgets and returns everything that was sent to a child. */
  takeSentTo(link: Link): readonly Pending[] {
    const sent = this.sentTo(link);
    for (const pending of sent) this.settle(pending);
    return sent;
  }

  /** Forgets and returns everything. */
  takeAll(): readonly Pending[] {
    const all = [...this.#byId.values()];
    this.#byId.clear();
    for (const watch of this.#watchers) watch();
    return all;
  }

  /** The progress tokens of the requests that wait at the gate and were not told of so much progress yet. */
  takeTokensBelow(progress: number): readonly (string | number)[] {
    const tokens: (string | number)[] = [];
    for (const pending of this.#byId.values()) {
      const token = pending.request === undefined ? undefined : progressTokenOf(pending.request);
      if (token === undefined || pending.progress >= progress) continue;
      pending.progress = progress;
      tokens.push(token);
    }
    return tokens;
  }
}
