import { EventEmitter } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { StdioTransport } from '../../../src/stdio/transport.ts';

interface Bed {
  readonly input: PassThrough;
  readonly output: PassThrough;
  readonly transport: StdioTransport;
  readonly lines: string[];
  readonly gone: string[];
}

function makeBed(output = new PassThrough()): Bed {
  const input = new PassThrough();
  const [lines, gone]: [string[], string[]] = [[], []];
  const transport = new StdioTransport(input, output);
  transport.listen(
    10,
    {
      onLine: (line) => void lines.push(line.toString()),
      onOversize: (_head, _tail, bytes) => void lines.push(`too long: ${bytes}`),
    },
    (reason) => void gone.push(reason),
  );
  return { input, output, transport, lines, gone };
}

/** A stream that takes nothing, as a pipe whose reader does not read. */
function makeStuck(): Writable {
  return new Writable({ highWaterMark: 1, write: () => undefined });
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

describe('the lines of a client', () => {
  it('are told one by one, up to the limit and not over it', async () => {
    const bed = makeBed();
    bed.input.write('{"a":1}\r\n{"b"');
    bed.input.write(`:2}\n${'x'.repeat(10)}\n${'x'.repeat(11)}\n`);
    await settle();
    expect(bed.lines).toEqual(['{"a":1}', '{"b":2}', 'x'.repeat(10), 'too long: 11']);
    expect(bed.gone).toEqual([]);
  });

  it('are answered by lines', async () => {
    const bed = makeBed();
    bed.transport.send(['{"x":', Buffer.from('1'), '}']);
    bed.transport.send(['{}']);
    await settle();
    expect(String(bed.output.read())).toBe('{"x":1}\n{}\n');
  });
});

describe('the end of a client', () => {
  it('is told once, when its input ends, after its last line', async () => {
    const bed = makeBed();
    bed.input.end('{}\n');
    await settle();
    expect(bed.lines).toEqual(['{}']);
    expect(bed.gone).toEqual(['end of standard input']);
  });

  it('is told once, when the input is closed without an end', async () => {
    const bed = makeBed();
    bed.input.destroy();
    await settle();
    expect(bed.gone).toEqual(['standard input closed']);
  });

  it('is told once, when the input fails', async () => {
    const bed = makeBed();
    bed.input.destroy(new Error('EIO'));
    await settle();
    expect(bed.gone).toEqual(['standard input failed']);
  });

  it('is told once, when it no longer takes what is written, whatever fails after it', async () => {
    const bed = makeBed();
    bed.output.emit('error', new Error('EPIPE'));
    bed.output.emit('error', new Error('EPIPE'));
    bed.input.end();
    await settle();
    expect(bed.gone).toEqual(['standard output closed by the client']);
  });
});

describe('a client that reads slowly', () => {
  it('makes a source wait until it has read', async () => {
    const bed = makeBed(new PassThrough({ highWaterMark: 4 }));
    const source = new PassThrough();
    source.resume();
    bed.transport.throttle(source);
    expect(source.isPaused()).toBe(false);
    bed.transport.send(['{"long":1}']);
    await settle();
    bed.transport.throttle(source);
    expect(source.isPaused()).toBe(true);
    bed.output.resume();
    await settle();
    expect(source.isPaused()).toBe(false);
  });
});

describe('a reader that leaves 64 MiB unread', () => {
  class Sink extends EventEmitter {
    destroyed = false;
    writableLength: number;

    constructor(bytes: number) {
      super();
      this.writableLength = bytes;
    }
  }

  const limit = 67_108_864;

  it.each(['drain', 'close'])('holds the client back until its %s, and not below that limit', (event) => {
    const bed = makeBed();
    bed.transport.holdInput(new Sink(limit) as unknown as Writable);
    expect(bed.input.isPaused()).toBe(false);
    const sink = new Sink(limit + 1);
    bed.transport.holdInput(sink as unknown as Writable);
    expect(bed.input.isPaused()).toBe(true);
    sink.emit(event);
    expect(bed.input.isPaused()).toBe(false);
    expect([sink.listenerCount('drain'), sink.listenerCount('close')]).toEqual([0, 0]);
  });

  it('holds nobody back when it is gone', () => {
    const bed = makeBed();
    const sink = new Sink(limit + 1);
    sink.destroyed = true;
    bed.transport.holdInput(sink as unknown as Writable);
    expect(bed.input.isPaused()).toBe(false);
  });
});

describe('closing the transport', () => {
  it('lets out what was sent before, also in the same turn', async () => {
    const bed = makeBed();
    bed.transport.send(['{"last":1}']);
    await bed.transport.close();
    expect(String(bed.output.read())).toBe('{"last":1}\n');
    expect(bed.output.writableEnded).toBe(true);
    await settle();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('takes no line and sends none any more', async () => {
    const bed = makeBed();
    await bed.transport.close();
    bed.input.write('{}\n');
    bed.input.resume();
    bed.transport.send(['{}']);
    await settle();
    expect(bed.lines).toEqual([]);
    expect(bed.output.read()).toBeNull();
  });

  it('waits 2 s for a client that does not read, and not longer', async () => {
    const output = makeStuck();
    const transport = new StdioTransport(new PassThrough(), output);
    transport.send(['{}']);
    let isClosed = false;
    void transport.close().then(() => (isClosed = true));
    await settle(1999);
    expect(isClosed).toBe(false);
    await settle(1);
    expect([isClosed, output.destroyed]).toEqual([true, true]);
  });

  it('does not wait for a client that is gone, or goes meanwhile', async () => {
    const gone = makeBed();
    gone.output.destroy();
    await gone.transport.close();
    const output = makeStuck();
    const transport = new StdioTransport(new PassThrough(), output);
    transport.send(['{}']);
    const closing = transport.close();
    output.destroy();
    await closing;
    await settle();
    expect(vi.getTimerCount()).toBe(0);
  });
});
