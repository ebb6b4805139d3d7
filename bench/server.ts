import { type Answer, LineClient } from './line-client.ts';
import { type Command, type Ending, Program, inTime } from './program.ts';

/** One started program that speaks over stdio, with its client. */
export class Server {
  readonly client: LineClient;
  readonly #program: Program;

  constructor(command: Command) {
    this.#program = new Program(command, { output: true, channel: false });
    const { input, output } = this.#program.pipes;
    this.client = new LineClient(input, output);
  }

  /** The process that was started. */
  get pid(): number {
    return this.#program.pid;
  }

  /** When it was started, on the clock of `performance.now`. */
  get startedAt(): number {
    return this.#program.startedAt;
  }

  /** Sends a request and waits for its answer. */
  request(method: string, params = '{}'): Promise<Answer> {
    const answer = new Promise<Answer>((resolve) => {
      this.client.send(method, params, resolve);
    });
    return inTime(Promise.race([answer, this.#program.failed]), method);
  }

  /** Calls a tool; throws what it answered when that is an error. */
  async call(name: string, given: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
    const answer = await this.request('tools/call', JSON.stringify({ name, arguments: given }));
    const text = answer.text();
    if (text.includes('"isError":true') || text.includes('"error":{')) throw new Error(text.slice(0, 500));
    return answer;
  }

  /** Says hello; returns when each of the two answers came, in milliseconds since the start. */
  async open(): Promise<{ readonly initializeMs: number; readonly listMs: number }> {
    const clientInfo = { name: 'bench', version: '1.0.0' };
    await this.request('initialize', JSON.stringify({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo }));
    const initializeMs = performance.now() - this.startedAt;
    this.client.notify('notifications/initialized');
    const list = await this.request('tools/list');
    const listMs = performance.now() - this.startedAt;
    if (!list.text().includes('"tools":[')) throw new Error(`no tool list: ${list.text().slice(0, 500)}`);
    return { initializeMs, listMs };
  }

  /** Waits until its processes have nothing to do. */
  settle(): Promise<void> {
    return this.#program.settle();
  }

  /** Ends its stdin and waits until nothing of it is left. */
  end(): Promise<Ending> {
    return this.#program.end('stdin');
  }
}

/**
 * Starts a server, hands it to `use`, and ends it, whatever happens. The program of Node is shared by all its processes,
 * so for memory a tree of one process is looked at with one more process, `companion`, beside it.
 */
export async function withServer<T>(
  command: Command,
  companion: Command | undefined,
  use: (server: Server) => Promise<T>,
): Promise<T> {
  const beside = companion === undefined ? undefined : new Server(companion);
  try {
    await beside?.open();
    const server = new Server(command);
    try {
      return await use(server);
    } finally {
      await server.end();
    }
  } finally {
    await beside?.end();
  }
}
