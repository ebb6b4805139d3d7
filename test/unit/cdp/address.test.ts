import { describe, expect, it } from 'vitest';

import { type Address, authorityOf, discoveryUrl, webSocketUrl } from '../../../src/cdp/address.ts';

const plain: Address = { scheme: 'http', host: '127.0.0.1', port: 9400, path: '' };
const proxied: Address = { scheme: 'https', host: 'cdp.example.org', port: 443, path: '/agents/1' };

describe('an address', () => {
  it('is told with the scheme, the port and the path that clients use', () => {
    expect(discoveryUrl(plain, 'CAP')).toBe('http://127.0.0.1:9400/cdp/CAP');
    expect(discoveryUrl(proxied, 'CAP')).toBe('https://cdp.example.org/agents/1/cdp/CAP');
    const pathname = '/devtools/browser/b';
    expect(webSocketUrl(plain, 'CAP', pathname)).toBe('ws://127.0.0.1:9400/cdp/CAP/devtools/browser/b');
    expect(webSocketUrl(proxied, 'CAP', pathname)).toBe('wss://cdp.example.org/agents/1/cdp/CAP/devtools/browser/b');
  });

  it.each([
    ['http', 80, 'h'],
    ['http', 443, 'h:443'],
    ['https', 443, 'h'],
    ['https', 80, 'h:80'],
  ] as const)('of %s on port %i is %s in a Host header', (scheme, port, authority) => {
    expect(authorityOf({ scheme, host: 'h', port, path: '' })).toBe(authority);
  });
});
