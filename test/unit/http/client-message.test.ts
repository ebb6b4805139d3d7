import { describe, expect, it } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import { type ClientBody, firstIdOf, questionsOf, readClientBody } from '../../../src/http/client-message.ts';

const read = (text: string | Buffer): ClientBody => readClientBody(Buffer.from(text));

/** The code with which a body is refused; undefined if it is taken. */
function refusalOf(text: string | Buffer): string | undefined {
  try {
    read(text);
    return undefined;
  } catch (failure) {
    return failure instanceof BridgeError ? failure.code : 'no error of ours';
  }
}

const kindOf = (text: string): string | undefined => read(text).messages[0]?.kind;

describe('a message', () => {
  it.each([
    ['{"jsonrpc":"2.0","id":1,"method":"ping"}', 'request'],
    ['{"jsonrpc":"2.0","id":"","method":"ping","params":null}', 'request'],
    ['{"jsonrpc":"2.0","id":0,"method":"ping","result":1}', 'request'],
    ['{"jsonrpc":"2.0","id":-1.5,"method":""}', 'request'],
    ['{"jsonrpc":"2.0","method":"ping"}', 'notification'],
    ['{"jsonrpc":"2.0","id":1,"result":null}', 'response'],
    ['{"jsonrpc":"2.0","id":"a","error":{}}', 'response'],
  ])('%s is a %s', (text, kind) => {
    expect(kindOf(text)).toBe(kind);
  });

  it.each([
    ['{"jsonrpc":"2.0","id":null,"method":"ping"}'],
    ['{"jsonrpc":"2.0","id":true,"method":"ping"}'],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}'],
    ['{"jsonrpc":"2.0","id":[1],"method":"ping"}'],
    // Read as infinite: no answer could name it, and its stream would stay open for ever.
    ['{"jsonrpc":"2.0","id":1e400,"method":"ping"}'],
    ['{"jsonrpc":"2.0","id":-1e400,"result":1}'],
    ['{"jsonrpc":"2.0","id":1,"method":5}'],
    ['{"jsonrpc":"2.0","id":1,"method":5,"result":1}'],
    ['{"jsonrpc":"2.0","id":1}'],
    ['{"jsonrpc":"2.0","id":null,"result":1}'],
    ['{"jsonrpc":"2.0","result":1}'],
    ['{"jsonrpc":"2.0"}'],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['{"jsonrpc":2.0,"id":1,"method":"ping"}'],
    ['{"id":1,"method":"ping"}'],
    ['{"__proto__":{"jsonrpc":"2.0","id":1,"method":"ping"}}'],
    ['{"jsonrpc":"2.0","__proto__":{"method":"ping"}}'],
    ['null'],
    ['"text"'],
    ['7'],
    ['true'],
    ['{}'],
  ])('is not %s', (text) => {
    expect(refusalOf(text)).toBe('invalid_request');
  });

  it.each([
    ['nothing', ''],
    ['white space', ' \r\n'],
    ['half an object', '{"jsonrpc":"2.0","id":1'],
    ['two objects', '{} {}'],
    ['a byte order mark', '\uFEFF{}'],
    ['UTF-16', Buffer.from('{"jsonrpc":"2.0","method":"a"}', 'utf16le')],
    ['a line break within a text', '{"jsonrpc":"2.0","method":"a\rb"}'],
  ])('is not in %s', (_what, text) => {
    expect(refusalOf(text)).toBe('parse_error');
  });

  // Half a second of work, and more where others work as well.
  it('is not in 4 MiB of opening brackets', { timeout: 60_000 }, () => {
    expect(refusalOf('['.repeat(4_194_304))).toBe('parse_error');
  });

  it('that is no JSON is not quoted in its refusal', () => {
    let refusal: unknown;
    try {
      read('{"password":hunter22}');
    } catch (failure) {
      refusal = failure;
    }
    expect(refusal).toMatchObject({ code: 'parse_error', message: expect.not.stringContaining('hunter22') });
    expect(refusal).not.toHaveProperty('cause');
  });

  it('may be nested as deeply as its size allows', () => {
    const depth = 50_000;
    const nested = `{"jsonrpc":"2.0","method":"a","params":${'['.repeat(depth)}${']'.repeat(depth)}}`;
    expect(kindOf(nested)).toBe('notification');
    expect(refusalOf(`${'['.repeat(depth)}${']'.repeat(depth)}`)).toBe('invalid_request');
  });
});

