import { expect, it } from 'vitest';
import { isLoopbackHost } from '../../../src/core/loopback.ts';

it.each(['localhost', 'LOCALHOST', '127.0.0.1', '127.255.255.254', '::1', '[::1]'])(
  '%s is reached by this computer only',
  (host) => {
    expect(isLoopbackHost(host)).toBe(true);
  },
);

it.each([
  '',
  '0.0.0.0',
  '126.0.0.1',
  '128.0.0.1',
  '127.example.org',
  '127.0.0.1.example.org',
  '127.1',
  '::',
  '[::]',
  '::2',
  'localhost.example.org',
  'notlocalhost',
  '[127.0.0.1]',
])('%j may be reached by others', (host) => {
  expect(isLoopbackHost(host)).toBe(false);
});
