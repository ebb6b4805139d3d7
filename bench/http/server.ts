import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Command, type Ending, Program, inTime } from '../program.ts';
import { HttpClient, HttpSession } from './client.ts';

/** How often a starting server is asked whether it listens. */
const pollMs = 20;
/** Longest wait until it listens. */
const startMs = 30_000;
/** Longest wait for many sessions at once; a child each on two busy cores came close to a minute. */
const manyMs = 100_000;

/** Longest wait for spares, and how often they are asked for. */
const spareMs = 40_000;
const sparePollMs = 200;

/** What the bridge has started ahead of need. */
export interface Spares {
  /** Children without a browser. */
  readonly children: number;
  readonly browsers: number;
}

/** A server to be measured over HTTP. */
export interface HttpCommand {
  readonly name: string;
  /** The command for a port. */
  readonly on: (port: number) => Command;
  /** What it has started ahead when it is at rest, where it tells that. */
  readonly spares?: Spares;
}

/** A port that nobody has at the moment. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const finish = (isOpen: boolean): void => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', () => {
      finish(true);
    });
    socket.once('error', () => {
      finish(false);
    });
  });
}

async function untilListening(port: number): Promise<void> {
  const deadline = performance.now() + startMs;
  while (!(await canConnect(port))) {
    if (performance.now() > deadline) throw new Error(`no listener within ${startMs} ms`);
    await sleep(pollMs);
  }
}

/** One started program that speaks Streamable HTTP, with its client. */
export class HttpServer {
  readonly program: Program;
  readonly #command: HttpCommand;
  readonly #client: HttpClient;

  private constructor(command: HttpCommand, program: Program, port: number) {
    this.#command = command;
    this.program = program;
    this.#client = new HttpClient(new URL(`http://127.0.0.1:${port}/mcp`));
  }

  /** Starts it and waits until it listens and has nothing to do. */
  static async start(command: HttpCommand, channel: boolean = false): Promise<HttpServer> {
    const port = await freePort();
    const program = new Program(command.on(port), { output: false, channel });
    const server = new HttpServer(command, program, port);
    try {
      await Promise.race([untilListening(port), program.failed]);
      await server.settle();
    } catch (failure) {
      await server.end();
      throw failure;
    }
    return server;
  }

  /** Waits for the work of sessions, at most as long as many at once may take. */
  wait<T>(work: Promise<T>, what: string): Promise<T> {
    return inTime(Promise.race([work, this.program.failed]), what, manyMs);
  }

  /** Opens one session. */
  open(): Promise<HttpSession> {
    return this.wait(HttpSession.open(this.#client), 'a session');
  }

  /** Opens sessions at once. */
  openAll(count: number): Promise<HttpSession[]> {
    const all = Array.from({ length: count }, () => HttpSession.open(this.#client));
    return this.wait(Promise.all(all), `${count} sessions`);
  }

  /** Waits until it has its spares and nothing to do. */
  async settle(): Promise<void> {
    const { spares } = this.#command;
    if (spares !== undefined) await this.wait(this.#hasSpares(spares), 'spares');
    await this.program.settle();
  }

  async #hasSpares(wanted: Spares): Promise<void> {
    const deadline = performance.now() + spareMs;
    for (;;) {
      const { spares } = JSON.parse(await this.#client.read('/status')) as { readonly spares: Spares };
      if (spares.children >= wanted.children && spares.browsers >= wanted.browsers) return;
      if (performance.now() > deadline) throw new Error(`no spares within ${spareMs} ms: ${JSON.stringify(spares)}`);
      await sleep(sparePollMs);
    }
  }

  /** Ends sessions at once. */
  async endAll(sessions: readonly HttpSession[]): Promise<void> {
    const all = Promise.all(sessions.map((session) => session.end()));
    await this.program.noticeLost(this.wait(all, 'the end of sessions'));
  }

  /** Closes the connections of the client, also those that carry a stream. */
  disconnect(): void {
    this.#client.close();
  }

  /** Ends the program by SIGTERM and waits until nothing of it is left. */
  end(): Promise<Ending> {
    this.disconnect();
    return this.program.end('SIGTERM');
  }
}

/** Starts a server, hands it to `use`, and ends it, whatever happens. */
export async function withHttpServer<T>(command: HttpCommand, use: (server: HttpServer) => Promise<T>): Promise<T> {
  const server = await HttpServer.start(command);
  try {
    return await use(server);
  } finally {
    await server.end();
  }
}
