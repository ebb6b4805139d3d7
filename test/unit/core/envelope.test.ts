import { describe, expect, it } from 'vitest';

import {
  type Envelope,
  idKey,
  paramsOf,
  progressTokenOf,
  readEnvelope,
  resultOf,
  toolNameOf,
  withId,
} from '../../../src/core/envelope.ts';

function read(text: string): Envelope {
  const message = readEnvelope(Buffer.from(text));
  if ('bad' in message) throw new Error(`bad line: ${message.bad}`);
  return message;
}

function relabel(text: string, idText: string): string {
  return withId(read(text), idText)
    .map((part) => part.toString())
    .join('');
}

describe('readEnvelope', () => {
  it.each([
    ['{"jsonrpc":"2.0","id":1,"method":"m"}', 'request', '1'],
    ['{"jsonrpc":"2.0","id":0,"method":"m"}', 'request', '0'],
    ['{"jsonrpc":"2.0","id":-7,"method":"m"}', 'request', '-7'],
    ['{"jsonrpc":"2.0","id":1.5e3,"method":"m"}', 'request', '1500'],
    ['{"jsonrpc":"2.0","id":1.0,"method":"m"}', 'request', '1'],
    ['{"jsonrpc":"2.0","id":0.50,"method":"m"}', 'request', '0.50'],
    ['{"jsonrpc":"2.0","id":1e400,"method":"m"}', 'request', '1e400'],
    ['{"jsonrpc":"2.0","id":"\\u0061","method":"m"}', 'request', '"a"'],
    ['{"jsonrpc":"2.0","id":90071992547409931,"method":"m"}', 'request', '90071992547409931'],
    ['{"jsonrpc":"2.0","id":"","method":"m"}', 'request', '""'],
    ['{"jsonrpc":"2.0","id":"a\\"}{","method":"m"}', 'request', '"a\\"}{"'],
    ['{"method":"m","params":{"id":9},"id":"last"}', 'request', '"last"'],
    ['{"id":1,"method":"m","id":2}', 'request', '2'],
    ['{"\\u0069d":3,"\\u006dethod":"m"}', 'request', '3'],
    ['{"jsonrpc":"2.0","method":"m","params":{"id":1}}', 'notification', undefined],
    ['{"jsonrpc":"2.0","id":1,"result":{}}', 'response', '1'],
    ['{"jsonrpc":"2.0","id":1,"result":null}', 'response', '1'],
    ['{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}', 'response', '"x"'],
    [' { "id" : 4 , "method" : "m" } ', 'request', '4'],
  ])('reads %s', (text, kind, idText) => {
    expect(read(text)).toMatchObject({ kind, idText });
  });

  it.each([
    ['not json', 'parse', undefined],
    ['{"id":1,"method":"m"', 'parse', undefined],
    ['{"id":1,"method":"m"}}', 'parse', undefined],
    ['{"id":1,"method":"m","params":{"a":tru}}', 'parse', undefined],
    ['{"id":01,"method":"m"}', 'parse', undefined],
    ['1', 'shape', undefined],
    ['"text"', 'shape', undefined],
    ['{}', 'shape', undefined],
    ['{"id":5}', 'shape', '5'],
    ['{"id":5,"method":7}', 'shape', '5'],
    ['{"id":5,"method":null,"result":{}}', 'shape', '5'],
    ['{"result":{}}', 'shape', undefined],
    ['{"id":null,"method":"m"}', 'shape', undefined],
    ['{"id":true,"method":"m"}', 'shape', undefined],
    ['{"id":{"a":1},"method":"m"}', 'shape', undefined],
    ['{"id":[1],"method":"m"}', 'shape', undefined],
    ['{"id":null,"error":{"code":-32700,"message":"no"}}', 'shape', undefined],
  ])('refuses %s', (text, bad, idText) => {
    expect(readEnvelope(Buffer.from(text))).toEqual({ bad, idText });
  });

  it('checks lines of up to 16 KiB for being JSON, and only the outside of longer ones', () => {
    const [before, after] = ['{"id":1,"method":"m","params":{"text":"', '","broken":tru}}'];
    const lineOf = (bytes: number): Buffer =>
      Buffer.from(`${before}${'x'.repeat(bytes - before.length - after.length)}${after}`);
    expect(readEnvelope(lineOf(16_384))).toEqual({ bad: 'parse', idText: undefined });
    expect(readEnvelope(lineOf(16_385))).toMatchObject({ kind: 'request', idText: '1' });
  });

  it('gives the parameters, the name of a tool and the text of a result', () => {
    const request = read('{"id":1,"method":"tools/call","params":{"name":"a\\u0062","arguments":{"name":"no"}}}');
    expect(paramsOf(request)).toEqual({ name: 'ab', arguments: { name: 'no' } });
    expect(toolNameOf(request)).toBe('ab');
    expect(resultOf(read('{"result": {"big":90071992547409931} ,"id":1}'))?.toString()).toBe(
      '{"big":90071992547409931}',
    );
    expect(resultOf(read('{"id":1,"error":{"code":1,"message":"no"}}'))).toBeUndefined();
  });

  it.each(['', ',"params":null', ',"params":"text"', ',"params":[]', ',"params":{"name":7}'])(
    'finds no tool name in a call with %j',
    (params) => {
      expect(toolNameOf(read(`{"id":1,"method":"tools/call"${params}}`))).toBeUndefined();
    },
  );

  it.each([
    ['{"_meta":{"progressToken":0}}', 0],
    ['{"_meta":{"progressToken":"t"}}', 't'],
    ['{"_meta":{"progressToken":null}}', undefined],
    ['{"_meta":{"progressToken":{}}}', undefined],
    ['{"_meta":null}', undefined],
    ['{"_meta":"progressToken"}', undefined],
    ['{"progressToken":1}', undefined],
    ['null', undefined],
  ])('reads the progress token of the parameters %s as %j', (params, token) => {
    expect(progressTokenOf(read(`{"id":1,"method":"m","params":${params}}`))).toBe(token);
  });

  it('has no parameters where there is no object', () => {
    expect(paramsOf(read('{"method":"m"}'))).toBeUndefined();
    expect(paramsOf(read('{"method":"m","params":null}'))).toBeUndefined();
    expect(paramsOf(read('{"method":"m","params":5}'))).toBeUndefined();
  });
});

