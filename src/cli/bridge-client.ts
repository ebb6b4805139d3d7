import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

import { timedOut, within } from '../core/deadline.ts';
import { LineReader } from '../core/framing.ts';
import { bridgeVersion } from '../core/version.ts';

/** A JSON object of the protocol. */
export type Json = Readonly<Record<string, unknown>>;

/** What a tool answered. */
export interface ToolAnswer {
  readonly isError: boolean;
  readonly text: string;
  readonly structured: Json;
}

/** How a bridge is started. */
export interface BridgeStart {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the user wants to stop: every wait ends. */
  readonly signal: AbortSignal;
  /** Takes each line that the bridge prints for people. */
  readonly onNote?: (line: string) => void;
}

/** Longer than the bridge lets a call wait for its first start. */
const callLimitMs = 60_000;
/** The bridge closes the browser, or kills it, within about 10 s by its own limits. */
const closeLimitMs = 15_000;
const killLimitMs = 3000;
/** No answer that is asked for here comes near it. */
const maxLineBytes = 64 * 1024 * 1024;
const keptNotes = 20;

type Answer = { readonly result: Json } | { readonly error: Json };

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null;
}

/** A client of the packaged bridge, started over stdio exactly as an MCP client does it. */
export class BridgeClient {
  /** What the bridge printed on stderr last. */
  readonly notes: string[] = [];
  readonly #process: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #start: BridgeStart;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #ended: Promise<string>;
  readonly #end: (reason: string) => void;
  readonly #exited: Promise<void>;
  #nextId = 1;

  constructor(start: BridgeStart) {
    this.#start = start;
    let end: (reason: string) => void = () => undefined;
    this.#ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#end = end;
    const program = fileURLToPath(new URL('./main.js', import.meta.url));
    this.#process = spawn(process.execPath, [program, ...start.args], {
      env: start.env,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#exited = this.#watchExit();
    this.#process.stdin.on('error', () => undefined); // A bridge that ended is told by its exit.
    start.signal.addEventListener('abort', () => {
      end('it was interrupted');
    });
    this.#read();
  }

  /** Says hello as a client does; returns the bridge's answer. */
  async initialize(): Promise<Json> {
    const answer = await this.request('initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'cloakbrowser-mcp', version: bridgeVersion },
    });
    this.#send({ method: 'notifications/initialized' });
    return answer;
  }

  /** The names of the tools on offer. */
  async listTools(): Promise<string[]> {
    const { tools } = await this.request('tools/list', {});
    return Array.isArray(tools) ? tools.filter(isObject).map(({ name }) => String(name)) : [];
  }

  /** Calls a tool. An answer that is an error is returned, not thrown. */
  async call(name: string, args: Json = {}): Promise<ToolAnswer> {
    const { content, structuredContent, isError } = await this.request('tools/call', { name, arguments: args });
    const parts = Array.isArray(content) ? content.filter(isObject) : [];
    const text = parts.flatMap((part) => (typeof part['text'] === 'string' ? [part['text']] : [])).join('\n');
    return { isError: isError === true, text, structured: isObject(structuredContent) ? structuredContent : {} };
  }

  /** Sends a request; throws when it is refused, when the bridge ends or when the answer takes too long. */
  async request(method: string, params: Json): Promise<Json> {
    const id = this.#nextId++;
    const answered = new Promise<Answer>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    this.#send({ id, method, params });
    const answer = await within(Promise.race([answered, this.#ended]), callLimitMs);
    this.#waiting.delete(id);
    if (answer === timedOut) throw new Error(`${method} was not answered within ${callLimitMs / 1000} s`);
    if (typeof answer === 'string') throw new Error(`${method} was not answered: ${answer}`);
    if ('error' in answer) throw new Error(`${method} was refused: ${String(answer.error['message'])}`);
    return answer.result;
  }

  /** Ends the bridge as a client does, by the end of its input; one that stays is killed. */
  async close(): Promise<void> {
    this.#process.stdin.end();
    if ((await within(this.#exited, closeLimitMs)) !== timedOut) return;
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      this.#process.kill(signal);
      if ((await within(this.#exited, killLimitMs)) !== timedOut) return;
    }
  }

  #watchExit(): Promise<void> {
    return new Promise((resolve) => {
      this.#process.once('error', (failure) => {
        this.#end(`the bridge could not be started: ${failure.message}`);
        resolve();
      });
      // `close` comes after the last line of stderr, which may tell why.
      this.#process.once('close', (code, signal) => {
        const last = this.notes.at(-1);
        this.#end(`the bridge ended with ${signal ?? `code ${code}`}${last === undefined ? '' : `: ${last}`}`);
        resolve();
      });
    });
  }

  #send(message: Json): void {
    this.#process.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  #read(): void {
    const ignore = (): void => undefined;
    const lines = new LineReader(maxLineBytes, {
      onLine: (line) => {
        this.#take(line.toString('utf8'));
      },
      onOversize: ignore,
    });
    const notes = new LineReader(maxLineBytes, {
      onLine: (line) => {
        this.#note(line.toString('utf8'));
      },
      onOversize: ignore,
    });
    this.#process.stdout.on('data', (chunk: Buffer) => {
      lines.push(chunk);
    });
    this.#process.stderr.on('data', (chunk: Buffer) => {
      notes.push(chunk);
    });
  }

  #note(line: string): void {
    this.notes.push(line);
    if (this.notes.length > keptNotes) this.notes.shift();
    this.#start.onNote?.(line);
  }

  #take(line: string): void {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      // The bridge prints nothing but the protocol; what else comes must not pass unseen.
      this.#end(`the bridge printed something that is no message: ${line.slice(0, 200)}`);
      return;
    }
    if (!isObject(message) || typeof message['id'] !== 'number' || 'method' in message) return;
    const { result, error } = message;
    this.#waiting.get(message['id'])?.(isObject(error) ? { error } : { result: isObject(result) ? result : {} });
  }
}
