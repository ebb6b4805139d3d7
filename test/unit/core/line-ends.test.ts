import { describe, expect, it } from 'vitest';

import { idOfCutLine, idOfLargeAnswer, kindOfCutLine } from '../../../src/core/line-ends.ts';

describe('idOfCutLine', () => {
  const rest = '"result":{"content":[{"type":"text","text":"';
  const idOf = (head: string, tail: string): string | undefined => idOfCutLine(Buffer.from(head), Buffer.from(tail));

  it.each([
    [`{"jsonrpc":"2.0","id":7,${rest}`, 'xx"}]}}'],
    [`{"id":7,"jsonrpc":"2.0",${rest}`, 'xx"}]}}'],
    [` { "jsonrpc" : "2.0" , "id" : 7 , ${rest}`, 'xx"}]}}'],
    [`{${rest}`, 'xx"}]},"jsonrpc":"2.0","id":7}'],
    [`{${rest}`, 'xx"}]},"id":7,"jsonrpc":"2.0"}'],
    [`{${rest}`, 'xx"}]} , "id" : 7 } '],
    [`{"jsonrpc":"2.0",${rest}`, 'xx"}]},"id":7}\r'],
  ])('finds it in %s ... %s', (head, tail) => {
    expect(idOf(head, tail)).toBe('7');
  });

  it.each(['"a"', '"a\\"}"', '-3', '0', '1e2'])('finds the id %s at both ends', (idText) => {
    expect(idOf(`{"jsonrpc":"2.0","id":${idText},${rest}`, 'x"}]}}')).toBe(idText);
    expect(idOf(`{${rest}`, `x"}]},"id":${idText}}`)).toBe(idText);
  });

  it.each([
    [`{"jsonrpc":"2.0",${rest}`, 'xx","id":7}]}}'],
    [`{"result":{"id":7,"content":[{`, 'xx"}]}}'],
    [`{"method":"m","params":{"id":7,"x":"`, 'xx"}}'],
    [`{${rest}`, 'xx"}],"structuredContent":{"id":7}}}'],
    [`{${rest}`, 'xx","id":7'],
    [`{"jsonrpc":"2.0","id":null,${rest}`, 'x"}]}}'],
    ['', ''],
  ])('is not deceived by the body of %s ... %s', (head, tail) => {
    expect(idOf(head, tail)).toBeUndefined();
  });

  it('prefers the beginning when the end shows an id of the body', () => {
    expect(idOf(`{"jsonrpc":"2.0","id":3,${rest}`, 'x"}],"structuredContent":{"id":7}}}')).toBe('3');
  });
});

describe('idOfLargeAnswer', () => {
  const body = `{"text":"${'x'.repeat(3000)}\\"id\\":7}"}`;

  /** The text in pieces as a pipe gives them. */
  function cut(text: string, size: number): Buffer[] {
    const bytes = Buffer.from(text);
    return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
  }

  it.each([
    `{"jsonrpc":"2.0","id":3,"result":${body}}`,
    `{"id":3,"result":${body}}`,
    ` { "jsonrpc" : "2.0" , "id" : 3 , "result" : ${body} } `,
    `{"result":${body},"jsonrpc":"2.0","id":3}`,
    `{"id":3,"jsonrpc":"2.0","error":{"data":${body}}}`,
    `{"jsonrpc":"2.0","result":${body},"id":3}\r`,
    `{"result":${body},"id":3,"jsonrpc":"2.0"}`,
  ])('is found at either end of an answer, wherever it is cut', (text) => {
    expect(JSON.parse(text)).toMatchObject({ id: 3 });
    for (const size of [512, 600, 1000, 2999, 3000, 3001, 3040, 3044, 100_000])
      expect(idOfLargeAnswer(cut(text, size)), `pieces of ${size}`).toBe('3');
  });

  it.each([
    `{"jsonrpc":"2.0","id":3,"method":"m","params":${body}}`,
    `{"method":"m","params":${body},"jsonrpc":"2.0","id":3}`,
    `{"id":null,"result":${body}}`,
    `{"other":1,"result":${body},"id":3}`,
    `{"result":${body}}`,
    `[{"id":3,"result":${body}}]`,
  ])('is not told of what must be read', (text) => {
    for (const size of [512, 3000, 100_000]) expect(idOfLargeAnswer(cut(text, size))).toBeUndefined();
  });

  it('is not told, or is the same, when the first pieces are tiny', () => {
    const text = `{"jsonrpc":"2.0","id":345,"result":${body}}`;
    for (let first = 1; first < 60; first += 1) {
      const pieces = [Buffer.from(text.slice(0, first)), ...cut(text.slice(first), 1000)];
      expect([undefined, '345']).toContain(idOfLargeAnswer(pieces));
      expect([undefined, '345']).toContain(idOfLargeAnswer(cut(text, first)));
    }
  });
});

describe('kindOfCutLine', () => {
  it.each([
    ['{"jsonrpc":"2.0","id":3,"result":{', 'answer'],
    ['{"id":"a","jsonrpc":"2.0","error":{', 'answer'],
    ['{"result":{"method":"', 'answer'],
    [' { "jsonrpc" : "2.0" , "result" : {', 'answer'],
    ['{"jsonrpc":"2.0","id":3,"method":"m"', 'message'],
    ['{"method":"m","params":{"result":', 'message'],
    ['{"params":{"x":', 'message'],
    ['{"id":null,"result":{', undefined],
    ['{"other":1,"result":{', undefined],
    ['[{"id":3,"result":{', undefined],
    ['{"jsonrpc":"2.0","id":3', undefined],
    ['', undefined],
  ])('of %s is %s', (head, kind) => {
    expect(kindOfCutLine(Buffer.from(head))).toBe(kind);
  });
});
