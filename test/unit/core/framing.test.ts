import { PassThrough, Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';

import { LineReader, LineWriter, throttle } from '../../../src/core/framing.ts';

interface Oversize {
  readonly head: string;
  readonly tail: string;
  readonly bytes: number;
}

function record(maxBytes = 1000): { reader: LineReader; lines: string[]; oversize: Oversize[] } {
  const lines: string[] = [];
  const oversize: Oversize[] = [];
  const reader = new LineReader(maxBytes, {
    onLine: (line) => lines.push(line.toString('utf8')),
    onOversize: (head, tail, bytes) => oversize.push({ head: head.toString(), tail: tail.toString(), bytes }),
  });
  return { reader, lines, oversize };
}

describe('LineReader', () => {
  const stream = Buffer.from('{"a":1}\n\r\n\n{"b":"ü漢😀"}\r\n  \nlast\n');
  const expected = ['{"a":1}', '{"b":"ü漢😀"}', '  ', 'last'];

  it('gives the same lines wherever the stream is cut in two', () => {
    for (let cut = 0; cut <= stream.length; cut += 1) {
      const { reader, lines } = record();
      reader.push(stream.subarray(0, cut));
      reader.push(stream.subarray(cut));
      expect(lines, `cut at ${cut}`).toEqual(expected);
    }
  });

  it.each([1, 2, 3, 5])('gives the same lines in pieces of %i bytes', (size) => {
    const { reader, lines } = record();
    for (let start = 0; start < stream.length; start += size) reader.push(stream.subarray(start, start + size));
    expect(lines).toEqual(expected);
  });

  it('waits for the newline', () => {
    const { reader, lines } = record();
    reader.push(Buffer.from('{"a":'));
    expect(lines).toEqual([]);
    reader.push(Buffer.from('1}\n'));
    expect(lines).toEqual(['{"a":1}']);
  });

  it('removes one carriage return before a newline, and none elsewhere', () => {
    const { reader, lines } = record();
    reader.push(Buffer.from('a\rb\r\r\n'));
    expect(lines).toEqual(['a\rb\r']);
  });

  it.each([1, 7, 64])(
    'takes a line of the limit and passes over one that is a byte longer, in pieces of %i',
    (size) => {
      const { reader, lines, oversize } = record(64);
      const text = Buffer.from(`${'a'.repeat(64)}\n${'b'.repeat(65)}\n${'c'.repeat(64)}\n`);
      for (let start = 0; start < text.length; start += size) reader.push(text.subarray(start, start + size));
      expect(lines).toEqual(['a'.repeat(64), 'c'.repeat(64)]);
      expect(oversize).toEqual([{ head: 'b'.repeat(65), tail: 'b'.repeat(65), bytes: 65 }]);
    },
  );

  it('keeps 4 KiB of the beginning and of the end of a line that is too long, whatever its pieces are', () => {
    const text = Array.from({ length: 6000 }, (_, index) => String(index).padStart(6, '0')).join('');
    for (const size of [100, 4096, 5000, text.length]) {
      const { reader, oversize } = record(10_000);
      for (let start = 0; start < text.length; start += size) reader.push(Buffer.from(text.slice(start, start + size)));
      reader.push(Buffer.from('\n'));
      expect(oversize, `pieces of ${size}`).toEqual([
        { head: text.slice(0, 4096), tail: text.slice(-4096), bytes: text.length },
      ]);
    }
  });

  it('holds on to no part of the stream while it passes over a long line', () => {
    const kept: Buffer[] = [];
    const reader = new LineReader(1_000_000, {
      onLine: () => undefined,
      onOversize: (head, tail) => kept.push(head, tail),
    });
    const piece = Buffer.alloc(65_536, 'x');
    for (let round = 0; round < 50; round += 1) reader.push(piece);
    piece.fill('y');
    reader.push(Buffer.from('\n'));
    expect(kept.map((buffer) => [buffer.length, buffer.buffer.byteLength < 100_000])).toEqual([
      [4096, true],
      [4096, true],
    ]);
    expect(kept.every((buffer) => buffer.every((byte) => byte === 0x78))).toBe(true);
  });
});

describe('a line of many chunks', () => {
  const joinBelow = 65_536;

  function collect(bytes: number): { lines: number[]; joined: string[]; text: string } {
    const [lines, joined]: [number[], string[]] = [[], []];
    const reader = new LineReader(1_000_000, {
      onLine: (line) => lines.push(line.length),
      onChunks: (chunks, length) => {
        expect(length).toBe(bytes);
        joined.push(chunks.map(String).join(''));
      },
      onOversize: () => undefined,
    });
    const text = Array.from({ length: bytes }, (_, index) => String(index % 10)).join('');
    for (let start = 0; start < bytes; start += 10_000) reader.push(Buffer.from(text.slice(start, start + 10_000)));
    reader.push(Buffer.from('\nnext\n'));
    return { lines, joined, text };
  }

  it('is joined below 64 KiB', () => {
    expect(collect(joinBelow - 1)).toMatchObject({ lines: [joinBelow - 1, 4], joined: [] });
  });

  it('is given as it came from 64 KiB on', () => {
    const { lines, joined, text } = collect(joinBelow);
    expect(lines).toEqual([4]);
    expect(joined).toEqual([text]);
  });

  it('is joined whatever its length for somebody who only takes lines', () => {
    const { reader, lines } = record(1_000_000);
    reader.push(Buffer.alloc(joinBelow, 'a'));
    reader.push(Buffer.from('b\r\n'));
    expect(lines.map((line) => line.length)).toEqual([joinBelow + 1]);
  });
});

/** A stream that records its writes as the system calls they would be. */
function recordWrites(): { stream: Writable; calls: string[] } {
  const calls: string[] = [];
  const stream = new Writable({
    highWaterMark: 1_000_000,
    write: (chunk, _encoding, done) => {
      calls.push(`one ${String(chunk)}`);
      done();
    },
    writev: (chunks, done) => {
      calls.push(`vector ${chunks.map(({ chunk }) => String(chunk)).join('')}`);
      done();
    },
  });
  return { stream, calls };
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe('LineWriter', () => {
  it('writes parts of both kinds as one line', async () => {
    const { stream, calls } = recordWrites();
    new LineWriter(stream).write(['{"id":', Buffer.from('"ü"'), ',"漢":1}']);
    await turn();
    expect(calls).toEqual(['one {"id":"ü","漢":1}\n']);
  });

  it('writes all lines of one turn in one call, and those of the next in another', async () => {
    const { stream, calls } = recordWrites();
    const writer = new LineWriter(stream);
    writer.write(['a']);
    writer.write([Buffer.from('b')]);
    writer.write(['c']);
    await turn();
    writer.write(['d']);
    writer.write(['e']);
    await turn();
    expect(calls).toEqual(['one a\nb\nc\n', 'one d\ne\n']);
  });

  it.each([
    [65_536, 'one'],
    [65_537, 'vector'],
  ])('writes %i bytes as %s', async (bytes, kind) => {
    const { stream, calls } = recordWrites();
    const parts = [Buffer.alloc(bytes - 11, 'x'), '0123456789'];
    new LineWriter(stream).write(parts);
    await turn();
    expect(calls).toEqual([`${kind} ${parts.map(String).join('')}\n`]);
  });

  it('writes at once when it is told to, and nothing when there is nothing', async () => {
    const { stream, calls } = recordWrites();
    const writer = new LineWriter(stream);
    writer.flush();
    writer.write(['a']);
    writer.flush();
    expect(calls).toEqual(['one a\n']);
    writer.flush();
    await turn();
    expect(calls).toEqual(['one a\n']);
  });

  it('writes nothing to a stream that has ended or was destroyed', async () => {
    const ended = recordWrites();
    ended.stream.end();
    new LineWriter(ended.stream).write(['late']);
    const destroyed = recordWrites();
    destroyed.stream.destroy();
    new LineWriter(destroyed.stream).write(['late']);
    await turn();
    expect([...ended.calls, ...destroyed.calls]).toEqual([]);
  });
});

describe('throttle', () => {
  it('stops the source until the sink has room, and lets it run otherwise', async () => {
    const source = new PassThrough();
    source.resume();
    const sink = new PassThrough({ highWaterMark: 4 });
    throttle(source, sink);
    expect(source.isPaused()).toBe(false);
    sink.write('12345678');
    throttle(source, sink);
    throttle(source, sink);
    expect(source.isPaused()).toBe(true);
    expect(sink.listenerCount('drain')).toBe(1);
    sink.resume();
    await turn();
    expect(source.isPaused()).toBe(false);
    expect(sink.listenerCount('drain')).toBe(0);
  });
});
