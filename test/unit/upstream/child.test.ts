import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Host } from '../../../src/core/host.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Redactor } from '../../../src/core/redact.ts';
import { Child, type ChildExit } from '../../../src/upstream/child.ts';

type Spawned = ConstructorParameters<typeof Child>[0];

/** What `spawn` returns, without a process. */
class FakeProcess extends EventEmitter {
  readonly pid: number | undefined;
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();

  constructor(pid: number | undefined) {
    super();
    this.pid = pid;
  }

  /** The process exits; its pipes end as well unless they are held by somebody else. */
  exit(code: number | null, signal: NodeJS.Signals | null = null, isHeld = false): void {
    this.emit('exit', code, signal);
    if (isHeld) return;
    this.stdout.end();
    this.stderr.end();
  }
}

interface Bed {
  readonly child: Child;
  readonly process: FakeProcess;
  /** Signals and the end of stdin, in order. */
  readonly steps: string[];
  readonly lines: string[];
  readonly log: string[];
  /** How the child ended, once it has. */
  exit(): ChildExit | undefined;
}

interface BedParts {
  readonly pid?: number | undefined;
  readonly platform?: NodeJS.Platform;
  /** Not even SIGKILL ends the process. */
  readonly isStuck?: boolean;
}

function makeBed(parts: BedParts = { pid: 50 }): Bed {
  const [steps, lines, log]: [string[], string[], string[]] = [[], [], []];
  const spawned = new FakeProcess(parts.pid);
  spawned.stdin.on('finish', () => steps.push('stdin ended'));
  const kill = (pid: number, signal: NodeJS.Signals | 0): void => {
    steps.push(`${signal} ${pid}`);
    if (signal === 'SIGKILL' && parts.isStuck !== true) spawned.exit(null, 'SIGKILL');
  };
  const note = (event: string): void => void log.push(event);
  const logger: Logger = { debug: () => undefined, info: note, warn: note, error: note };
  const redactor = new Redactor();
  redactor.add('hunter22');
  // Not Linux, where the table of the real processes would be searched.
  const host = { platform: parts.platform ?? 'darwin', kill } as unknown as Host;
  const command = { cliPath: '/cli.js', args: [], env: {}, cwd: '/', tempDir: '/tmp/x', maxMessageBytes: 100 };
  const child = new Child(spawned as unknown as Spawned, command, { host, logger, redactor });
  child.listen({
    onLine: (line) => void lines.push(line.toString()),
    onChunks: () => undefined,
    onOversize: (_head, _tail, bytes) => void lines.push(`too long: ${bytes}`),
  });
  let exit: ChildExit | undefined;
  void child.ended.then((found) => (exit = found));
  return { child, process: spawned, steps, lines, log, exit: () => exit };
}

async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the lines of a child', () => {
  it('are told one by one, and what is too long with its length', async () => {
    const bed = makeBed();
    bed.process.stdout.write(`{"a":1}\n${'x'.repeat(100)}\n${'x'.repeat(101)}\n{"b"`);
    bed.process.stdout.write(':2}\n');
    await settle();
    expect(bed.lines).toEqual(['{"a":1}', 'x'.repeat(100), 'too long: 101', '{"b":2}']);
  });

  it('are told no more once it is muted', async () => {
    const bed = makeBed();
    bed.child.mute();
    bed.process.stdout.write('{}\n');
    await settle();
    expect(bed.lines).toEqual([]);
  });

  it('go to it with a newline', async () => {
    const bed = makeBed();
    bed.child.send(['{"id":', Buffer.from('1'), '}']);
    await settle();
    expect(String(bed.process.stdin.read())).toBe('{"id":1}\n');
  });

  it('to one whose pipe is broken are lost without an error', async () => {
    const bed = makeBed();
    bed.process.stdin.destroy(new Error('EPIPE'));
    await settle();
    bed.child.send(['{}']);
    await settle();
    expect(bed.exit()).toBeUndefined();
  });
});

describe('the stderr of a child', () => {
  it('is kept as its last twenty lines', async () => {
    const bed = makeBed();
    for (let line = 1; line <= 21; line += 1) bed.process.stderr.write(`line ${line}\n`);
    await settle();
    const lines = bed.child.stderrTail().split('\n');
    expect([lines.length, lines[0], lines[19]]).toEqual([20, 'line 2', 'line 21']);
  });

  it('is kept without secrets', async () => {
    const bed = makeBed();
    bed.process.stderr.write('proxy http://u:pw@host refused hunter22\n');
    await settle();
    expect(bed.child.stderrTail()).toBe('proxy http://[redacted]@host refused [redacted]');
  });

  it('keeps a last line that has no newline', async () => {
    const bed = makeBed();
    bed.process.stderr.end('Error: no');
    await settle();
    expect(bed.child.stderrTail()).toBe('Error: no');
  });

  it('is cut where a line is over 16 KiB', async () => {
    const bed = makeBed();
    bed.process.stderr.write(`${'x'.repeat(16_384)}\n${'y'.repeat(16_385)}\n`);
    await settle();
    const [whole, cut] = bed.child.stderrTail().split('\n');
    expect(whole).toBe('x'.repeat(16_384));
    expect(cut).toBe(`${'y'.repeat(4096)} ... (16385 bytes)`);
  });
});

