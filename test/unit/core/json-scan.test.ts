import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';

import { parseSpan, scanArray, scanObject, startsArray, stringOf } from '../../../src/core/json-scan.ts';

/** A small generator with a seed, so that a failing document is found again. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const pieces = [
  'a',
  ' ',
  '"',
  '\\',
  '/',
  '{',
  '}',
  '[',
  ']',
  ':',
  ',',
  '\n',
  'ü',
  '漢',
  '😀',
  '\u2028',
  '\u0000',
  'id',
];
const scalars = ['0', '-1', '1.5e-7', '9007199254740993', 'true', 'false', 'null'];

/** Writes JSON documents in all the spellings that the grammar allows. */
class Writer {
  readonly #random: (below: number) => number;

  constructor(seed: number) {
    this.#random = makeRandom(seed);
  }

  space(): string {
    return this.#random(4) === 0 ? ([' ', '\t', '\r', '  '][this.#random(4)] ?? '') : '';
  }

  string(): string {
    // Around 48 bytes the search for the closing quote changes its way.
    const length = [0, 1, 3, 20, 44, 60, 300][this.#random(7)] ?? 0;
    const raw = Array.from({ length }, () => pieces[this.#random(pieces.length)]).join('');
    const ending = this.#random(3) === 0 ? '\\'.repeat(1 + this.#random(4)) : '';
    const text = JSON.stringify(raw + ending);
    return this.#random(2) === 0 ? text : text.replaceAll(/[aü漢]/g, (found) => escapeOf(found));
  }

  value(depth: number): string {
    const kind = this.#random(depth > 0 ? 4 : 2);
    if (kind === 0) return this.string();
    if (kind === 1) return scalars[this.#random(scalars.length)] ?? '0';
    return kind === 2 ? this.object(depth - 1) : this.array(depth - 1);
  }

  object(depth: number): string {
    const member = (): string =>
      `${this.space()}${this.string()}${this.space()}:${this.space()}${this.value(depth)}${this.space()}`;
    return `${this.space()}{${this.space()}${Array.from({ length: this.#random(5) }, member).join(',')}}`;
  }

  array(depth: number): string {
    const element = (): string => `${this.space()}${this.value(depth)}${this.space()}`;
    return `${this.space()}[${this.space()}${Array.from({ length: this.#random(5) }, element).join(',')}]`;
  }
}

function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

const seeds = Array.from({ length: 200 }, (_, index) => index + 1);

/** Where a document could be cut off: every place in its outer hundred bytes, and some places in between. */
function cutsOf(text: Buffer): Buffer[] {
  const ends = Array.from(text.keys()).filter((at) => at < 100 || at >= text.length - 100 || at % 37 === 0);
  return ends.map((end) => text.subarray(0, end));
}

function readMembers(text: string): Record<string, unknown> | undefined {
  const buffer = Buffer.from(text);
  const members = scanObject(buffer);
  return members && Object.fromEntries([...members].map(([key, span]) => [key, parseSpan(buffer, span)]));
}

describe('scanObject', () => {
  it('finds the same members as JSON.parse in every way of writing an object', () => {
    const failed = seeds.filter((seed) => {
      const text = new Writer(seed).object(3);
      return !isDeepStrictEqual(readMembers(text), JSON.parse(text));
    });
    expect(failed).toEqual([]);
  });

  it('gives spans without the space around a value', () => {
    const text = Buffer.from('{ "a" :  [1, 2]  , "b":\t"x" }');
    const spans = [...(scanObject(text) ?? [])].map(([, { start, end }]) => text.toString('utf8', start, end));
    expect(spans).toEqual(['[1, 2]', '"x"']);
  });

  it('finds nothing in an object that was cut off anywhere', () => {
    for (const seed of seeds.slice(0, 40)) {
      const text = Buffer.from(new Writer(seed).object(2));
      expect(cutsOf(text).filter((cut) => scanObject(cut) !== undefined)).toEqual([]);
    }
  });

  it.each([
    '',
    ' ',
    '[]',
    '"a"',
    '{',
    '{,}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    '{"a" 1}',
    '{"a":1 "b":2}',
    '{"a":"x";"b":2}',
    '{"\\x":1}',
  ])('finds nothing in %j', (text) => {
    expect(scanObject(Buffer.from(text))).toBeUndefined();
  });

  it('keeps the last value of a repeated key, also when the key is spelled in another way', () => {
    expect(readMembers('{"id":1,"\\u0069d":2}')).toEqual({ id: 2 });
  });

  it('starts at the place it is told', () => {
    const text = Buffer.from('{"params":{"name":"x"}}');
    expect(stringOf(text, scanObject(text, 10)?.get('name'))).toBe('x');
  });

  it('reads its way through any bytes without an exception and within them', () => {
    const random = makeRandom(7);
    const broken: string[] = [];
    const alphabet = '{}[]":,\\ a1\n\xff';
    for (let round = 0; round < 1000; round += 1) {
      const text = Array.from({ length: 1 + random(40) }, () => alphabet[random(alphabet.length)]).join('');
      const buffer = Buffer.from(`{${text}`, 'latin1');
      const ends = [...(scanObject(buffer)?.values() ?? []), ...(scanArray(buffer, 1) ?? [])].map(({ end }) => end);
      if (Math.max(0, ...ends) > buffer.length) broken.push(text);
    }
    expect(broken).toEqual([]);
  });
});

describe('the end of a string', () => {
  const lengths = Array.from({ length: 12 }, (_, index) => index + 41);

  it.each([0, 1, 2, 3, 4, 5])('is found after %i backslashes at every length around the native search', (count) => {
    for (const length of lengths) {
      const value = `${'x'.repeat(length)}${'\\'.repeat(count)}`;
      expect(readMembers(`{"a":${JSON.stringify(value)},"b":1}`)).toEqual({ a: value, b: 1 });
    }
  });

  it.each([1, 2, 3, 4])(
    'is not taken from a quote after %i escapes at every length around the native search',
    (count) => {
      for (const length of lengths) {
        const value = `${'x'.repeat(length)}${'\\'.repeat(count)}"}],`;
        expect(readMembers(`{"a":${JSON.stringify(value)},"b":1}`)).toEqual({ a: value, b: 1 });
      }
    },
  );

  it('is not found in a string of backslashes that never closes', () => {
    for (const length of lengths) expect(scanObject(Buffer.from(`{"${'\\'.repeat(length * 2 + 1)}"`))).toBeUndefined();
  });
});

describe('scanArray', () => {
  it('finds the same elements as JSON.parse in every way of writing an array', () => {
    const failed = seeds.filter((seed) => {
      const text = new Writer(seed).array(3);
      const buffer = Buffer.from(text);
      return !isDeepStrictEqual(
        scanArray(buffer)?.map((span) => parseSpan(buffer, span)),
        JSON.parse(text),
      );
    });
    expect(failed).toEqual([]);
  });

  it('finds nothing in an array that was cut off anywhere', () => {
    for (const seed of seeds.slice(0, 40)) {
      const text = Buffer.from(new Writer(seed).array(2));
      expect(cutsOf(text).filter((cut) => scanArray(cut) !== undefined)).toEqual([]);
    }
  });

  it.each(['{}', '[,]', '[1,]', '[1 2]', '["x";"y"]', '[1}', '["a]'])('finds nothing in %j', (text) => {
    expect(scanArray(Buffer.from(text))).toBeUndefined();
  });
});

describe('the small readers', () => {
  it.each([
    ['[', true],
    [' \t\r\n[1]', true],
    ['{"a":[]}', false],
    ['', false],
  ])('tell whether %j starts an array', (text, expected) => {
    expect(startsArray(Buffer.from(text))).toBe(expected);
  });

  it('decode a string, and nothing else', () => {
    const text = Buffer.from('{"a":"x\\n\\u00fc","b":1,"c":"\\q"}');
    const members = scanObject(text);
    expect(stringOf(text, members?.get('a'))).toBe('x\nü');
    expect(stringOf(text, members?.get('b'))).toBeUndefined();
    expect(stringOf(text, members?.get('c'))).toBeUndefined();
    expect(stringOf(text, undefined)).toBeUndefined();
  });

  it('parse a value, and give undefined for what is none', () => {
    const text = Buffer.from('{"a":{"x":[1]},"b":tru}');
    const members = scanObject(text);
    const spans = [...(members?.values() ?? [])];
    expect(spans.map((span) => parseSpan(text, span))).toEqual([{ x: [1] }, undefined]);
  });
});
