import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

import { BridgeError, messageOf } from '../core/errors.ts';
import { headerValues } from './guards.ts';

/** Who a request belongs to where no token is asked for. */
export const anonymous = 'anonymous';

/** Enough to tell the tokens of a server apart (48 bits), short enough for a log line. */
const ownerLength = 12;
const tokenForm = /^[\x21-\x7e]{16,}$/;
const bearerForm = /^bearer +([\x21-\x7e]+) *$/i;

/** What `Tokens` needs. */
export interface TokenSettings {
  /** Tokens given as a setting. */
  readonly tokens: readonly string[];
  /** A file with further ones, one a line. */
  readonly file?: string | undefined;
  readFile(path: string): string;
  /** Gets to know every token, so that none is ever shown. */
  readonly redactor: { add(...values: string[]): void };
}

interface KnownToken {
  readonly digest: Buffer;
  readonly owner: string;
}

/** The bearer tokens that open the server. */
export class Tokens {
  readonly #settings: TokenSettings;
  /** New in each process: whoever reads an owner in a log cannot try guesses against it. */
  readonly #key = randomBytes(32);
  #known: readonly KnownToken[] = [];

  constructor(settings: TokenSettings) {
    this.#settings = settings;
  }

  /** True when no token is configured; everybody is the same owner then. */
  get isOpen(): boolean {
    return this.#settings.tokens.length === 0 && this.#settings.file === undefined;
  }

  /** Reads the tokens, again at each call. Throws `config` and keeps the ones it had when the file cannot be used. */
  load(): void {
    const { tokens, file, redactor } = this.#settings;
    const all = [...tokens, ...(file === undefined ? [] : this.#readTokens(file))];
    redactor.add(...all);
    this.#known = [...new Set(all)].map((token) => {
      const digest = this.#digest(token);
      return { digest, owner: digest.toString('hex').slice(0, ownerLength) };
    });
  }

  /** The owner of the token in an Authorization header: a short hash, other in each process; undefined for any other. */
  ownerOf(authorization: string | undefined): string | undefined {
    if (this.isOpen) return anonymous;
    const token = bearerForm.exec(authorization ?? '')?.[1];
    if (token === undefined) return undefined;
    const digest = this.#digest(token);
    let owner: string | undefined;
    // All are compared, so that the time tells nothing about which one is near.
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) owner = known.owner;
    return owner;
  }

  /** The owner of a request. Throws `unauthorized` when it has no known token, or several Authorization headers. */
  admit(req: Pick<IncomingMessage, 'rawHeaders'>): string {
    if (this.isOpen) return anonymous;
    const [authorization, ...others] = headerValues(req, 'authorization');
    const owner = others.length === 0 ? this.ownerOf(authorization) : undefined;
    if (owner !== undefined) return owner;
    throw new BridgeError('unauthorized', describeRefusal(authorization, others.length), {
      hint: 'Send "Authorization: Bearer <token>" with a token of --http-auth-token or --http-auth-token-file.',
    });
  }

  /** Whether an owner's token is still known, for instance after the file was read again. */
  has(owner: string): boolean {
    return this.isOpen ? owner === anonymous : this.#known.some((known) => known.owner === owner);
  }

  #digest(token: string): Buffer {
    return createHmac('sha256', this.#key).update(token).digest();
  }

  #readTokens(file: string): string[] {
    const refused = (problem: string, cause?: unknown): BridgeError =>
      new BridgeError('config', `The file of --http-auth-token-file, ${file}, ${problem}.`, {
        hint: 'Give a readable file with one token a line, each of at least 16 visible ASCII characters; "#" begins a comment.',
        cause,
      });
    let text: string;
    try {
      text = this.#settings.readFile(file);
    } catch (cause) {
      throw refused(`cannot be read: ${messageOf(cause)}`, cause);
    }
    const lines = text
      .replace(/^\uFEFF/, '')
      .split('\n')
      .map((line) => line.trim());
    const tokens = lines.filter((line) => line !== '' && !line.startsWith('#'));
    if (tokens.length === 0) throw refused('holds no token');
    const wrong = lines.findIndex((line) => tokens.includes(line) && !tokenForm.test(line));
    // The line is named and not shown: it may be a token with a slip in it.
    if (wrong !== -1) throw refused(`has no usable token in line ${wrong + 1}`);
    return tokens;
  }
}

function describeRefusal(authorization: string | undefined, others: number): string {
  if (others > 0) return 'The request has several Authorization headers.';
  if (authorization === undefined) return 'The request has no bearer token.';
  return bearerForm.test(authorization)
    ? 'The bearer token of the request is not known here.'
    : 'The Authorization header of the request is not "Bearer" and a token.';
}
