const mask = '[redacted]';
/** Shorter values would blank out ordinary words, and no secret that matters is shorter. */
const shortestSecret = 4;
const urlCredentials = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]+@/gi;

/**
 * Removes secrets from texts by value: everything that was registered, as written and URL-encoded, and the user
 * information of any URL.
 */
export class Redactor {
  /** Longest first: one that begins with another must not leave its rest. */
  #secrets: readonly string[] = [];

  /** Registers values that must never be shown; empty and very short ones are ignored. */
  add(...values: (string | undefined)[]): void {
    for (const value of values) {
      if (value === undefined || value.length < shortestSecret) continue;
      // A log line and a structured answer hold it as JSON writes it.
      const inJson = JSON.stringify(value).slice(1, -1);
      const known = new Set([...this.#secrets, value, encodeURIComponent(value), inJson]);
      this.#secrets = [...known].toSorted((one, other) => other.length - one.length);
    }
  }

  /** The text with every known secret and every URL credential masked. */
  clean(text: string): string {
    let cleaned = text.replace(urlCredentials, `$1${mask}@`);
    for (const secret of this.#secrets) {
      if (cleaned.includes(secret)) cleaned = cleaned.replaceAll(secret, mask);
    }
    return cleaned;
  }
}
