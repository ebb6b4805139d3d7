import { scanArray } from '../core/json-scan.ts';
import type { Session } from '../session/session.ts';
import { type LiveSession, sessionHash } from '../session/registry.ts';
import { type ClientBody, type ClientMessage, questionsOf } from './client-message.ts';
import type { Channel } from './channel.ts';
import { knowsPriming } from './sse-frame.ts';
import type { ServerResponse } from 'node:http';

/** What a session over HTTP is made with. */
export interface HttpSessionParts {
  readonly id: string;
  readonly owner: string;
  readonly now: number;
  readonly client: { readonly name: string; readonly version: string };
  readonly channel: Channel;
  readonly session: Session;
  /** Ends everything of the session. */
  readonly end: () => Promise<void>;
  /** The folders whose files the client may fetch; none before its first browser. */
  readonly folders: () => readonly string[];
  /** The folder that holds all of the session's; undefined before its first child. */
  readonly workspace: () => string | undefined;
  readonly passesRoots: boolean;
}

/** One client's stay over HTTP: its channel and the session below it. */
export class HttpSession implements LiveSession {
  readonly id: string;
  readonly hash: string;
  readonly owner: string;
  readonly createdAt: number;
  readonly client: HttpSessionParts['client'];
  readonly channel: Channel;
  lastUsedAt: number;
  readonly #parts: HttpSessionParts;
  /** Files on their way to the client. */
  readonly #held = new Set<ServerResponse>();
  #pings = 0;

  constructor(parts: HttpSessionParts) {
    this.#parts = parts;
    this.id = parts.id;
    this.hash = sessionHash(parts.id);
    this.owner = parts.owner;
    this.createdAt = parts.now;
    this.lastUsedAt = parts.now;
    this.client = parts.client;
    this.channel = parts.channel;
  }

  /** What the session is below its transport, for status pages. */
  get session(): Session {
    return this.#parts.session;
  }

  /** The folders whose files the client may fetch; none before its first browser. */
  get folders(): readonly string[] {
    return this.#parts.folders();
  }

  /** The folder that holds all of the session's; undefined before its first child. */
  get workspace(): string | undefined {
    return this.#parts.workspace();
  }

  isBusy(): boolean {
    return this.channel.isBusy;
  }

  hasCalls(): boolean {
    return this.callCount() > 0;
  }

  callCount(): number {
    return this.#parts.session.relay.forwarded;
  }

  hasStream(): boolean {
    return this.channel.hasListener;
  }

  ping(): void {
    this.#pings += 1;
    const id = `cloakbrowser-mcp/ping/${this.#pings}`;
    const line = JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' });
    // Its answer is a request of the client, and so is noticed as every other one.
    this.channel.ask([line]);
  }

  /** Notes an answer that ends with the session at the latest. */
  hold(res: ServerResponse): void {
    // Its client went already, and its close event has passed.
    if (res.destroyed) return;
    this.#held.add(res);
    res.once('close', () => this.#held.delete(res));
  }

  async close(): Promise<void> {
    for (const res of this.#held) res.destroy();
    const ending = this.#parts.end();
    // What was unanswered has been answered by the session's end, which begins with that.
    this.channel.close();
    await ending;
  }

  /** Takes what a client sent; its requests are answered on a stream in `res`. False if nothing in it waits for an answer. */
  accept(body: ClientBody, res: ServerResponse, version: string | undefined): boolean {
    const questions = questionsOf(body.messages);
    if (questions.length > 0) this.channel.openExchange(res, questions, knowsPriming(version));
    const hasRoots = body.messages.some(isRootsChange);
    if (!hasRoots || this.#parts.passesRoots) this.#parts.session.accept(body.line);
    else this.#acceptWithoutRoots(body);
    return questions.length > 0;
  }

  #acceptWithoutRoots({ messages, isBatch, line }: ClientBody): void {
    const spans = isBatch ? scanArray(line) : undefined;
    for (const [index, { start, end }] of (spans ?? []).entries()) {
      const message = messages[index];
      if (message !== undefined && !isRootsChange(message)) this.#parts.session.accept(line.subarray(start, end));
    }
  }
}

/** As a request it is only a method that nobody knows, and is to be answered so. */
function isRootsChange({ kind, method }: ClientMessage): boolean {
  return kind === 'notification' && method === 'notifications/roots/list_changed';
}