describe('the line for the child', () => {
  it('is the very same bytes where the body has no line break, numbers of any size included', () => {
    const body = Buffer.from('{"jsonrpc":"2.0","id":9007199254740993,"method":"a","params":{"n":1e400,"x":0.10}}\t ');
    expect(readClientBody(body).line).toBe(body);
  });

  it('is one line for a body that was written over several, and its texts stay as they are', () => {
    const body = Buffer.from(
      '{\r\n  "jsonrpc": "2.0",\n\r"method":"a\\r\\nb",\r"params":{"big":12345678901234567890}\n}',
    );
    const line = readClientBody(body).line.toString();
    expect(line).toBe('{    "jsonrpc": "2.0",  "method":"a\\r\\nb", "params":{"big":12345678901234567890} }');
    expect(body.includes('\r\n')).toBe(true);
  });

  it('is one line where only carriage returns part it', () => {
    expect(read('{\r"jsonrpc":"2.0",\r"method":"a"}').line.toString()).toBe('{ "jsonrpc":"2.0", "method":"a"}');
  });

  it('is one line also for a batch', () => {
    const { line, isBatch, messages } = read('[\n{"jsonrpc":"2.0","method":"a"},\n{"jsonrpc":"2.0","method":"b"}\n]');
    expect([line.toString(), isBatch, messages.map(({ method }) => method)]).toEqual([
      '[ {"jsonrpc":"2.0","method":"a"}, {"jsonrpc":"2.0","method":"b"} ]',
      true,
      ['a', 'b'],
    ]);
  });
});

describe('a batch', () => {
  const batchOf = (count: number, element = '{"jsonrpc":"2.0","method":"a"}'): string =>
    `[${Array.from({ length: count }, () => element).join(',')}]`;

  it('has 1 to 100 messages', () => {
    expect([0, 1, 100, 101].map((count) => refusalOf(batchOf(count)))).toEqual([
      'invalid_request',
      undefined,
      undefined,
      'invalid_request',
    ]);
  });

  it('has messages only', () => {
    expect(refusalOf('[{"jsonrpc":"2.0","method":"a"},1]')).toBe('invalid_request');
    expect(refusalOf('[[{"jsonrpc":"2.0","method":"a"}]]')).toBe('invalid_request');
  });

  it('never holds initialize', () => {
    const initialize = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}';
    expect([refusalOf(`[${initialize}]`), refusalOf(initialize)]).toEqual(['invalid_request', undefined]);
  });
});

describe('the requests of a body', () => {
  it('are told with their ids as JSON and their progress tokens', () => {
    const { messages } = read(
      `[{"jsonrpc":"2.0","id":1.0,"method":"a","params":{"_meta":{"progressToken":0}}},
      {"jsonrpc":"2.0","method":"b","params":{"_meta":{"progressToken":"no"}}},
      {"jsonrpc":"2.0","id":"\\u0031","method":"c","params":{"_meta":{"progressToken":"t"}}},
      {"jsonrpc":"2.0","id":3,"result":{}},
      {"jsonrpc":"2.0","id":4,"method":"d","params":{"_meta":{"progressToken":null}}},
      {"jsonrpc":"2.0","id":5,"method":"e","params":[{"_meta":1}]}]`,
    );
    expect(questionsOf(messages)).toEqual([
      { idText: '1', method: 'a', progressToken: 0 },
      { idText: '"1"', method: 'c', progressToken: 't' },
      { idText: '4', method: 'd', progressToken: undefined },
      { idText: '5', method: 'e', progressToken: undefined },
    ]);
  });

  it('have a first one, by whose id the whole is refused', () => {
    const answer = '{"jsonrpc":"2.0","id":9,"result":1}';
    expect(firstIdOf(read(`[${answer},{"jsonrpc":"2.0","id":"x","method":"a"}]`))).toBe('"x"');
    expect(firstIdOf(read(answer))).toBeUndefined();
  });
});
