import type { Agent } from 'node:http';
import type { ServerStatus } from '../../src/core/server-status.ts';
import { sessionHash } from '../../src/session/registry.ts';
import type { JsonObject, LineClient, Message, MessageId } from './client.ts';
import { type Answer, openSession, send, type Sent, type SessionOpening } from './http-exchange.ts';
import { waitForListening } from './listening.ts';
import type { BridgeOptions, Testbed } from './testbed.ts';
import { waitUntil, withDeadline } from './waiting.ts';

/** Settings of a server by their flags, without dashes before them. */
export type ServerSettings = Readonly<Record<string, string | number>>;

/** Exact counts need a server that starts nothing by itself, whatever computer it runs on. */
const quietSettings: ServerSettings = {
  transport: 'streamable-http',
  'http-port': 0,
  'http-spare-children': 0,
  'http-min-free-memory': 0,
  'log-level': 'debug',
};

/** Long enough for a start on a machine that has more to do. */
const answerMs = 30_000;

/** How a server of a test is started. */
export interface ServerOptions extends Omit<BridgeOptions, 'args'> {
  readonly settings?: ServerSettings;
}

/** How a client of a test opens its session. */
export interface ClientOptions extends SessionOpening {
  readonly protocolVersion?: string;
}

/** How a call is made. */
export interface CallOptions {
  readonly id?: MessageId;
  readonly meta?: JsonObject;
  /** Time for the answer, in milliseconds. */
  readonly ms?: number;
}

/** The command line of these settings. */
export function serverArgs(settings: ServerSettings = {}): string[] {
  return Object.entries({ ...quietSettings, ...settings }).flatMap(([name, value]) => [`--${name}`, String(value)]);
}

/** A session of a server, as its client has it. */
export class HttpClient {
  readonly url: string;
  /** What every request of the session carries. */
  readonly headers: Readonly<Record<string, string>>;
  readonly initialized: Message;
  readonly #agent: Agent | undefined;
  #nextId = 1;

  private constructor(url: string, opened: Awaited<ReturnType<typeof openSession>>, agent: Agent | undefined) {
    this.url = url;
    this.headers = opened.headers;
    this.initialized = opened.initialized;
    this.#agent = agent;
  }

  static async open(url: string, { protocolVersion, ...opening }: ClientOptions = {}): Promise<HttpClient> {
    const opened = await withDeadline('a session', openSession(url, protocolVersion, opening), answerMs);
    return new HttpClient(url, opened, opening.agent);
  }

  get id(): string {
    return this.headers['mcp-session-id'] ?? '';
  }

  /** What stands for the id in logs. */
  get hash(): string {
    return sessionHash(this.id);
  }

  /** Sends a request of the session and waits for the head of the answer. */
  send({ headers, ...sent }: Sent = {}): Promise<Answer> {
    const all = { ...sent, headers: { ...this.headers, ...headers } };
    return withDeadline(
      'the head of an answer',
      send(this.url, this.#agent === undefined ? all : { ...all, agent: this.#agent }),
      answerMs,
    );
  }

  /** Sends messages without a version; returns the status. */
  async post(message: JsonObject): Promise<number> {
    const answer = await this.send({ body: { jsonrpc: '2.0', ...message } });
    await answer.ended();
    return answer.status;
  }

  /** Begins a call whose answer is not waited for; its stream is open when this returns. */
  start(name: string, args: JsonObject = {}, { id = this.#nextId++, meta }: CallOptions = {}): Promise<Answer> {
    const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
    return this.send({ body: { jsonrpc: '2.0', id, method: 'tools/call', params } });
  }

  /** Calls a tool and waits for the answer. */
  async call(name: string, args: JsonObject = {}, options: CallOptions = {}): Promise<Message> {
    const id = options.id ?? this.#nextId++;
    return answerIn(await this.start(name, args, { ...options, id }), id, options.ms);
  }

  /** Sends a request and waits for the answer. */
  async request(method: string, params: JsonObject = {}, id: MessageId = this.#nextId++): Promise<Message> {
    return answerIn(await this.send({ body: { jsonrpc: '2.0', id, method, params } }), id);
  }

  /** Opens the stream to listen on, or goes on with one. */
  listen(lastEventId?: string): Promise<Answer> {
    const headers = {
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    };
    return this.send({ method: 'GET', headers });
  }

  /** Ends the session; returns the status. */
  async end(): Promise<number> {
    const answer = await this.send({ method: 'DELETE' });
    await answer.ended(answerMs);
    return answer.status;
  }
}

async function answerIn(answer: Answer, id: MessageId, ms = answerMs): Promise<Message> {
  const text = await answer.ended(ms);
  const messages = await answer.messages();
  const found = messages.find((message) => message.method === undefined && message.id === id);
  if (found === undefined) throw new Error(`No answer to ${id}: ${answer.status} ${text.slice(0, 500)}`);
  return found;
}

/** A server over Streamable HTTP, in front of a fake child. */
export class HttpServer {
  readonly program: LineClient;
  readonly url: string;

  private constructor(program: LineClient, url: string) {
    this.program = program;
    this.url = url;
  }

  /** Starts a server that starts no child by itself. */
  static async start(testbed: Testbed, { settings, ...options }: ServerOptions = {}): Promise<HttpServer> {
    await testbed.learnCatalog(options.child);
    return HttpServer.of(testbed.start({ ...options, args: serverArgs(settings) }));
  }

  /** The server that a program is, once it listens. */
  static async of(program: LineClient): Promise<HttpServer> {
    return new HttpServer(program, await waitForListening(program));
  }

  /** A server that was started in another way; waits until it listens. */
  static async attach(program: LineClient): Promise<HttpServer> {
    return new HttpServer(program, await waitForListening(program));
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Opens a session. */
  open(options?: ClientOptions): Promise<HttpClient> {
    return HttpClient.open(this.url, options);
  }

  /** Asks at a path beside the endpoint. */
  ask(path: string, sent: Sent = {}): Promise<Answer> {
    return send(`${new URL(this.url).origin}${path}`, { method: 'GET', ...sent });
  }

  /** What `/status` tells. */
  async status(headers: Sent['headers'] = {}): Promise<ServerStatus> {
    return JSON.parse(await (await this.ask('/status', { headers })).text()) as ServerStatus;
  }

  /** The sum of a metric over its labels; `only` is a part of the labels that must be there. */
  async metric(name: string, only = '', headers: Sent['headers'] = {}): Promise<number> {
    const text = await (await this.ask('/metrics', { headers })).text();
    const lines = text.split('\n').filter((line) => /^[^ {]+/.exec(line)?.[0] === `cloakbrowser_mcp_${name}`);
    if (lines.length === 0) throw new Error(`No metric ${name}`);
    const wanted = lines.filter((line) => line.includes(only));
    return wanted.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  }

  /** The log lines of this event with these fields. */
  logged(event: string, fields: JsonObject = {}): JsonObject[] {
    const wanted = Object.entries({ msg: event, ...fields });
    return this.program.stderr
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as JsonObject)
      .filter((entry) => wanted.every(([key, value]) => entry[key] === value));
  }

  /** Waits until an event was logged `count` times; returns the last of them. */
  waitForLog(event: string, fields: JsonObject = {}, { count = 1, ms = answerMs } = {}): Promise<JsonObject> {
    return waitUntil(
      `${count} x log "${event}" ${JSON.stringify(fields)}`,
      () => this.logged(event, fields)[count - 1],
      ms,
    );
  }
}
