import { describe, expect, it } from 'vitest';

import { commentFrame, lengthOf, messageFrame, primingFrame } from '../../../src/http/sse-frame.ts';

function textOf(frame: readonly Buffer[]): string {
  return Buffer.concat(frame).toString('utf8');
}

describe('messageFrame', () => {
  it('is one event with its id and the message as it is', () => {
    expect(textOf(messageFrame('3-7', ['{"a":"é",', Buffer.from('"b":1}')]))).toBe(
      'event: message\nid: 3-7\ndata: {"a":"é","b":1}\n\n',
    );
  });

  it('has a space for each carriage return, which would end its line, and leaves the message untouched', () => {
    const line = Buffer.from('{\r"a":1,\r\r"b":"\\r"}\r');
    expect(textOf(messageFrame('0-1', [line, '\r']))).toBe('event: message\nid: 0-1\ndata: { "a":1,  "b":"\\r"}  \n\n');
    expect(line.toString()).toBe('{\r"a":1,\r\r"b":"\\r"}\r');
  });

  it('is joined below 64 KiB and left in its pieces from there on, without a copy of them', () => {
    const around = lengthOf(messageFrame('0-1', []));
    const small = Buffer.alloc(65_536 - around - 1, 0x61);
    expect(messageFrame('0-1', [small])).toHaveLength(1);
    const large = Buffer.alloc(65_536 - around, 0x61);
    const frame = messageFrame('0-1', [large]);
    expect(frame).toHaveLength(3);
    expect(frame[1]).toBe(large);
    expect(textOf(frame)).toBe(`event: message\nid: 0-1\ndata: ${large.toString()}\n\n`);
  });

  it('holds no message at all without parts', () => {
    expect(textOf(messageFrame('0-1', []))).toBe('event: message\nid: 0-1\ndata: \n\n');
  });
});

describe('the other frames', () => {
  it('are an event without a message that says where the client stands, and a comment', () => {
    expect(textOf(primingFrame('4-9', 1500))).toBe('id: 4-9\nretry: 1500\ndata: \n\n');
    expect(textOf(commentFrame)).toBe(':\n\n');
  });

  it('know their length in bytes', () => {
    expect(lengthOf([Buffer.from('é'), Buffer.alloc(0), Buffer.from('ab')])).toBe(4);
    expect(lengthOf([])).toBe(0);
  });
});
