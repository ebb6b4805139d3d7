import { vi } from 'vitest';

import type { Catalog } from '../../../src/core/catalog.ts';
import type { LineParts } from '../../../src/core/framing.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { singleStream } from '../../../src/relay/client-port.ts';
import { Listing } from '../../../src/relay/listing.ts';
import { Session } from '../../../src/session/session.ts';
import type { Surface } from '../../../src/session/surface-port.ts';
import type { Child, ChildEvents, ChildExit } from '../../../src/upstream/child.ts';

const limits = {
  startTimeoutMs: 45_000,
  restartTimeoutMs: 60_000,
  restartMax: 5,
  rootsTimeoutMs: 10_000,
  closeGraceMs: 5000,
  maxMessageBytes: 1000,
};
export const catalog: Catalog = {
  initialize: { serverInfo: { name: 'up' }, capabilities: {} },
  tools: [{ name: 'a', text: '{"name":"a"}' }],
  members: {},
};

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
}

/** A child without a process, with the given tools. Calls stay unanswered until the test answers them. */
class FakeChild {
  readonly pid: number;
  readonly got: Message[] = [];
  tail = '';
  /** Undefined for one that never lists them. */
  readonly tools: string | undefined;
  readonly gone: Promise<void>;
  readonly ended: Promise<ChildExit>;
  /** The process is gone; its last lines are told by `die`. */
  fade: () => void = () => undefined;
  #end: (exit: ChildExit) => void = () => undefined;
  /** Lets the end of the process pass; as long as it is undefined, that takes no time. */
  endSlowly: Promise<void> | undefined;
  isClosed = false;
  unreadBytes = 0;
  hasEnded = false;
  graceMs: number | undefined;
  #events: ChildEvents | undefined;

  offer: Readonly<Record<string, unknown>> = {};

  constructor(number: number, tools: string | undefined) {
    this.pid = 100 + number;
    this.tools = tools;
    this.gone = new Promise((resolve) => (this.fade = resolve));
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  die(exit: ChildExit): void {
    this.hasEnded = true;
    this.fade();
    this.#end(exit);
  }

  listen(events: ChildEvents): void {
    this.#events = events;
  }

  mute(): void {
    this.#events = undefined;
  }

  stderrTail(): string {
    return this.tail;
  }

  send(parts: LineParts): void {
    const message = JSON.parse(parts.join('')) as Message;
    this.got.push(message);
    if (message.method === 'initialize')
      this.answer(message, JSON.stringify({ ...this.offer, protocolVersion: '2025-11-25' }));
    if (message.method === 'tools/list' && this.tools !== undefined) this.answer(message, `{"tools":[${this.tools}]}`);
  }

  answer({ id }: Message, result: string): void {
    this.say(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
  }

  say(line: string): void {
    this.#events?.onLine(Buffer.from(line));
  }

  async close(graceMs: number): Promise<void> {
    this.graceMs = graceMs;
    await this.endSlowly;
    this.isClosed = true;
    this.die({ code: 0, signal: null });
  }

  /** The messages of a method that it got. */
  of(method: string): Message[] {
    return this.got.filter((message) => message.method === method);
  }
}

export class Bed {
  readonly sent: Message[] = [];
  readonly stored: Catalog[] = [];
  readonly children: FakeChild[] = [];
  readonly session: Session;
  tools: string | undefined = '{"name":"a"}';
  offer: Readonly<Record<string, unknown>> = catalog.initialize;

  constructor(
    known: Promise<Catalog | undefined> = Promise.resolve(catalog),
    surface: { readonly surface?: Surface; readonly opensSurface?: boolean } = {},
  ) {
    const nothing = (): void => undefined;
    const logger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
    this.session = new Session({
      client: singleStream((parts) => void this.sent.push(JSON.parse(parts.join('')) as Message)),
      listing: new Listing({ logger, localTools: [], hidden: [], serverInfo: { name: 'us' }, instructions: 'ours' }),
      logger,
      limits,
      catalog: known,
      storeCatalog: (corrected) => void this.stored.push(corrected),
      startChild: (number) => {
        const child = new FakeChild(number, this.tools);
        child.offer = this.offer;
        this.children.push(child);
        const browser = { tempDir: '/t', registry: '/r', isIsolated: false };
        return Promise.resolve({ child: child as unknown as Child, release: () => undefined, browser });
      },
      isEager: true,
      describeWait: () => 'waiting',
      ...surface,
    });
  }

  say(line: string): void {
    this.session.accept(Buffer.from(line));
  }

  /** The client says `initialize` and gets its answer; the first child is then ready. */
  async open(
    params = '{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}',
  ): Promise<FakeChild> {
    this.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":${params}}`);
    await settle();
    this.sent.length = 0;
    return this.child(1);
  }

  child(number: number): FakeChild {
    const child = this.children[number - 1];
    if (child === undefined) throw new Error(`there is no child ${number}`);
    return child;
  }

  call(id: number): void {
    this.say(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"a"}}`);
  }

  takeSent(): Message[] {
    return this.sent.splice(0);
  }
}

export async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

export const listChanged = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
