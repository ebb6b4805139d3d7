import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { waitUntil, withDeadline } from './waiting.ts';

/** Any JSON object. */
export type JsonObject = Record<string, unknown>;

/** The id of a request. */
export type MessageId = string | number;

/** A JSON-RPC message as it came. */
export interface Message extends JsonObject {
  readonly id?: MessageId | null;
  readonly method?: string;
  readonly params?: JsonObject;
  readonly result?: JsonObject;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonObject };
}

/** How a program ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** What is started, and how. */
export interface ClientOptions {
  readonly program: string;
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** What a client says of itself unless a test wants something else. */
export const plainInitialize = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test-client', version: '0.0.1' },
};

function isMessage(value: unknown): value is Message {
  return typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
}

/**
 * A raw line client: starts a program and speaks newline-delimited JSON-RPC with it, keeping every line of stdout and all
 * of stderr. A line that is no JSON-RPC object is kept in `strayLines`.
 */
export class LineClient {
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #parts: Buffer[] = [];
  readonly #listeners = new Set<(message: Message) => void>();
  readonly exited: Promise<Exit>;
  readonly lines: string[] = [];
  readonly strayLines: string[] = [];
  readonly messages: Message[] = [];
  readonly #lineOf = new WeakMap<Message, string>();
  stderr = '';
  #nextId = 1;

  constructor(options: ClientOptions) {
    this.#process = spawn(process.execPath, [options.program, ...(options.args ?? [])], {
      cwd: options.cwd,
      env: options.env,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.exited = new Promise((resolve, reject) => {
      this.#process.on('error', reject);
      this.#process.on('close', (code, signal) => {
        this.#readRest();
        resolve({ code, signal });
      });
    });
    this.#process.stdin.on('error', () => undefined); // the program may leave while a test still writes
    this.#process.stdout.on('data', (chunk: Buffer) => {
      this.#read(chunk);
    });
    this.#process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
  }

  get pid(): number {
    const { pid } = this.#process;
    if (pid === undefined) throw new Error('The program was not started');
    return pid;
  }

  /** Sends a line as it is. */
  sendRaw(line: string): void {
    this.#process.stdin.write(`${line}\n`);
  }

  send(message: JsonObject): void {
    this.sendRaw(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  notify(method: string, params?: JsonObject): void {
    this.send({ method, ...(params === undefined ? {} : { params }) });
  }

  /** Sends a request and waits for its answer, result or error. */
  async request(method: string, params?: JsonObject, options: { id?: MessageId; ms?: number } = {}): Promise<Message> {
    const id = options.id ?? this.#nextId++;
    const answer = this.answerTo(id, options.ms);
    this.send({ id, method, ...(params === undefined ? {} : { params }) });
    return answer;
  }

  /** Calls a tool and waits for the answer. */
  call(name: string, args: JsonObject = {}, options: { id?: MessageId; ms?: number } = {}): Promise<Message> {
    return this.request('tools/call', { name, arguments: args }, options);
  }

  /** The next answer to a request with this id. */
  answerTo(id: MessageId, ms?: number): Promise<Message> {
    return this.next(
      `the answer to ${JSON.stringify(id)}`,
      (message) => message.method === undefined && message.id === id,
      ms,
    );
  }

  /** The next message, from now on, that fits. */
  async next(what: string, fits: (message: Message) => boolean, ms = 10_000): Promise<Message> {
    const seen = deferred<Message>();
    const listener = (message: Message): void => {
      if (fits(message)) seen.resolve(message);
    };
    this.#listeners.add(listener);
    try {
      return await withDeadline(what, Promise.race([seen.promise, this.#endedEarly(what)]), ms);
    } finally {
      this.#listeners.delete(listener);
    }
  }

  /** The first message, already come or still to come, that fits. */
  seen(what: string, fits: (message: Message) => boolean, ms?: number): Promise<Message> {
    return waitUntil(what, () => this.messages.find(fits), ms);
  }

  /** The line that a message came in. */
  lineOf(message: Message): string {
    const line = this.#lineOf.get(message);
    if (line === undefined) throw new Error('This message did not come from this program');
    return line;
  }

  /** The messages with this method that came so far. */
  messagesOf(method: string): Message[] {
    return this.messages.filter((message) => message.method === method);
  }

  /** How many answers to this id came so far. */
  countAnswers(id: MessageId): number {
    return this.messages.filter((message) => message.method === undefined && message.id === id).length;
  }

  /** Answers requests of the other side for as long as the client lives. */
  onRequest(method: string, answer: (message: Message) => JsonObject | undefined): void {
    this.#listeners.add((message) => {
      if (message.method !== method || message.id === undefined) return;
      const reply = answer(message);
      if (reply !== undefined) this.send({ id: message.id, ...reply });
    });
  }

  /** The handshake: returns the answer to initialize. */
  async initialize(params: JsonObject = plainInitialize): Promise<Message> {
    const answer = await this.request('initialize', params);
    this.notify('notifications/initialized');
    return answer;
  }

  endStdin(): void {
    this.#process.stdin.end();
  }

  /** Stops reading and closes the reading end, as a client that crashed. */
  destroyStdout(): void {
    this.#process.stdout.destroy();
  }

  pauseStdout(): void {
    this.#process.stdout.pause();
  }

  resumeStdout(): void {
    this.#process.stdout.resume();
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /** Ends stdin and waits for the program's end; kills it when that takes too long. */
  async close(ms = 15_000): Promise<Exit> {
    this.endStdin();
    try {
      return await withDeadline('the end of the program after the end of stdin', this.exited, ms);
    } catch (cause) {
      this.kill('SIGKILL');
      throw cause;
    }
  }

  async #endedEarly(what: string): Promise<never> {
    const { code, signal } = await this.exited;
    throw new Error(`The program ended (${code ?? signal}) before ${what}; stderr: ${this.stderr.slice(-2000)}`);
  }

  #read(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      this.#parts.push(chunk.subarray(from, at));
      from = at + 1;
      this.#take(Buffer.concat(this.#parts.splice(0)).toString('utf8'));
    }
    if (from < chunk.length) this.#parts.push(chunk.subarray(from));
  }

  /** What the program wrote without a newline at its end. */
  #readRest(): void {
    if (this.#parts.length > 0) this.strayLines.push(Buffer.concat(this.#parts.splice(0)).toString('utf8'));
  }

  #take(line: string): void {
    this.lines.push(line);
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      message = undefined;
    }
    if (!isMessage(message)) {
      this.strayLines.push(line);
      return;
    }
    this.messages.push(message);
    this.#lineOf.set(message, line);
    for (const listener of this.#listeners) listener(message);
  }
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
