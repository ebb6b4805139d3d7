import { describe, expect, it } from 'vitest';

import { isSameList, readToolPage } from '../../../src/core/catalog.ts';

function read(text: string): ReturnType<typeof readToolPage> {
  return readToolPage(Buffer.from(text));
}

describe('readToolPage', () => {
  it('keeps each tool as the bytes it came in', () => {
    const tool = '{ "name":"a\\u0062" , "big":90071992547409931,"z":1,"description":"ü \\u00fc" }';
    expect(read(`{"tools":[ ${tool} ,{"name":"c"}]}`)).toEqual({
      tools: [
        { name: 'ab', text: tool },
        { name: 'c', text: '{"name":"c"}' },
      ],
      members: {},
      nextCursor: undefined,
    });
  });

  it('keeps the other members of the result and the cursor apart', () => {
    expect(read('{"_meta":{"x":1},"nextCursor":"p2","tools":[],"ttlMs":5}')).toEqual({
      tools: [],
      members: { _meta: { x: 1 }, ttlMs: 5 },
      nextCursor: 'p2',
    });
  });

  it('leaves out what has no name', () => {
    expect(read('{"tools":[{"title":"x"},7,{"name":5},{"name":"a"}]}')?.tools).toEqual([
      { name: 'a', text: '{"name":"a"}' },
    ]);
  });

  it('takes a cursor that is no string for the end', () => {
    expect(read('{"tools":[],"nextCursor":null}')).toEqual({ tools: [], members: {}, nextCursor: undefined });
  });

  it.each(['', '[]', '{}', '{"tools":{}}', '{"tools":null}', '{"tools":[{"name":"a"}'])(
    'is undefined for %j',
    (text) => {
      expect(read(text)).toBeUndefined();
    },
  );
});

describe('isSameList', () => {
  const list = (...names: string[]): { tools: { name: string; text: string }[]; members: object } => ({
    tools: names.map((name) => ({ name, text: `{"name":"${name}"}` })),
    members: {},
  });

  it('compares tools byte for byte and in order', () => {
    expect(isSameList({ ...list('a', 'b'), members: { x: 1 } }, { ...list('a', 'b'), members: {} })).toBe(true);
    expect(
      isSameList(
        { tools: [{ name: 'a', text: '{}' }], members: {} },
        { tools: [{ name: 'a', text: '{ }' }], members: {} },
      ),
    ).toBe(false);
  });

  it.each([
    [['a'], ['a', 'b']],
    [['a', 'b'], ['a']],
    [
      ['a', 'b'],
      ['b', 'a'],
    ],
    [['a'], ['b']],
    [[], ['a']],
  ])('tells %j from %j', (one, other) => {
    const [left, right] = [list(...one), list(...other)];
    expect(isSameList({ ...left, members: {} }, { ...right, members: {} })).toBe(false);
  });
});
