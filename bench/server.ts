import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Answer, LineClient } from './line-client.ts';
import { isRunning, markedBy, treeOf, treeProcessorMs } from './process-tree.ts';

/** A server that does not answer in this time has failed, and its round with it. */
const answerMs = 45_000;
/** Longest wait for a server to end by itself. */
const endMs = 15_000;
/** How often the processes are looked at while they end; the figures are as fine as that. */
const pollMs = 2;

/** A program to be measured. */
export interface Command {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** How a server ended. */
export interface Ending {
  /** From the end of its stdin until no process was left, in milliseconds; NaN when some had to be killed. */
  readonly durationMs: number;
  readonly killed: number;
}

/** Rejects when the work takes longer than a server may. */
export async function inTime<T>(work: Promise<T>, what: string): Promise<T> {
  const timer = new AbortController();
  const tooLate = sleep(answerMs, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`${what} took more than ${answerMs} ms`);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    timer.abort();
    tooLate.catch(() => undefined); // Ended by us.
  }
}

/** The variables that a server gets from ours: none that would change what it does. */
function plainEnvironment(): Record<string, string> {
  const isOurs = (name: string): boolean => /^(npm_|NODE_|PLAYWRIGHT_|CLOAK|PW)/i.test(name);
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !isOurs(name));
  return Object.fromEntries(kept) as Record<string, string>;
}

/** One started program with its client, in a temporary folder of its own by which its processes are found. */
export class Server {
  static readonly #live = new Set<Server>();
  readonly client: LineClient;
  readonly pid: number;
  readonly startedAt: number;
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<void>;
  readonly #failed: Promise<never>;
  #ending: Promise<Ending> | undefined;

  constructor(command: Command) {
    // Short: Chromium's socket paths below it have a limit.
    this.#folder = mkdtempSync(join(tmpdir(), 'cbb-'));
    this.startedAt = performance.now();
    const spawned = spawn(process.execPath, command.args, {
      cwd: this.#folder,
      env: { ...plainEnvironment(), TMPDIR: this.#folder, ...command.env },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    Server.#live.add(this);
    this.#process = spawned;
    this.pid = spawned.pid ?? 0;
    spawned.stdin.on('error', () => undefined); // Its end is told below.
    this.client = new LineClient(spawned.stdout, spawned.stdin);
    this.#exited = new Promise((resolve) => {
      spawned.once('exit', () => {
        resolve();
      });
    });
    this.#failed = this.#exited.then(() => {
      throw new Error(`the server ended: ${command.args.join(' ')}`);
    });
    this.#failed.catch(() => undefined); // Seen by whoever waits for an answer.
  }

  /** Kills whatever still runs, for a benchmark that is ended early. */
  static killAll(): void {
    for (const server of Server.#live) server.kill();
  }

  /** Sends a request and waits for its answer. */
  request(method: string, params = '{}'): Promise<Answer> {
    const answer = new Promise<Answer>((resolve) => {
      this.client.send(method, params, resolve);
    });
    return inTime(Promise.race([answer, this.#failed]), method);
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

  /** Waits until the processes have nothing to do: less than a tick of processor time within a quarter of a second. */
  async settle(): Promise<void> {
    const deadline = performance.now() + answerMs;
    let before = Number.NEGATIVE_INFINITY;
    let now = treeProcessorMs(this.pid);
    while (now - before > 10 && performance.now() < deadline) {
      before = now;
      await sleep(250);
      now = treeProcessorMs(this.pid);
    }
  }

  /** Ends its stdin and waits until nothing of it is left; what does not end is killed by its pid. */
  end(): Promise<Ending> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<Ending> {
    const known = new Set([...treeOf(this.pid), ...markedBy(this.#folder)]);
    const begin = performance.now();
    this.#process.stdin?.end();
    let goneAt = await untilGone(known, begin + endMs);
    // The search for unknown ones takes a while, so it comes last and is not counted.
    for (let others = markedBy(this.#folder); others.length > 0 && goneAt < begin + endMs;) {
      goneAt = await untilGone(new Set(others), begin + endMs);
      others = markedBy(this.#folder);
    }
    const killed = this.kill();
    await inTime(this.#exited, 'the end');
    return { durationMs: killed > 0 ? Number.NaN : goneAt - begin, killed };
  }

  /** Kills what is left, by pid, and removes the folder. Returns how many processes there were. */
  kill(): number {
    const left = [...new Set([...treeOf(this.pid), ...markedBy(this.#folder)])].filter(isRunning);
    for (const pid of left) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself.
      }
    }
    Server.#live.delete(this);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    return left.length;
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

/** Waits until none of the processes runs, at most until `limit`; returns when that was. */
async function untilGone(pids: ReadonlySet<number>, limit: number): Promise<number> {
  const left = new Set(pids);
  for (;;) {
    for (const pid of left) if (!isRunning(pid)) left.delete(pid);
    if (left.size === 0 || performance.now() > limit) return performance.now();
    await sleep(pollMs);
  }
}
