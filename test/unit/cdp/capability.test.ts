import { describe, expect, it } from 'vitest';

import { hashCapability, isCapability, mintCapability } from '../../../src/cdp/capability.ts';

describe('a capability', () => {
  it('is 256 random bits in 43 characters that a URL takes as they are', () => {
    const minted = new Set(Array.from({ length: 1000 }, mintCapability));
    expect(minted.size).toBe(1000);
    for (const capability of minted) {
      expect(isCapability(capability)).toBe(true);
      expect(Buffer.from(capability, 'base64url')).toHaveLength(32);
      expect(encodeURIComponent(capability)).toBe(capability);
    }
  });

  it.each(['', 'a'.repeat(42), 'a'.repeat(44), `${'a'.repeat(42)}=`, `${'a'.repeat(42)}%`, `${'a'.repeat(43)}\n`])(
    '%j has not the form of one',
    (text) => {
      expect(isCapability(text)).toBe(false);
    },
  );

  it('is looked up by a hash that does not tell it', () => {
    const capability = mintCapability();
    const hash = hashCapability(capability);
    expect(hash).toMatch(/^[\da-f]{64}$/);
    expect(hashCapability(capability)).toBe(hash);
    expect(hashCapability(mintCapability())).not.toBe(hash);
  });
});
