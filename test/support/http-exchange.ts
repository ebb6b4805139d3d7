import {
  request,
  type Agent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from 'node:http';
import { request as requestSecurely } from 'node:https';
import type { JsonObject, Message } from './client.ts';
import { waitUntil, withDeadline } from './waiting.ts';

/** What is sent: exactly these headers besides Host, Connection and the length of the body. */
export interface Sent {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Text is sent as it is, anything else as JSON. */
  readonly body?: unknown;
  /** Keeps connections for further requests; each request has one of its own without it. */
  readonly agent?: Agent;
}

/** One event of a stream; a comment has none of the fields. */
export interface StreamEvent {
  readonly id?: string;
  readonly retry?: string;
  readonly data?: string;
}

/** An answer whose body may still be under way. */
export class Answer {
  readonly #message: IncomingMessage;
  readonly #text: Promise<string>;
  #received = '';
  #isEnded = false;

  constructor(message: IncomingMessage) {
    this.#message = message;
    this.#text = new Promise((resolve) => {
      message.setEncoding('utf8').on('data', (part: string) => {
        this.#received += part;
      });
      // A stream that is cut has said all that it will say.
      message
        .on('error', () => undefined)
        .on('close', () => {
          this.#isEnded = true;
          resolve(this.#received);
        });
    });
  }

  /** What has come of the body so far. */
  get received(): string {
    return this.#received;
  }

  /** True when nothing more will come, also when the connection was cut. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** True when the body came to its regular end. */
  get isComplete(): boolean {
    return this.#message.complete;
  }

  /** The events and comments of an event stream that have come in full so far. */
  get events(): StreamEvent[] {
    return this.#received.split('\n\n').slice(0, -1).map(parseEvent);
  }

  /** The messages of an event stream that have come so far. */
  get soFar(): Message[] {
    return this.events.flatMap(({ data = '' }) => (data === '' ? [] : [JSON.parse(data) as Message]));
  }

  /** Waits for the end of the body, however it comes; returns all of it. */
  ended(ms?: number): Promise<string> {
    return withDeadline('the end of an answer', this.#text, ms);
  }

  /** Waits for an event or a comment that fits. */
  sees(what: string, fits: (event: StreamEvent) => boolean, ms?: number): Promise<StreamEvent> {
    return waitUntil(what, () => this.events.find(fits), ms);
  }

  /** Waits for a message that fits. */
  gets(what: string, fits: (message: Message) => boolean, ms?: number): Promise<Message> {
    return waitUntil(what, () => this.soFar.find(fits), ms);
  }

  get status(): number {
    return this.#message.statusCode ?? 0;
  }

  get headers(): IncomingHttpHeaders {
    return this.#message.headers;
  }

  /** The media type without its parameters, or undefined. */
  get contentType(): string | undefined {
    return this.headers['content-type']?.split(';')[0]?.trim();
  }

  /** All of the body, once it has ended. */
  text(): Promise<string> {
    return this.#text;
  }

  /** The messages of the body, of an event stream or of JSON, once it has ended. */
  async messages(): Promise<Message[]> {
    const text = await this.#text;
    if (this.contentType !== 'text/event-stream') return [JSON.parse(text) as Message].flat();
    return dataOf(text)
      .filter((data) => data !== '')
      .map((data) => JSON.parse(data) as Message);
  }

  /** Hangs up. */
  close(): void {
    this.#message.destroy();
  }
}

/** The data of each event of an event stream that has any, an empty one too. */
export function dataOf(stream: string): string[] {
  return stream
    .split('\n\n')
    .map((event) => event.split('\n').filter((line) => line.startsWith('data:')))
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map((line) => line.slice('data:'.length).trim()).join('\n'));
}

function parseEvent(block: string): StreamEvent {
  const fields = block.split('\n').flatMap((line) => /^(id|retry|data): ?(.*)$/.exec(line)?.slice(1) ?? []);
  const pairs = fields.flatMap((name, index) => (index % 2 === 0 ? [[name, fields[index + 1]]] : []));
  return Object.fromEntries(pairs) as StreamEvent;
}

/** Sends a request and waits for the head of the answer. */
export function send(url: string, { method = 'POST', headers = {}, body, agent }: Sent): Promise<Answer> {
  const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const options = { method, headers, agent: agent ?? false };
    const open = url.startsWith('https:') ? requestSecurely : request;
    const sent = open(url, options, (message) => resolve(new Answer(message)));
    sent.on('error', reject).end(payload);
  });
}

/** The headers that every POST of a client has. */
export const postHeaders = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
} as const;

/** The body of an `initialize` request. */
export function initializeBody(protocolVersion = '2025-11-25', params: JsonObject = {}): JsonObject {
  return {
    jsonrpc: '2.0',
    id: 'init',
    method: 'initialize',
    params: { protocolVersion, capabilities: {}, clientInfo: { name: 'raw-client', version: '1.0.0' }, ...params },
  };
}

/** How a session is opened besides its revision. */
export interface SessionOpening {
  readonly headers?: Readonly<Record<string, string>>;
  readonly params?: JsonObject;
  readonly agent?: Agent;
}

/** Opens a session in the way of a client of this revision; gives the headers for its further requests. */
export async function openSession(
  url: string,
  protocolVersion = '2025-11-25',
  { headers: more = {}, params, ...others }: SessionOpening = {},
): Promise<{ headers: Record<string, string>; initialized: Message }> {
  const base = { ...postHeaders, ...more };
  const answer = await send(url, { headers: base, body: initializeBody(protocolVersion, params), ...others });
  const [initialized] = await answer.messages();
  const id = answer.headers['mcp-session-id'];
  if (typeof id !== 'string' || initialized === undefined) throw new Error(`No session: ${await answer.text()}`);
  // The header for the version came with 2025-06-18.
  const version = protocolVersion < '2025-06-18' ? {} : { 'mcp-protocol-version': protocolVersion };
  const headers = { ...base, 'mcp-session-id': id, ...version };
  await (await send(url, { headers, body: { jsonrpc: '2.0', method: 'notifications/initialized' }, ...others })).text();
  return { headers, initialized };
}
