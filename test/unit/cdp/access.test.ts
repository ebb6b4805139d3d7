import { describe, expect, it } from 'vitest';

import { Access, type AccessSettings } from '../../../src/cdp/access.ts';
import { Refusal } from '../../../src/cdp/answers.ts';
import { makeRequest } from '../http/http-bed.ts';

const local: AccessSettings = { bindHost: '127.0.0.1', port: 9400, advertised: undefined, allowedOrigins: [] };
const advertised = { scheme: 'https', host: 'CDP.example.org', port: 443, path: '' } as const;

/** What a request with these headers is refused for; undefined if it is let in. */
function check(settings: Partial<AccessSettings>, headers: readonly string[]): string | undefined {
  try {
    new Access({ ...local, ...settings }).check(makeRequest(headers));
    return undefined;
  } catch (failure) {
    if (failure instanceof Refusal) return failure.code;
    throw failure;
  }
}

describe('the host of a request', () => {
  it.each(['127.0.0.1', '127.0.0.2', 'localhost', 'LOCALHOST', '::1', '[::1]'])(
    'is any name of this computer with the right port on a listener that is bound to %s',
    (bindHost) => {
      for (const host of ['localhost:9400', 'LocalHost:9400', '127.0.0.1:9400', '[::1]:9400'])
        expect([host, check({ bindHost }, ['Host', host])]).toEqual([host, undefined]);
      for (const host of ['localhost', 'localhost:80', '127.0.0.1:9401', 'evil.example:9400', '127.0.0.3:9400'])
        expect([host, check({ bindHost }, ['Host', host])]).toEqual([host, 'host_refused']);
    },
  );

  it('is the one that the listener is bound to, since that is the one that is told', () => {
    expect(check({ bindHost: '127.0.0.2' }, ['Host', '127.0.0.2:9400'])).toBe(undefined);
    expect(check({ bindHost: '127.0.0.1' }, ['Host', '127.0.0.2:9400'])).toBe('host_refused');
  });

  it.each([
    'localhost.:9400',
    'localhost:9400.',
    'localhost:09400',
    'localhost:9400 ',
    'user@localhost:9400',
    'localhost:9400@evil.example',
    'evil.example, localhost:9400',
    'localhost:9400/x',
    '127.1:9400',
    '2130706433:9400',
    '0.0.0.0:9400',
    '[::]:9400',
    '',
  ])('%j is no name of this computer', (host) => {
    expect(check({}, ['Host', host])).toBe('host_refused');
  });

  it('stands there exactly once', () => {
    expect(check({}, [])).toBe('host_refused');
    expect(check({}, ['Host', 'localhost:9400', 'host', 'localhost:9400'])).toBe('host_refused');
  });

  it('is the advertised one only, on a listener that others reach', () => {
    const remote = { bindHost: '0.0.0.0', advertised };
    for (const host of ['cdp.example.org', 'CDP.EXAMPLE.ORG', 'cdp.example.org:443'])
      expect(check(remote, ['Host', host])).toBe(undefined);
    for (const host of ['cdp.example.org:9400', 'localhost:9400', '127.0.0.1:9400', '0.0.0.0:9400'])
      expect(check(remote, ['Host', host])).toBe('host_refused');
    expect(check({ bindHost: '0.0.0.0' }, ['Host', '0.0.0.0:9400'])).toBe('host_refused');
  });

  it('is the advertised one too, on a listener of this computer behind something else', () => {
    for (const host of ['cdp.example.org', 'localhost:9400'])
      expect(check({ advertised }, ['Host', host])).toBe(undefined);
  });

  it.each([80, 443])('may lack the port %i, which a scheme implies', (port) => {
    expect(check({ port }, ['Host', 'localhost'])).toBe(undefined);
    expect(check({ port }, ['Host', `localhost:${port}`])).toBe(undefined);
  });

  it('is quoted in short', () => {
    const access = new Access(local);
    expect(() => {
      access.check(makeRequest(['Host', 'x'.repeat(5000)]));
    }).toThrow(`"${'x'.repeat(100)}..."`);
  });
});

describe('the origin of a request', () => {
  const host = ['Host', 'localhost:9400'];

  it('is missing with clients that are no page', () => {
    expect(check({}, host)).toBe(undefined);
  });

  it.each(['https://evil.example', 'http://localhost:9400', 'null', '', 'file://', 'devtools://devtools'])(
    '%j is refused when it is not listed',
    (origin) => {
      expect(check({}, [...host, 'Origin', origin])).toBe('origin_refused');
    },
  );

  it('is let in as it is listed, and nothing like it', () => {
    const allowedOrigins = ['devtools://devtools', 'https://Tool.example'];
    const at = (origin: string): string | undefined => check({ allowedOrigins }, [...host, 'Origin', origin]);
    expect([at('devtools://devtools'), at('https://tool.example')]).toEqual([undefined, undefined]);
    for (const origin of [
      'https://tool.example.evil',
      'https://tool.example:444',
      'http://tool.example',
      'https://tool.example, https://tool.example',
    ])
      expect(at(origin)).toBe('origin_refused');
  });

  it('is looked at after the host', () => {
    expect(check({}, ['Host', 'evil.example', 'Origin', 'https://evil.example'])).toBe('host_refused');
  });
});

describe('a browser that does not tell the origin of its page', () => {
  const from = (site: string, settings: Partial<AccessSettings> = {}): (string | undefined)[] =>
    [false, true].map((isChanging) => {
      try {
        new Access({ ...local, ...settings }).check(
          makeRequest(['Host', 'localhost:9400', 'Sec-Fetch-Site', site]),
          isChanging,
        );
        return undefined;
      } catch (failure) {
        return failure instanceof Refusal ? failure.code : String(failure);
      }
    });

  it.each(['cross-site', 'same-site', 'same-origin', '', 'anything'])('is refused as a page: %j', (site) => {
    expect(from(site)).toEqual(['origin_refused', 'origin_refused']);
    expect(from(site, { allowedOrigins: ['https://tool.example'] })).toEqual(['origin_refused', 'origin_refused']);
  });

  it('may read what a person asks for, and change nothing: a page can redirect there', () => {
    expect(from('none')).toEqual([undefined, 'origin_refused']);
  });

  it('is let in with an origin that is listed', () => {
    const headers = ['Host', 'localhost:9400', 'Origin', 'https://tool.example', 'Sec-Fetch-Site', 'cross-site'];
    expect(check({ allowedOrigins: ['https://tool.example'] }, headers)).toBe(undefined);
    expect(check({}, headers)).toBe('origin_refused');
  });
});
