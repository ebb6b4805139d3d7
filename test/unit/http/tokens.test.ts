import { describe, expect, it } from 'vitest';

import { Redactor } from '../../../src/core/redact.ts';
import { anonymous, Tokens } from '../../../src/http/tokens.ts';
import { makeRequest } from './http-bed.ts';

const [first, second, third] = ['first-token-0123456789', 'second-token-012345678', 'third-token-0123456789'];

interface Bed {
  readonly tokens: Tokens;
  readonly redactor: Redactor;
  readonly setFile: (text: string | Error) => void;
}

function makeBed(given: readonly string[], file?: string | Error): Bed {
  let content = file;
  const redactor = new Redactor();
  const tokens = new Tokens({
    tokens: given,
    file: file === undefined ? undefined : '/etc/tokens',
    readFile: () => {
      if (typeof content === 'string') return content;
      throw content ?? new Error('no file');
    },
    redactor,
  });
  return {
    tokens,
    redactor,
    setFile: (text) => {
      content = text;
    },
  };
}

function load(given: readonly string[], file?: string | Error): Tokens {
  const { tokens } = makeBed(given, file);
  tokens.load();
  return tokens;
}

describe('the owner of a token', () => {
  it('is the same for the same token and another for each other one', () => {
    const tokens = load([first, second], third);
    const owners = [first, second, third].map((token) => tokens.ownerOf(`Bearer ${token}`));
    expect(owners).toEqual([first, second, third].map((token) => tokens.ownerOf(`bearer  ${token} `)));
    expect(new Set(owners).size).toBe(3);
    for (const owner of owners) expect(tokens.has(owner ?? '')).toBe(true);
    expect(tokens.has(anonymous)).toBe(false);
  });

  it('tells nothing about the token, and is another one in each process', () => {
    const [one, other] = [load([first]), load([first])].map((tokens) => tokens.ownerOf(`Bearer ${first}`));
    expect(one).toMatch(/^[0-9a-f]{12}$/);
    expect(other).not.toBe(one);
  });

  it.each([
    ['no header', undefined],
    ['an unknown token', 'Bearer other-token-0123456789'],
    ['the beginning of a token', `Bearer ${first.slice(0, -1)}`],
    ['a token and more', `Bearer ${first}x`],
    ['another case of the token', `Bearer ${first.toUpperCase()}`],
    ['another scheme', `Basic ${first}`],
    ['no scheme', first],
    ['no token', 'Bearer '],
    ['three parts', `Bearer ${first} x`],
    ['two tokens in one', `Bearer ${first}, Bearer ${first}`],
  ])('is unknown for %s', (_what, header) => {
    expect(load([first]).ownerOf(header)).toBe(undefined);
  });

  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('does not depend on the case of the scheme: %s', (scheme) => {
    expect(load([first]).ownerOf(`${scheme} ${first}`)).toBeDefined();
  });

  it('is everybody when no token is configured', () => {
    const tokens = load([]);
    expect(tokens.isOpen).toBe(true);
    expect(tokens.ownerOf(undefined)).toBe(anonymous);
    expect(tokens.admit(makeRequest())).toBe(anonymous);
    expect(tokens.has(anonymous)).toBe(true);
  });

  it('is nobody before a configured file was read', () => {
    const { tokens } = makeBed([], first);
    expect(tokens.isOpen).toBe(false);
    expect(tokens.ownerOf(`Bearer ${first}`)).toBe(undefined);
  });
});

describe('a request', () => {
  it('is admitted by one Authorization header', () => {
    const tokens = load([first]);
    expect(tokens.admit(makeRequest(['authorization', `Bearer ${first}`]))).toBe(tokens.ownerOf(`Bearer ${first}`));
  });

  it.each([
    ['without a token', [], 'no bearer token'],
    ['with an unknown token', ['Authorization', 'Bearer unknown'], 'not known'],
    ['with another scheme', ['Authorization', `Basic ${first}`], 'is not "Bearer" and a token'],
    ['with two tokens', ['Authorization', `Bearer ${first}`, 'authorization', `Bearer ${first}`], 'several'],
  ])('is refused %s, and told what is missing', (_what, headers, message) => {
    const attempt = (): string => load([first]).admit(makeRequest(headers));
    expect(attempt).toThrow(
      expect.objectContaining({ code: 'unauthorized', message: expect.stringContaining(message) }),
    );
    expect(attempt).toThrow(expect.objectContaining({ hint: expect.stringContaining('--http-auth-token') }));
  });

  it('is refused with a token in its address', () => {
    const attempt = (): string =>
      load([first]).admit(makeRequest([], `/mcp?access_token=${first}&token=${first}&authorization=Bearer%20${first}`));
    expect(attempt).toThrow(expect.objectContaining({ code: 'unauthorized' }));
  });
});

describe('a file of tokens', () => {
  it('may hold comments, empty lines and the line ends of any system', () => {
    const tokens = load([], `\uFEFF# team a\r\n${first}\r\n\r\n  ${second}  \n#${third}\n`);
    const owners = [first, second, third].map((token) => tokens.ownerOf(`Bearer ${token}`) !== undefined);
    expect(owners).toEqual([true, true, false]);
  });

  it('is read again: new tokens are known at once, missing ones are not any more', () => {
    const { tokens, setFile } = makeBed([first], second);
    tokens.load();
    const [given, gone] = [tokens.ownerOf(`Bearer ${first}`), tokens.ownerOf(`Bearer ${second}`)];
    setFile(third);
    tokens.load();
    expect(tokens.ownerOf(`Bearer ${first}`)).toBe(given);
    expect(tokens.ownerOf(`Bearer ${third}`)).toBeDefined();
    expect([tokens.has(given ?? ''), tokens.has(gone ?? '')]).toEqual([true, false]);
  });

  it.each([
    ['unreadable', new Error('EACCES: permission denied'), 'EACCES'],
    ['empty', '', 'holds no token'],
    ['all comments', '# nothing\n', 'holds no token'],
    ['one short token', `${first}\n# and\nfifteen-letters\n`, 'line 3'],
    ['two words in a line', `two-words-in-a line-are-no-token`, 'line 1'],
    ['a letter outside of ASCII', `tokén-of-16-letters`, 'line 1'],
  ])('is refused when it is %s, naming the file and not what is in it', (_what, file, message) => {
    const { tokens } = makeBed([first], file);
    const attempt = (): void => {
      tokens.load();
    };
    expect(attempt).toThrow(expect.objectContaining({ code: 'config', message: expect.stringContaining(message) }));
    expect(attempt).toThrow('--http-auth-token-file, /etc/tokens');
    expect(attempt).not.toThrow(/fifteen|line-are|tokén/);
  });

  it('takes tokens of 16 letters', () => {
    expect(load([], 'sixteen-letters.').ownerOf('Bearer sixteen-letters.')).toBeDefined();
  });

  it('that cannot be read again changes nothing', () => {
    const { tokens, setFile } = makeBed([], first);
    tokens.load();
    const owner = tokens.ownerOf(`Bearer ${first}`) ?? '';
    for (const broken of [new Error('gone'), '', 'short']) {
      setFile(broken);
      expect(() => {
        tokens.load();
      }).toThrow('--http-auth-token-file');
    }
    expect(tokens.ownerOf(`Bearer ${first}`)).toBe(owner);
    expect(tokens.has(owner)).toBe(true);
  });
});

it('makes every token known as a secret', () => {
  const { tokens, redactor } = makeBed([first], second);
  tokens.load();
  expect(redactor.clean(`${first} ${second} ${third}`)).toBe(`[redacted] [redacted] ${third}`);
});
