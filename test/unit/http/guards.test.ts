import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';

import { isLoopbackName } from '../../../src/http/authority.ts';
import { Guards, type GuardSettings, headerValues, targetOf } from '../../../src/http/guards.ts';
import { makeAnswer, makeRequest } from './http-bed.ts';

const loopback = { bindHost: '127.0.0.1', allowedHosts: [], allowedOrigins: [] };
const network = { ...loopback, bindHost: '0.0.0.0' };

interface Sent {
  readonly host?: string | readonly string[];
  readonly origin?: string;
  readonly url?: string;
  readonly localAddress?: string;
}

function makeSent({ host = 'localhost:3000', origin, url, localAddress = '127.0.0.1' }: Sent): IncomingMessage {
  const hosts = typeof host === 'string' ? [host] : host;
  const headers = hosts.flatMap((value) => ['Host', value]);
  const req = makeRequest(origin === undefined ? headers : [...headers, 'Origin', origin], url);
  Object.defineProperty(req.socket, 'localAddress', { value: localAddress });
  return req;
}

/** The code that a request is refused with; undefined when it passes. */
function check(settings: GuardSettings, sent: Sent): string | undefined {
  return new Guards(settings).check(makeSent(sent))?.code;
}

describe('on a loopback address', () => {
  it.each([
    'localhost',
    'localhost:3000',
    'LOCALHOST:1',
    'localhost.',
    'localhost.:3000',
    'localhost:',
    '127.0.0.1',
    '127.0.0.1:3000',
    '127.8.9.10:80',
    '[::1]',
    '[::1]:3000',
    '[0:0:0:0:0:0:0:1]:3000',
    '[::1%lo]:3000',
    '[::1%25lo]:3000',
    '[::ffff:127.0.0.1]:3000',
    '[::FFFF:7f00:1]:3000',
  ])('the host %s passes', (host) => {
    for (const bindHost of ['127.0.0.1', 'localhost', '::1', '127.0.0.2']) {
      expect(check({ ...loopback, bindHost }, { host })).toBe(undefined);
    }
  });

  it.each([
    'evil.test',
    'localhost.evil.test',
    '127.0.0.1.evil.test',
    '127.evil.test',
    'evil-localhost',
    '10.0.0.1',
    '0.0.0.0',
    '127.1',
    '2130706433',
    '0x7f000001',
    '127.0.0.256',
    '[::2]',
    '[::ffff:10.0.0.1]',
    '[',
    '[]',
    '[::1',
    '::1',
    '[::1]x',
    '[localhost]',
    '[127.0.0.1]',
    '',
    ':3000',
    'localhost:x',
    'localhost:65536',
    'localhost:300000',
    'localhost:1:2',
    'user@localhost',
    'localhost, localhost',
    'localhost/evil.test',
    'localhost#',
    'local host',
    '*',
  ])('the host %j is refused', (host) => {
    expect(check(loopback, { host })).toBe('host_refused');
  });

  it('a request without host, or with two, is refused', () => {
    expect(check(loopback, { host: [] })).toBe('host_refused');
    expect(check(loopback, { host: ['localhost', 'localhost'] })).toBe('host_refused');
    expect(check({ ...loopback, allowedHosts: ['*'] }, { host: ['a', 'b'] })).toBe('host_refused');
  });
});

describe('on another address', () => {
  it('the address that was connected to passes, in any spelling, and no other one', () => {
    const pairs: [host: string, localAddress: string][] = [
      ['10.1.2.3:3000', '10.1.2.3'],
      ['10.1.2.3', '::ffff:10.1.2.3'],
      ['127.0.0.1:3000', '::ffff:127.0.0.1'],
      ['[2001:DB8::1]:3000', '2001:db8::1'],
      ['[fe80::1%25eth0]', 'fe80::1%eth0'],
      ['[::1]', '::1'],
    ];
    for (const [host, localAddress] of pairs) {
      expect(check(network, { host, localAddress })).toBe(undefined);
      expect(check(network, { host, localAddress: '10.9.9.9' })).toBe('host_refused');
    }
  });

  it('a name is refused unless it is listed, loopback names too', () => {
    for (const host of ['service:3000', 'localhost:3000']) {
      expect(check(network, { host })).toBe('host_refused');
      expect(check({ ...network, allowedHosts: [host.replace(':3000', '')] }, { host })).toBe(undefined);
    }
  });
});

