import { describe, expect, it } from 'vitest';

import { isInRange } from '../../../src/cli/node-range.ts';

describe('isInRange', () => {
  it.each([
    ['20.19.0', '>=20.19', true],
    ['20.18.9', '>=20.19', false],
    ['v22.0.0', '>=20.19', true],
    ['20.19.0', '>20.19', false],
    ['20.20.0', '>20.19', true],
    ['20.19.9', '<=20.19', true],
    ['20.20.0', '<=20.19', false],
    ['20.18.9', '<20.19.0', true],
    ['20.19.0', '<20.19.0', false],
    ['20.19.1', '20.19', true],
    ['20.20.0', '20.19', false],
    ['20.19.0', '=20.19.0', true],
    ['20.19.1', '20.19.0', false],
    ['20.19.0', '^20.19.0', true],
    ['20.99.9', '^20.19.0', true],
    ['21.0.0', '^20.19.0', false],
    ['20.18.0', '^20.19.0', false],
    ['0.2.9', '^0.2.3', true],
    ['0.3.0', '^0.2.3', false],
    ['0.0.4', '^0.0.3', false],
    ['1.2.9', '~1.2.3', true],
    ['1.3.0', '~1.2.3', false],
    ['1.9.0', '~1', true],
    ['18.1.0', '18.x', true],
    ['19.0.0', '18.x', false],
    ['1.0.0', '*', true],
    ['1.0.0', '', true],
    ['21.0.0', '^20.19.0 || >=22.12', false],
    ['22.12.0', '^20.19.0 || >=22.12', true],
    ['20.19.0', '^20.19.0 || >=22.12', true],
    ['20.5.0', '>=18 <20', false],
    ['19.9.9', '>= 18 < 20', true],
    ['18.5.0', '18.0.0 - 18.9.9', true],
    ['18.10.0', '18.0.0 - 18.9.9', false],
    ['20.0.0-nightly2024', '>=20', true],
  ])('%s in %j is %s', (version, range, expected) => {
    expect(isInRange(version, range)).toBe(expected);
  });

  it.each(['latest', '>=x20', '>=20 || lts'])('does not pass a range that it cannot read: %j', (range) => {
    expect(() => isInRange('20.19.0', range)).toThrow('no version range');
  });

  it.each(['', 'v', '20', '20.x.1'])('does not pass a version that it cannot read: %j', (version) => {
    expect(() => isInRange(version, '*')).toThrow('no version');
  });
});
