const mask = '[redacted]';
/** Shorter values would blank out ordinary words, and no secret that matters is shorter. */
const shortestSecret = 4;
/** Schemes are short; without a bound a long text without any URL would be searched anew from each of its words. */
const urlCredentials = /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@"'<>]+@/gi;

/** The path under which managed CDP is reached is its secret: 32 bytes in base64url. */
const capabilityPath = /(\/cdp\/)[\w-]{43}/g;

/**
 * Removes secrets from texts by value: everything that was registered, as written and URL-encoded, and the user
 * information of any URL.
 */
export class Redactor {
  /** Longest first: one that begins with another must not leave its rest. */
  #secrets: readonly string[] = [];
  readonly #base: Redactor | undefined;

  /** `base` knows further secrets, also those that it is told later. */
  constructor(base?: Redactor) {
    this.#base = base;
  }

  /** Registers values that must never be shown; empty and very short ones are ignored. */
  add(...values: (string | undefined)[]): void {
    const known = new Set(this.#secrets);
    for (const value of values) {
      if (value === undefined || value.length < shortestSecret) continue;
      // A log line and a structured answer hold it as JSON writes it.
      for (const form of [value, encoded(value), JSON.stringify(value).slice(1, -1)]) known.add(form);
    }
    this.#secrets = [...known].toSorted((one, other) => other.length - one.length);
  }

  /** The text with every known secret and every URL credential masked. */
  clean(text: string): string {
    let cleaned = this.#base?.clean(text) ?? maskUrls(text);
    for (const secret of this.#secrets) {
      if (cleaned.includes(secret)) cleaned = cleaned.replaceAll(secret, mask);
    }
    return cleaned;
  }
}

function maskUrls(text: string): string {
  return text.replace(urlCredentials, `$1${mask}@`).replace(capabilityPath, `$1${mask}`);
}

function encoded(value: string): string {
  try {
    return encodeURIComponent(value);
  } catch {
    // Half of a pair of UTF-16, which no URL can hold.
    return value;
  }
}