describe('a listed host', () => {
  it.each([
    ['service', ['service', 'service:1', 'SERVICE.:2'], ['service.evil.test', 'xservice', 'sub.service']],
    ['service:3000', ['service:3000'], ['service', 'service:3001']],
    // What a browser leaves out.
    ['mcp.example.org:443', ['mcp.example.org', 'mcp.example.org:443'], ['mcp.example.org:80']],
    ['mcp.example.org:80', ['mcp.example.org', 'mcp.example.org:80'], ['mcp.example.org:443']],
    ['[2001:db8::1]', ['[2001:db8:0::1]:3'], ['[2001:db8::2]']],
    ['2001:db8::1', ['[2001:db8::1]'], []],
    ['10.0.0.9', ['10.0.0.9', '10.0.0.9:3000'], ['10.0.0.8']],
    ['*', ['anything.test:1', 'localhost'], ['[', '']],
  ])('%s lets pass what it names and nothing else', (entry, passing, refused) => {
    const settings = { ...network, allowedHosts: ['other.test', entry] };
    for (const host of passing) expect([host, check(settings, { host })]).toEqual([host, undefined]);
    for (const host of refused) expect([host, check(settings, { host })]).toEqual([host, 'host_refused']);
  });
});

describe('the target of a request', () => {
  it.each([
    ['/mcp', { path: '/mcp', query: '' }],
    ['/mcp?a=1?b', { path: '/mcp', query: 'a=1?b' }],
    ['//evil.test/mcp', { path: '//evil.test/mcp', query: '' }],
    ['/a/../mcp', { path: '/a/../mcp', query: '' }],
    ['/%6dcp', { path: '/%6dcp', query: '' }],
    ['http://localhost:1/mcp?x', { path: '/mcp', query: 'x', authority: 'localhost:1' }],
    ['HTTPS://localhost', { path: '/', query: '', authority: 'localhost' }],
    ['http://localhost?x', { path: '/', query: 'x', authority: 'localhost' }],
    ['*', { path: '*', query: '' }],
    ['', { path: '/', query: '' }],
    [undefined, { path: '/', query: '' }],
  ])('%s is taken as it was sent', (url, target) => {
    expect(targetOf(url)).toEqual(target);
  });

  it('must not name another host than the server has', () => {
    expect(check(loopback, { url: 'http://localhost:3000/mcp' })).toBe(undefined);
    for (const url of ['http://evil.test/mcp', 'http://localhost@evil.test/mcp', 'http:///mcp', 'https://[/mcp']) {
      expect([url, check(loopback, { url })]).toEqual([url, 'host_refused']);
    }
    expect(check(loopback, { host: 'evil.test', url: 'http://localhost/mcp' })).toBe('host_refused');
  });
});

describe('the origin of a web page', () => {
  const listed = { ...loopback, allowedOrigins: ['https://App.example.org:443', 'http://a.test:8080', 'app://frame'] };

  it('passes when it is listed, whatever its spelling', () => {
    for (const origin of [
      'https://app.example.org',
      'HTTPS://APP.example.org:443',
      'http://a.test:8080',
      'app://frame',
    ]) {
      expect([origin, check(listed, { origin })]).toEqual([origin, undefined]);
    }
  });

  it('passes when it is the one that the request was sent to', () => {
    const pairs: [host: string, origin: string][] = [
      ['localhost:3000', 'http://localhost:3000'],
      ['localhost', 'http://localhost'],
      ['localhost:80', 'http://localhost'],
      ['localhost', 'https://localhost:443'],
      ['[::1]:3000', 'http://[::1]:3000'],
    ];
    for (const [host, origin] of pairs) expect([host, check(loopback, { host, origin })]).toEqual([host, undefined]);
  });

  it.each([
    'null',
    '',
    'http://evil.test',
    'http://localhost:3001',
    'http://localhost',
    'https://app.example.org:8443',
    'http://app.example.org',
    'https://app.example.org.evil.test',
    'https://app.example.org/',
    'http://127.0.0.1:3000',
    'http://localhost:3000, http://localhost:3000',
    'file://',
    'ftp://localhost:3000',
    'localhost:3000',
    'http://user@localhost:3000',
  ])('%j is refused', (origin) => {
    expect(check(listed, { origin })).toBe('origin_refused');
  });

  it('is not the own one under a name that passes only because all do: the page may have pointed it here', () => {
    const settings = { ...loopback, allowedHosts: ['*'] };
    expect(check(settings, { host: 'evil.test', origin: 'http://evil.test' })).toBe('origin_refused');
    expect(check(settings, { host: 'localhost:3000', origin: 'http://localhost:3000' })).toBe(undefined);
    expect(check(settings, { host: 'evil.test' })).toBe(undefined);
  });

  it('does not help a host that is refused', () => {
    expect(check(listed, { host: 'evil.test', origin: 'https://app.example.org' })).toBe('host_refused');
  });
});

