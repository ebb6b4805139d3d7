import { once } from 'node:events';
import { closeSync, fstatSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ErrorOutput, openOutput } from '../../../src/stdio/output.ts';

const backlog = 1_048_576;

/** A stream whose reader reads nothing; it counts what it was given. */
function makeStuck(): { stream: Writable; bytes: () => number } {
  const stream = new Writable({ highWaterMark: 1, write: () => undefined });
  return { stream, bytes: () => stream.writableLength };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('standard error', () => {
  it('gets every line while somebody reads', async () => {
    const stream = new PassThrough();
    const output = new ErrorOutput(stream);
    output.print('a\n');
    output.print('b\n');
    await output.close();
    expect(String(stream.read())).toBe('a\nb\n');
  });

  it('gets no more while a megabyte waits for its reader', () => {
    const { stream, bytes } = makeStuck();
    const output = new ErrorOutput(stream);
    output.print('x'.repeat(backlog - 1));
    output.print('last\n');
    expect(bytes()).toBe(backlog + 4);
    output.print('dropped\n');
    expect(bytes()).toBe(backlog + 4);
  });

  it('that is closed by its reader ends nothing', async () => {
    const stream = new PassThrough();
    const output = new ErrorOutput(stream);
    stream.destroy(new Error('EPIPE'));
    await new Promise((resolve) => stream.once('close', resolve));
    output.print('late\n');
    await output.close();
    expect(stream.destroyed).toBe(true);
  });

  it('is waited for half a second and not longer', async () => {
    vi.useFakeTimers();
    const output = new ErrorOutput(makeStuck().stream);
    output.print('x');
    let isClosed = false;
    void output.close().then(() => (isClosed = true));
    await vi.advanceTimersByTimeAsync(499);
    expect(isClosed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isClosed).toBe(true);
  });
});

describe('openOutput', () => {
  it('writes to a file and leaves its descriptor open', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'output-'));
    const descriptor = openSync(join(folder, 'file'), 'w');
    const stream = openOutput(descriptor);
    stream.end('text');
    await once(stream, 'finish');
    expect(readFileSync(join(folder, 'file'), 'utf8')).toBe('text');
    expect(fstatSync(descriptor).size).toBe(4);
    closeSync(descriptor);
    rmSync(folder, { recursive: true });
  });
});
