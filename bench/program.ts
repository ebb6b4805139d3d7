import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

import { isRunning, markedBy, processorMs, treeOf, treeProcessorMs } from './process-tree.ts';

/** A program that does not answer in this time has failed, and its round with it. */
const answerMs = 45_000;
/** Longest wait for a program to end by itself. */
const endMs = 15_000;
/** How often the processes are looked at while they end; the figures are as fine as that. */
const pollMs = 2;
/** What is shown of the standard error of a program that ended by itself. */
const shownErrorCharacters = 1000;

/** A program to be measured. */
export interface Command {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** How a program ended. */
export interface Ending {
  /** From the end of its stdin, or the signal, until no process was left, in milliseconds; NaN when some had to be killed. */
  readonly durationMs: number;
  readonly killed: number;
}

/** Rejects when the work takes longer than `limitMs`, by default what a program may take to answer. */
export async function inTime<T>(work: Promise<T>, what: string, limitMs: number = answerMs): Promise<T> {
  const timer = new AbortController();
  const tooLate = sleep(limitMs, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`${what} took more than ${limitMs} ms`);
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    timer.abort();
    tooLate.catch(() => undefined); // Ended by us.
  }
}

/** The variables that a program gets from ours: none that would change what it does. */
function plainEnvironment(): Record<string, string> {
  const isOurs = (name: string): boolean => /^(npm_|NODE_|PLAYWRIGHT_|CLOAK|PW)/i.test(name);
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !isOurs(name));
  return Object.fromEntries(kept) as Record<string, string>;
}

/** What the benchmark reads of a program and says to it. */
export interface Ends {
  /** With a pipe behind its stdout; without, what it prints there is not kept. */
  readonly output: boolean;
  /** With a channel for messages between the two Nodes. */
  readonly channel: boolean;
}

/** One started Node program, in a temporary folder of its own by which its processes are found. */
export class Program {
  static readonly #live = new Set<Program>();
  static #lostMs = 0;
  readonly pid: number;
  readonly startedAt: number;
  /** Its working folder, also what it and its children have as the temporary folder. */
  readonly folder: string;
  /** Rejects when the program has ended, with what it said last. */
  readonly failed: Promise<never>;
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  #known: readonly number[] = [];
  #ending: Promise<Ending> | undefined;

  constructor(command: Command, { output, channel }: Ends) {
    // Short: Chromium's socket paths below it have a limit.
    this.folder = mkdtempSync(join(tmpdir(), 'cbb-'));
    const errors = openSync(join(this.folder, 'stderr.txt'), 'w');
    const stdio: StdioOptions = ['pipe', output ? 'pipe' : 'ignore', errors, ...(channel ? (['ipc'] as const) : [])];
    this.startedAt = performance.now();
    const spawned = spawn(process.execPath, command.args, {
      cwd: this.folder,
      env: { ...plainEnvironment(), TMPDIR: this.folder, ...command.env },
      stdio,
    });
    closeSync(errors);
    Program.#live.add(this);
    this.#process = spawned;
    this.pid = spawned.pid ?? 0;
    spawned.stdin?.on('error', () => undefined); // The end of the program is told below.
    this.#exited = new Promise((resolve) => {
      spawned.once('exit', () => {
        resolve();
      });
    });
    this.failed = this.#exited.then(() => {
      throw new Error(`the program ended: ${command.args.join(' ')}\n${this.#lastWords()}`);
    });
    this.failed.catch(() => undefined); // Seen by whoever waits for an answer.
  }

  /** Kills whatever still runs, for a benchmark that is ended early. */
  static killAll(): void {
    for (const program of Program.#live) program.kill();
  }

  /**
   * Processor time of ended processes that nobody of ours waited for, in milliseconds, as far as it was noticed: some of a
   * browser's are so, and those of a server that kills a shell and what the shell started.
   */
  static get lostMs(): number {
    return Program.#lostMs;
  }

  /** Its stdin and stdout. */
  get pipes(): { readonly input: Readable; readonly output: Writable } {
    const { stdin, stdout } = this.#process;
    if (stdin === null || stdout === null) throw new Error('the program was started without a pipe behind its stdout');
    return { input: stdout, output: stdin };
  }

  /** Sends a message over the channel and waits for the next that comes back. */
  ask(message: string): Promise<unknown> {
    const reply = new Promise<unknown>((resolve) => {
      this.#process.once('message', resolve);
    });
    this.#process.send(message);
    return inTime(Promise.race([reply, this.failed]), message);
  }

  /** Waits for work that ends processes below the program, and notices what processor time is lost with them. */
  async noticeLost<T>(work: Promise<T>): Promise<T> {
    const before = treeProcessorMs(this.pid);
    const done = await work;
    Program.#lostMs += Math.max(0, before - treeProcessorMs(this.pid));
    return done;
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

  /** Ends its stdin or sends SIGTERM, and waits until nothing of it is left; what does not end is killed by its pid. */
  end(how: 'stdin' | 'SIGTERM'): Promise<Ending> {
    this.#ending ??= this.#end(how);
    return this.#ending;
  }

  async #end(how: 'stdin' | 'SIGTERM'): Promise<Ending> {
    this.#known = [...new Set([...treeOf(this.pid), ...markedBy(this.folder)])];
    const used = treeProcessorMs(this.pid) + processorMs(process.pid, true);
    const begin = performance.now();
    if (how === 'stdin') this.#process.stdin?.end();
    else this.#process.kill(how);
    let goneAt = await untilGone(new Set(this.#known), begin + endMs);
    // The search for unknown ones takes a while, so it comes last and is not counted.
    for (let others = markedBy(this.folder); others.length > 0 && goneAt < begin + endMs;) {
      goneAt = await untilGone(new Set(others), begin + endMs);
      others = markedBy(this.folder);
    }
    const killed = this.kill();
    await inTime(this.#exited, 'the end');
    Program.#lostMs += Math.max(0, used - processorMs(process.pid, true));
    return { durationMs: killed > 0 ? Number.NaN : goneAt - begin, killed };
  }

  /** Kills what is left, by pid, and removes the folder. Returns how many processes there were. */
  kill(): number {
    const left = [...new Set([...this.#known, ...treeOf(this.pid), ...markedBy(this.folder)])].filter(isRunning);
    for (const pid of left) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself.
      }
    }
    Program.#live.delete(this);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    return left.length;
  }

  #lastWords(): string {
    try {
      return readFileSync(join(this.folder, 'stderr.txt'), 'utf8').slice(-shownErrorCharacters);
    } catch {
      return ''; // The folder has gone with the program.
    }
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