describe('the end of a child', () => {
  it('is told with its exit code after its last lines', async () => {
    const bed = makeBed();
    bed.process.emit('exit', 3, null);
    await settle(100);
    expect(bed.exit()).toBeUndefined();
    bed.process.stdout.end('{"last":1}\n');
    bed.process.stderr.end('last words\n');
    await settle();
    expect(bed.exit()).toEqual({ code: 3, signal: null });
    expect(bed.lines).toEqual(['{"last":1}']);
    expect(bed.child.stderrTail()).toBe('last words');
  });

  it('is told after 250 ms when something else holds its pipes open, and not before', async () => {
    const bed = makeBed();
    bed.process.exit(null, 'SIGSEGV', true);
    await settle(249);
    expect(bed.exit()).toBeUndefined();
    await settle(1);
    expect(bed.exit()).toEqual({ code: null, signal: 'SIGSEGV' });
  });

  it.each([
    ['exits', ({ process }: Bed) => void process.emit('exit', 0, null)],
    ['closes its stdout', ({ process }: Bed) => void process.stdout.end()],
    ['breaks its stdout', ({ process }: Bed) => void process.stdout.destroy(new Error('EIO'))],
  ])('is known before its last lines, as soon as it %s', async (_what, end) => {
    const bed = makeBed();
    let isGone = false;
    void bed.child.gone.then(() => (isGone = true));
    bed.process.stderr.destroy(new Error('EIO'));
    await settle();
    expect(isGone).toBe(false);
    end(bed);
    await settle();
    expect([isGone, bed.exit()]).toEqual([true, undefined]);
    await settle(250);
    expect(bed.exit()).toBeDefined();
  });

  it('is told when it closes its stdout, with the exit that follows', async () => {
    const bed = makeBed();
    bed.process.stdout.end();
    await settle(100);
    bed.process.emit('exit', 0, null);
    await settle();
    expect(bed.exit()).toEqual({ code: 0, signal: null });
  });

  it('is told when it closes its stdout and does not exit', async () => {
    const bed = makeBed();
    bed.process.stdout.end();
    await settle(250);
    expect(bed.exit()).toEqual({ code: null, signal: null, failure: 'it closed its standard output' });
  });

  it('is told when it could not be started', async () => {
    const bed = makeBed({ pid: undefined });
    bed.process.emit('error', new Error('spawn ENOENT'));
    await settle(250);
    expect(bed.exit()).toEqual({ code: null, signal: null, failure: 'spawn ENOENT' });
  });
});

describe('closing a child', () => {
  it('asks with SIGTERM, then ends its stdin, then kills the whole group, each after its time', async () => {
    const bed = makeBed();
    let isClosed = false;
    void bed.child.close(5000).then(() => (isClosed = true));
    expect(bed.steps).toEqual(['SIGTERM -50']);
    await settle(4999);
    expect(bed.steps).toHaveLength(1);
    await settle(1);
    expect(bed.steps).toEqual(['SIGTERM -50', 'stdin ended']);
    await settle(1999);
    expect([bed.steps.length, isClosed]).toEqual([2, false]);
    await settle(1);
    expect(bed.steps).toEqual(['SIGTERM -50', 'stdin ended', 'SIGKILL -50']);
    expect(bed.log).toEqual(['child killed']);
    expect(isClosed).toBe(true);
  });

  it('does not wait for ever for a process that hangs in the kernel', async () => {
    const bed = makeBed({ pid: 50, isStuck: true });
    let isClosed = false;
    void bed.child.close(1000).then(() => (isClosed = true));
    await settle(1000 + 2000 + 1999);
    expect(isClosed).toBe(false);
    await settle(1);
    expect(isClosed).toBe(true);
  });

  it('goes no further once it has ended', async () => {
    const bed = makeBed();
    const closing = bed.child.close(5000);
    bed.process.exit(0);
    await settle();
    await closing;
    await settle(10_000);
    expect(bed.steps).toEqual(['SIGTERM -50']);
    expect(bed.log).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('with no grace kills at once', async () => {
    const bed = makeBed();
    await bed.child.close(0);
    expect(bed.steps).toEqual(['SIGKILL -50']);
  });

  it('ends stdin first where there is no such signal', async () => {
    const bed = makeBed({ pid: 50, platform: 'win32' });
    const closing = bed.child.close(5000);
    await settle();
    expect(bed.steps).toEqual(['stdin ended']);
    await settle(7000);
    await closing;
    expect(bed.steps).toEqual(['stdin ended', 'SIGKILL 50']);
  });

  it('is done once for all who ask', async () => {
    const bed = makeBed();
    const closing = bed.child.close(5000);
    expect(bed.child.close(0)).toBe(closing);
    bed.process.exit(0);
    await closing;
    expect(bed.steps).toEqual(['SIGTERM -50']);
  });

  it('reads on, so that a child that is writing can end', async () => {
    const bed = makeBed();
    bed.process.stdout.pause();
    void bed.child.close(5000);
    expect(bed.process.stdout.isPaused()).toBe(false);
    bed.process.exit(0);
    await settle();
  });

  it('needs no process to have been there', async () => {
    const bed = makeBed({ pid: undefined });
    bed.process.emit('error', new Error('spawn ENOENT'));
    await bed.child.close(5000);
    expect(bed.steps.filter((step) => step.startsWith('SIG'))).toEqual([]);
  });

  it('does not wait when it is forced', () => {
    const bed = makeBed();
    bed.child.kill();
    expect(bed.steps).toEqual(['SIGKILL -50']);
  });
});

it('a child that does not read has what was sent to it counted', async () => {
  const { child, process } = makeBed();
  expect(child.unreadBytes).toBe(0);
  process.stdin.cork();
  child.send(['{"a":1}']);
  await Promise.resolve();
  expect(child.unreadBytes).toBe(8);
  process.stdin.uncork();
  expect(child.unreadBytes).toBe(0);
});
