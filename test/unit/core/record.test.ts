import { describe, expect, it } from 'vitest';

import { isRecord } from '../../../src/core/record.ts';

describe('a record', () => {
  it.each([[{}], [Object.create(null)]])('is an object: %j', (value) => {
    expect(isRecord(value)).toBe(true);
  });

  it.each([[[]], [null], [undefined], ['a'], [1]])('is not %j', (value) => {
    expect(isRecord(value)).toBe(false);
  });
});
