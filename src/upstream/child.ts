import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import { type LineParts, LineReader, LineWriter } from '../core/framing.ts';
import type { Host } from '../core/host.ts';
import type { Logger } from '../core/logger.ts';
import { endMarkedProcesses, killProcesses, processesMarkedBy } from '../core/process-tree.ts';
import type { Redactor } from '../core/redact.ts';

/** Lines of stderr kept for error texts; a stack trace of upstream with its message fits. */
const tailLines = 20;
/** A longer stderr line is cut: it is for people, and must not fill the memory. */
const maxErrorLineBytes = 16_384;
/** How long answers that were written just before the end may still come out of the pipe. */
const drainMs = 250;
/** Time after the end of stdin before SIGKILL. */
const lastGraceMs = 2000;
/** Time for the browser's own processes to follow their ended parent. */
const followGraceMs = 3000;

/** What is started. */
export interface ChildCommand {
  readonly cliPath: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The child's TMPDIR; marks its processes. */
  readonly tempDir: string;
  readonly maxMessageBytes: number;
}

/** What a child is started with besides its command. */
export interface ChildParts {
  readonly host: Host;
  readonly logger: Logger;
  readonly redactor: Redactor;
}

/** How a child ended. */
export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why the process could not be started at all. */
  readonly failure?: string;
}

/** What a child tells while it runs. */
export interface ChildEvents {
  onLine(line: Buffer): void;
  /** A large line, its chunks not joined. */
  onChunks(chunks: readonly Buffer[], bytes: number): void;
  onOversize(head: Buffer, tail: Buffer, bytes: number): void;
}

type Spawned = ChildProcessByStdio<Writable, Readable, Readable>;

/** One process running the upstream program over stdio. Made by `startChild`. */
export class Child {
  readonly stdout: Readable;
  readonly stdin: Writable;
  /** Settles when the system has told the end of the process. */
  readonly exited: Promise<ChildExit>;
  /** Settles as soon as the process has ended or its pipe broke: nothing more can be sent to it. */
  readonly gone: Promise<void>;
  /** Settles after that, when its last lines were told as well. */
  readonly ended: Promise<ChildExit>;
  readonly #process: Spawned;
  readonly #command: ChildCommand;
  readonly #parts: ChildParts;
  readonly #writer: LineWriter;
  readonly #tail: string[] = [];
  #events: ChildEvents | undefined;
  #isRead = false;
  #hasEnded = false;
  #closing: Promise<void> | undefined;

  constructor(spawned: Spawned, command: ChildCommand, parts: ChildParts) {
    this.#process = spawned;
    this.#command = command;
    this.#parts = parts;
    this.stdout = spawned.stdout;
    this.stdin = spawned.stdin;
    this.#writer = new LineWriter(spawned.stdin);
    // A broken pipe to or from a child that just ended: its exit tells the loss.
    for (const stream of [spawned.stdin, spawned.stdout, spawned.stderr]) stream.on('error', () => undefined);
    this.exited = this.#watchExit();
    this.gone = Promise.race([this.exited, closed(this.stdout)]).then(() => {
      this.#hasEnded = true;
    });
    this.ended = this.#watchEnd();
    this.#readStderr();
  }

  /** The process id; undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** True once nothing more can be sent to it. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Bytes that were sent and that the child has not read. */
  get unreadBytes(): number {
    return this.stdin.writableLength;
  }

