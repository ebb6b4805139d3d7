import { describe, expect, it } from 'vitest';

import { brokenLine } from '../../../src/core/json-line.ts';

function placeOf(text: string): string {
  try {
    JSON.parse(text);
    return 'not broken';
  } catch (failure) {
    return brokenLine(text, failure);
  }
}

describe('where a JSON text is broken', () => {
  it.each([
    ['{"a" 1}', ' (line 1)'],
    ['{"a":1,\n\n\n"b" 2}', ' (line 4)'],
  ])('is told as the line of %j', (text, expected) => {
    expect(placeOf(text)).toBe(expected);
  });

  it('is not told where the parser does not say it', () => {
    expect(placeOf('{"password":hunter22}')).toBe('');
    expect(brokenLine('{', new Error('broken'))).toBe('');
    expect(brokenLine('{', 'position 1')).toBe('');
  });
});
