import { BridgeError, messageOf } from '../core/errors.ts';

const hostHint = 'Give an address of this computer in --http-host: 127.0.0.1, or 0.0.0.0 for every network.';

/** What the system's codes mean, and which setting mends it. */
const listenProblems: Readonly<Record<string, readonly [problem: string, hint: string]>> = {
  EADDRINUSE: [
    'the port is in use',
    'Stop the program that uses it, or choose another with --http-port (0 takes a free one).',
  ],
  EACCES: [
    'this user may not use the port',
    'Ports below 1024 usually need a privilege; choose another with --http-port.',
  ],
  EADDRNOTAVAIL: ['this computer has no such address', hostHint],
  EAFNOSUPPORT: ['this computer does not speak that kind of address', hostHint],
  EINVAL: ['this computer cannot use such an address', hostHint],
  ENOTFOUND: ['the host name is not known', hostHint],
  EAI_AGAIN: ['the host name cannot be looked up', hostHint],
};

/** Why listening failed. */
export function listenError({ host, port }: { host: string; port: number }, cause: unknown): BridgeError {
  const [problem, hint] = listenProblems[codeOf(cause)] ?? [messageOf(cause), 'Check --http-host and --http-port.'];
  return new BridgeError('listen_failed', `Cannot listen on ${host} port ${port}: ${problem}.`, { hint, cause });
}

/** What a client is told whose bytes are no request; undefined when its connection is gone. */
export function brokenRequestError(cause: Error): BridgeError | undefined {
  const code = codeOf(cause);
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new BridgeError('headers_too_large', 'The headers of the request are too long.', {
      hint: 'Raise --http-max-header-bytes, or send less in them.',
    });
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new BridgeError('request_timeout', 'The request did not arrive in time.', {
      hint: 'Raise --http-header-timeout-ms or --http-body-timeout-ms for slow clients.',
    });
  }
  if (!code.startsWith('HPE_')) return undefined;
  return new BridgeError('invalid_request', `The request is not HTTP/1.1: ${cause.message.replace(/\.?$/, '.')}`, {
    hint: 'A client that speaks HTTPS needs a server with --http-protocol https.',
  });
}

/** The system's or the parser's name of an error; empty when it has none. */
export function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
}