  /** Starts telling lines; a second call hands the child over to somebody else. */
  listen(events: ChildEvents): void {
    this.#events = events;
    if (this.#isRead) return;
    this.#isRead = true;
    const reader = new LineReader(this.#command.maxMessageBytes, {
      onLine: (line) => {
        this.#tell((current) => {
          current.onLine(line);
        });
      },
      onChunks: (chunks, bytes) => {
        this.#tell((current) => {
          current.onChunks(chunks, bytes);
        });
      },
      onOversize: (head, tail, bytes) => {
        this.#tell((current) => {
          current.onOversize(head, tail, bytes);
        });
      },
    });
    this.stdout.on('data', (chunk: Buffer) => {
      reader.push(chunk);
    });
  }

  /** Whoever drives the browser can make the child write anything: no line of it may end the program. */
  #tell(deliver: (events: ChildEvents) => void): void {
    if (this.#events === undefined) return;
    try {
      deliver(this.#events);
    } catch (failure) {
      this.#parts.logger.error('child line failed', { pid: this.pid, reason: messageOf(failure) });
    }
  }

  /** Stops telling lines. */
  mute(): void {
    this.#events = undefined;
  }

  /** Writes one line. */
  send(parts: LineParts): void {
    this.#writer.write(parts);
  }

  /** The last lines of stderr, without secrets. */
  stderrTail(): string {
    return this.#tail.join('\n');
  }

  /**
   * Ends the process and everything it started: SIGTERM, after `graceMs` the end of its stdin, after 2 s SIGKILL to its
   * whole group. `graceMs` 0 kills at once, for a child that holds nothing. Returns when nothing of it is left.
   * SIGTERM goes first because upstream 0.0.83 kills its browser when its stdin ends, and loses what the profile learned
   * last (test/browser/lifecycle-browser.test.ts). Windows has no such signal: there stdin is ended first.
   */
  close(graceMs: number): Promise<void> {
    this.#closing ??= this.#end(graceMs);
    return this.#closing;
  }

  async #end(graceMs: number): Promise<void> {
    this.#writer.flush();
    // Output that nobody reads any more must not keep the child from ending.
    this.stdout.resume();
    if (graceMs > 0) await this.#ask(graceMs);
    else if (this.#killAlone()) return;
    if ((await within(this.exited, lastGraceMs)) === timedOut) {
      this.#parts.logger.warn('child killed', { pid: this.pid, reason: 'it did not end by itself' });
      this.#signal('SIGKILL');
    }
    // A process that even SIGKILL does not end hangs in the kernel; nobody can wait for it.
    await within(this.exited, lastGraceMs);
    const forced = await endMarkedProcesses(this.#parts.host, this.#command.tempDir, graceMs === 0 ? 0 : followGraceMs);
    if (forced > 0) this.#parts.logger.warn('left processes killed', { count: forced });
    this.stdout.destroy();
    this.#process.stderr.destroy();
  }

  /**
   * Kills the process; true when there is nothing else of it. A process with SIGKILL pending starts no other one, so
   * the few milliseconds that the system needs to end it (25 to 35 for 100 MB) need not be waited for.
   */
  #killAlone(): boolean {
    this.#signal('SIGKILL');
    const { host } = this.#parts;
    return host.platform === 'linux' && processesMarkedBy(host, this.#command.tempDir).every((pid) => pid === this.pid);
  }

  async #ask(graceMs: number): Promise<void> {
    const hasSignals = this.#parts.host.platform !== 'win32';
    if (hasSignals) this.#signal('SIGTERM');
    else this.stdin.end();
    if ((await within(this.exited, graceMs)) === timedOut && hasSignals) this.stdin.end();
  }

  /** Kills the process and everything it started, without waiting. */
  kill(): void {
    this.#signal('SIGKILL');
    killProcesses(this.#parts.host, processesMarkedBy(this.#parts.host, this.#command.tempDir));
  }

  #signal(signal: NodeJS.Signals): void {
    const { host } = this.#parts;
    if (this.pid === undefined) return;
    try {
      host.kill(host.platform === 'win32' ? this.pid : -this.pid, signal);
    } catch {
      // The group is gone already.
    }
  }

  #watchExit(): Promise<ChildExit> {
    return new Promise((resolve) => {
      this.#process.once('exit', (code, signal) => {
        resolve({ code, signal });
      });
      this.#process.once('error', (failure) => {
        resolve({ code: null, signal: null, failure: failure.message });
      });
    });
  }

  async #watchEnd(): Promise<ChildExit> {
    const drained = closed(this.stdout);
    const first = await Promise.race([this.exited, drained]);
    if (first !== undefined) {
      // Its last answers and its last words are still in the pipes.
      await within(Promise.all([drained, closed(this.#process.stderr)]), drainMs);
      return first;
    }
    // The pipe broke first: the process is as good as lost, and usually about to exit.
    const exit = await within(this.exited, drainMs);
    return exit === timedOut ? { code: null, signal: null, failure: 'it closed its standard output' } : exit;
  }

  #readStderr(): void {
    const { logger, redactor } = this.#parts;
    const reader = new LineReader(maxErrorLineBytes, {
      onLine: (line) => {
        this.#keep(redactor.clean(line.toString('utf8')));
      },
      onOversize: (head, _tail, bytes) => {
        this.#keep(`${redactor.clean(head.toString('utf8'))} ... (${bytes} bytes)`);
      },
    });
    this.#process.stderr.on('data', (chunk: Buffer) => {
      reader.push(chunk);
    });
    this.#process.stderr.once('end', () => {
      reader.push(Buffer.from('\n'));
    });
    void this.exited.then((exit) => {
      logger.debug('child ended', { pid: this.pid, code: exit.code, signal: exit.signal, reason: exit.failure });
    });
  }

  #keep(line: string): void {
    this.#parts.logger.debug('child wrote', { pid: this.pid, line });
    this.#tail.push(line);
    if (this.#tail.length > tailLines) this.#tail.shift();
  }
}

function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) resolve();
    else
      stream.once('close', () => {
        resolve();
      });
  });
}

/** Starts the upstream program as a process group of its own, so that all of it can be ended together. */
export function startChild(command: ChildCommand, parts: ChildParts): Child {
  const { host } = parts;
  const spawned = spawn(host.execPath, [command.cliPath, ...command.args], {
    cwd: command.cwd,
    env: command.env,
    detached: host.platform !== 'win32',
    windowsHide: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // Without free file descriptors Node returns a process that has no streams, whatever its type says.
  if ((spawned.stdin as Writable | undefined) === undefined) {
    spawned.once('error', () => undefined);
    throw new BridgeError(
      'child_start_failed',
      'The upstream process could not be started: no pipes could be made for it.',
      {
        hint: 'Raise the limit of open files, or close other programs.',
      },
    );
  }
  const child = new Child(spawned, command, parts);
  parts.logger.debug('child started', { pid: child.pid });
  return child;
}
