import { describe, expect, it } from 'vitest';

import { isGatewayPath, readTarget } from '../../../src/cdp/routes.ts';

const capability = 'C'.repeat(43);

function routeOf(rest: string): unknown {
  return readTarget(`/cdp/${capability}${rest}`)?.route;
}

describe('a path under a capability', () => {
  it.each([
    ['/json/version', 'version'],
    ['/json/version/', 'version'],
    ['/json', 'list'],
    ['/json/', 'list'],
    ['/json/list', 'list'],
    ['/json/list/', 'list'],
    ['/json/protocol', 'protocol'],
    ['/json/protocol/', 'protocol'],
    ['/json/new', 'new'],
  ])('%s asks for the %s', (rest, kind) => {
    expect(routeOf(rest)).toEqual({ kind });
  });

  it.each(['', '/', '/devtools/browser'])('%j is a short form of the browser', (rest) => {
    expect(routeOf(rest)).toEqual({ kind: 'browser', id: undefined });
  });

  it('names a browser or a target by an id of up to 64 characters', () => {
    const longest = 'A'.repeat(64);
    for (const id of ['A', '0d5f8a1e-1111-4222-8333-444455556666', 'a_b', longest]) {
      expect(routeOf(`/devtools/browser/${id}`)).toEqual({ kind: 'browser', id });
      expect(routeOf(`/devtools/page/${id}`)).toEqual({ kind: 'page', id });
      expect(routeOf(`/json/activate/${id}`)).toEqual({ kind: 'activate', id });
      expect(routeOf(`/json/close/${id}`)).toEqual({ kind: 'close', id });
    }
    for (const id of [`${longest}A`, '', '..', 'a/b', 'a.b', '%41', 'a%2Fb', 'a;b', 'ä', 'a\n'])
      for (const base of ['/devtools/page/', '/json/activate/', '/json/close/', '/devtools/browser/'])
        expect([base + id, routeOf(base + id)]).toEqual([base + id, undefined]);
  });

  it.each([
    '/json/new/',
    '/json/newer',
    '/json/other',
    '/json//version',
    '//json/version',
    '/JSON/version',
    '/%6ason/version',
    '/./json/version',
    '/x/../json/version',
    '/devtools',
    '/devtools/inspector.html',
    '/devtools/page',
    '/json/version/x',
    '/json/version\\',
  ])('%s asks for nothing', (rest) => {
    expect(routeOf(rest)).toBe(undefined);
  });
});

describe('a request target', () => {
  it('has its query kept as it came', () => {
    const at = (rest: string): string | undefined => readTarget(`/cdp/${capability}${rest}`)?.query;
    expect(at('/json/new')).toBe('');
    expect(at('/json/new?')).toBe('');
    expect(at('/json/new?data:text/html,a%20b?c&d=#e')).toBe('data:text/html,a%20b?c&d=#e');
    expect(at('?/json/version')).toBe('/json/version');
  });

  it.each([
    '',
    '/',
    '*',
    '/cdp',
    '/cdp/',
    `/cdp//${capability}`,
    `/CDP/${capability}`,
    `//cdp/${capability}`,
    `/cdp/${capability}x`,
    `/cdp/${capability.slice(1)}`,
    `/cdp/${capability.slice(1)}%43`,
    `/cdp?/cdp/${capability}`,
    `/x/cdp/${capability}`,
    `http://localhost/cdp/${capability}`,
    '/json/version',
  ])('%s has no capability', (url) => {
    expect(readTarget(url)).toBe(undefined);
  });

  it('is for the gateway below /cdp/ only', () => {
    expect(['/cdp/', '/cdp/x', '/cdp/x/y'].map(isGatewayPath)).toEqual([true, true, true]);
    expect(['/cdp', '/cdpx/', '/mcp', '/', '//cdp/'].map(isGatewayPath)).toEqual([false, false, false, false, false]);
  });
});