describe('a line that is too long to be parsed', () => {
  it.each([
    '{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"a\\u0062","_meta":{"progressToken":0}}}',
    '{"method":"x","params":{"id":9},"id":"\\u0061"}',
    '{"id":1,"method":"m","id":2.0}',
    '{"id":9007199254740993,"method":"m","params":[1]}',
    '{"jsonrpc":"2.0","method":"notifications/x","params":{"id":1}}',
    '{"id":1,"result":{"name":"x"}}',
    '{"id":"x","error":{"code":1,"message":"no"},"params":null}',
  ])('is read as a short one: %s', (text) => {
    const read16 = (line: string): unknown => {
      const message = read(line);
      const { kind, method, idText = '' } = message;
      const replaced = relabel(line, '"new"').trimEnd();
      const result = resultOf(message)?.toString();
      return [
        kind,
        method,
        idKey(idText),
        paramsOf(message),
        toolNameOf(message),
        progressTokenOf(message),
        replaced,
        result,
      ];
    };
    expect(read16(text + ' '.repeat(16_384))).toEqual(read16(text));
  });

  it.each(['{"id":5}', '{"id":null,"method":"m"}', '{"id":[1],"method":"m"}', '{"result":{}}', '7'])(
    'is refused as a short one: %s',
    (text) => {
      expect(readEnvelope(Buffer.from(text + ' '.repeat(16_384)))).toHaveProperty('bad');
    },
  );
});

describe('idKey', () => {
  it.each([
    ['1', '1.0'],
    ['1', '1e0'],
    ['0', '-0'],
    ['"a"', '"\\u0061"'],
    ['"\\/"', '"/"'],
    // Both sides read numbers as doubles: an id beyond them comes back rounded.
    ['9007199254740993', '9007199254740992'],
  ])('is one for %s and %s', (one, other) => {
    expect(idKey(one)).toBe(idKey(other));
  });

  it.each([
    ['1', '"1"'],
    ['1', '2'],
    ['1', '-1'],
    ['"a"', '"A"'],
    ['"n1"', '1'],
    ['""', '0'],
    ['"\\q"', '"q"'],
  ])('tells %s from %s', (one, other) => {
    expect(idKey(one)).not.toBe(idKey(other));
  });
});

describe('withId', () => {
  it('changes the id and no other byte', () => {
    const text = ' {"z":1,  "id" :\t"old" ,"a":{"id":"old"},"n":1.50e+2,"u":"\\u00fc ü"} ';
    expect(relabel(text.replace('{', '{"method":"m",'), '17')).toBe(
      text.replace('{', '{"method":"m",').replace('"old"', '17'),
    );
  });

  it('changes the last one of two ids, which is the one that counts', () => {
    expect(relabel('{"id":1,"id":2,"method":"m"}', '3')).toBe('{"id":1,"id":3,"method":"m"}');
  });

  it('passes the line itself when the id stays', () => {
    const message = read('{"id":1,"method":"m"}');
    expect(withId(message, '1')).toEqual([message.line]);
    expect(withId(message, '1')[0]).toBe(message.line);
  });

  it('leaves a notification alone', () => {
    expect(relabel('{"method":"m"}', '3')).toBe('{"method":"m"}');
  });
});
