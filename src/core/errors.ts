import { cdpErrors } from './cdp-errors.ts';
import { type ErrorKind, httpErrors } from './http-errors.ts';

/** Every error the bridge can report. The closed list is the source of `docs/reference/errors.md`. */
export const errorTable = {
  usage: {
    fault: 'user',
    exit: 2,
    http: 400,
    rpc: -32602,
    when: 'The command line cannot be parsed or names a value that is not allowed.',
  },
  config: {
    fault: 'user',
    exit: 2,
    http: 400,
    rpc: -32010,
    when: 'A setting from the environment or from a file is not valid.',
  },
  binary_path: {
    fault: 'user',
    exit: 1,
    http: 500,
    rpc: -32011,
    when: 'The browser named by a path does not exist or cannot be executed.',
  },
  platform: {
    fault: 'host',
    exit: 1,
    http: 500,
    rpc: -32011,
    when: 'CloakBrowser has no build for this operating system and processor.',
  },
  licence: {
    fault: 'user',
    exit: 1,
    http: 500,
    rpc: -32011,
    when: 'The CloakBrowser licence key was refused or could not be checked.',
  },
  download_network: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32011,
    when: 'The browser could not be downloaded because the server was not reached or broke off.',
  },
  download_missing: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32011,
    when: 'The download server has no such browser archive.',
  },
  download_stalled: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32011,
    when: 'The browser download sent no byte for the stall limit.',
  },
  download_corrupt: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32011,
    when: 'The downloaded archive is damaged or fails its checksum or signature.',
  },
  folder_unwritable: {
    fault: 'host',
    exit: 1,
    http: 500,
    rpc: -32011,
    when: 'A folder that the bridge needs cannot be created or written.',
  },
  upstream_missing: {
    fault: 'host',
    exit: 1,
    http: 500,
    rpc: -32012,
    when: 'The upstream program is not installed or the given path is not one.',
  },
  child_start_failed: {
    fault: 'host',
    exit: 1,
    http: 500,
    rpc: -32013,
    when: 'The upstream process ended before it answered initialize.',
  },
  child_start_timeout: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32013,
    when: 'The upstream process did not answer initialize in time.',
  },
  child_lost: {
    fault: 'host',
    exit: 1,
    http: 502,
    rpc: -32014,
    when: 'The upstream process ended while a call was with it.',
  },
  start_pending: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32015,
    when: 'A call waited its limit while the browser was still being made ready.',
  },
  restart_limited: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32016,
    when: 'Too many starts failed in the last minute, so no new one is tried until it has passed.',
  },
  message_too_large: {
    fault: 'user',
    exit: 1,
    http: 413,
    rpc: -32017,
    when: 'A message is longer than --max-message-bytes.',
  },
  closing: {
    fault: 'bridge',
    exit: 1,
    http: 503,
    rpc: -32018,
    when: 'A call arrived or was waiting while the session was ending.',
  },
  no_answer: {
    fault: 'host',
    exit: 1,
    http: 504,
    rpc: -32019,
    when: 'The client did not answer a request of the upstream process in time.',
  },
  not_initialized: { fault: 'user', exit: 1, http: 400, rpc: -32601, when: 'A request arrived before initialize.' },
  method_not_found: {
    fault: 'user',
    exit: 1,
    http: 404,
    rpc: -32601,
    when: 'A request asks for something that upstream does not offer, while no upstream process runs that could say so.',
  },
  invalid_request: {
    fault: 'user',
    exit: 1,
    http: 400,
    rpc: -32600,
    when: 'A message is no JSON-RPC request or uses an id that is still in use.',
  },
  parse_error: { fault: 'user', exit: 1, http: 400, rpc: -32700, when: 'A line from the client is not JSON.' },
  ...httpErrors,
  ...cdpErrors,
  internal: {
    fault: 'bridge',
    exit: 1,
    http: 500,
    rpc: -32603,
    when: 'The bridge failed in a way that it has no name for.',
  },
} as const satisfies Record<string, ErrorKind>;

/** Name of an error, as printed and as found in the reference page. */
export type ErrorCode = keyof typeof errorTable;

interface ErrorParts {
  /** How to mend it, for the person who reads the message. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  /** Further facts for `data` of a JSON-RPC error; never a secret. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** The one error class: a code out of the closed list, a message and a way to mend it. */
export class BridgeError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, parts: ErrorParts = {}) {
    super(message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = 'BridgeError';
    this.code = code;
    this.hint = parts.hint;
    this.data = parts.data ?? {};
  }
}

/** The text of anything thrown, without a stack trace. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Anything thrown as a `BridgeError`; what is not one already becomes `internal`. */
export function toBridgeError(thrown: unknown): BridgeError {
  return thrown instanceof BridgeError ? thrown : new BridgeError('internal', messageOf(thrown), { cause: thrown });
}

/** Message and mend in one paragraph, as a person or a model reads it. */
export function describeError(error: BridgeError): string {
  return error.hint === undefined ? error.message : `${error.message}\n${error.hint}`;
}
