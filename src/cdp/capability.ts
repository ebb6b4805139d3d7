import { createHash, randomBytes } from 'node:crypto';

/** 256 bits cannot be guessed, however many are tried. */
const capabilityBytes = 32;
const form = /^[\w-]{43}$/;

/** A new secret for the path of one browser generation: 32 random bytes in base64url, 43 characters. */
export function mintCapability(): string {
  return randomBytes(capabilityBytes).toString('base64url');
}

/** True for a text that has the form of a capability. */
export function isCapability(text: string): boolean {
  return form.test(text);
}

/** What capabilities are kept and looked up by: the time that a look takes then tells nothing of the secret. */
export function hashCapability(capability: string): string {
  return createHash('sha256').update(capability).digest('hex');
}
