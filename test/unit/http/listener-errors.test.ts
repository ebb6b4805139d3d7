import { describe, expect, it } from 'vitest';

import { brokenRequestError, listenError } from '../../../src/http/listener-errors.ts';

function systemError(code: string, message = code): Error {
  return Object.assign(new Error(message), { code });
}

describe('a server that cannot listen', () => {
  it.each([
    ['EADDRINUSE', 'the port is in use', '--http-port'],
    ['EACCES', 'this user may not use the port', '--http-port'],
    ['EADDRNOTAVAIL', 'this computer has no such address', '--http-host'],
    ['ENOTFOUND', 'the host name is not known', '--http-host'],
    ['EMFILE', 'listen EMFILE', '--http-host and --http-port'],
  ])('says why and which setting mends it: %s', (code, problem, setting) => {
    const error = listenError({ host: '::1', port: 80 }, systemError(code, `listen ${code}`));
    expect(error).toMatchObject({ code: 'listen_failed', message: `Cannot listen on ::1 port 80: ${problem}.` });
    expect(error.hint).toContain(setting);
  });
});

describe('bytes that are no request', () => {
  it.each([
    ['HPE_HEADER_OVERFLOW', 'headers_too_large'],
    ['ERR_HTTP_REQUEST_TIMEOUT', 'request_timeout'],
    ['HPE_INVALID_METHOD', 'invalid_request'],
    ['ECONNRESET', undefined],
    ['ERR_SSL_HTTP_REQUEST', undefined],
  ])('are told so unless the client is gone: %s', (code, expected) => {
    expect(brokenRequestError(systemError(code))?.code).toBe(expected);
  });

  it('without any code are not answered', () => {
    expect(brokenRequestError(new Error('odd'))).toBe(undefined);
  });
});
