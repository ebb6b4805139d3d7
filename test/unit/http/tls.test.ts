import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { expiryWarning } from '../../../src/http/tls.ts';

const certificate = readFileSync(join(import.meta.dirname, '../../fixtures/tls/first-cert.pem'));
const end = Date.parse(new X509Certificate(certificate).validTo);
const dayMs = 86_400_000;

describe('a certificate', () => {
  it.each<[left: number, words: string | undefined]>([
    [14 * dayMs + 1, undefined],
    [14 * dayMs, 'expires on'],
    [1, 'expires on'],
    [0, 'expired on'],
    [-dayMs, 'expired on'],
  ])('with %i ms left', (left, words) => {
    const warning = expiryWarning('/c.pem', certificate, end - left);
    expect(/^--https-cert: the certificate in \/c\.pem (expire[sd] on) /.exec(warning ?? '')?.[1]).toBe(words);
  });

  it('in a PFX file is not looked into', () => {
    expect(expiryWarning(undefined, undefined, end)).toBeUndefined();
  });
});