describe('a refusal', () => {
  it('names what was refused and the setting, and never repeats more than it needs', () => {
    const guards = new Guards(loopback);
    const [host, long, origin] = [
      guards.check(makeSent({ host: 'service:3000' })),
      guards.check(makeSent({ host: 'x'.repeat(5000) })),
      guards.check(makeSent({ origin: 'http://evil.test' })),
    ];
    expect(host?.message).toContain('"service:3000"');
    expect(host?.hint).toContain('--http-allowed-hosts');
    expect(long?.message.length).toBeLessThan(200);
    expect(origin?.message).toContain('"http://evil.test"');
    expect(origin?.hint).toContain('--http-allowed-origins');
  });
});

describe('a page of a listed origin', () => {
  const guards = new Guards({ ...loopback, allowedOrigins: ['https://app.example.org'] });
  const asking = ['Host', 'localhost', 'Access-Control-Request-Method', 'POST'];

  it('may read answers, and no other page', () => {
    expect(guards.cors(makeSent({ origin: 'https://app.example.org' }))).toEqual({
      'access-control-allow-origin': 'https://app.example.org',
      'access-control-expose-headers': expect.stringContaining('mcp-session-id'),
      vary: 'origin',
    });
    for (const sent of [{}, { origin: 'http://localhost:3000' }, { origin: 'https://evil.test' }, { origin: 'null' }]) {
      expect(guards.cors(makeSent(sent))).toBe(undefined);
    }
    expect(new Guards(loopback).cors(makeSent({ origin: 'https://app.example.org' }))).toBe(undefined);
  });

  it('is told by a preflight what it may send', async () => {
    const headers = [...asking, 'Origin', 'https://app.example.org', 'Access-Control-Request-Private-Network', 'true'];
    const req = makeRequest(
      [...headers, 'Access-Control-Request-Headers', 'traceparent,mcp-session-id'],
      '/mcp',
      'OPTIONS',
    );
    const { res, sent } = makeAnswer(req);
    expect(guards.preflight(req, res)).toBe(true);
    await new Promise(setImmediate);
    expect(sent()).toMatch(/^HTTP\/1\.1 204 No Content\r\n/);
    for (const header of [
      'access-control-allow-origin: https://app.example.org',
      'access-control-allow-methods: GET, POST, DELETE',
      'access-control-allow-headers: traceparent,mcp-session-id',
      'access-control-allow-private-network: true',
    ]) {
      expect(sent()).toContain(`${header}\r\n`);
    }
  });

  it.each([
    ['another method', 'POST', [...asking, 'Origin', 'https://app.example.org']],
    ['no question', 'OPTIONS', ['Host', 'localhost', 'Origin', 'https://app.example.org']],
    ['no origin', 'OPTIONS', asking],
    ['the own origin', 'OPTIONS', [...asking, 'Origin', 'http://localhost']],
  ])('is told nothing by %s', async (_what, method, headers) => {
    const req = makeRequest(headers, '/mcp', method);
    const { res, sent } = makeAnswer(req);
    expect(guards.preflight(req, res)).toBe(false);
    await new Promise(setImmediate);
    expect(sent()).toBe('');
  });
});

it('tells loopback names from all others', () => {
  for (const name of ['localhost', 'LocalHost.', '127.0.0.1', '127.255.0.3', '::1', '[::1]', '::ffff:127.0.0.1']) {
    expect([name, isLoopbackName(name)]).toEqual([name, true]);
  }
  for (const name of [
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    'localhost.example.org',
    '127.example.org',
    '',
    'host',
  ]) {
    expect([name, isLoopbackName(name)]).toEqual([name, false]);
  }
});

it('finds every value of a header, which Node itself does not keep', () => {
  const req = makeRequest(['Authorization', 'a', 'X-Authorization', 'b', 'AUTHORIZATION', 'c']);
  expect(headerValues(req, 'authorization')).toEqual(['a', 'c']);
});
