/** Whose error it is: the user's input, the host the bridge runs on, or the bridge itself. */
export type Fault = 'user' | 'host' | 'bridge';

/** What is known of an error besides its name. */
export interface ErrorKind {
  readonly fault: Fault;
  /** Exit code of the program when the error ends it. */
  readonly exit: number;
  /** Status of an HTTP answer. */
  readonly http: number;
  /** JSON-RPC code; -32010 to -32019 are ours, the rest are JSON-RPC's own. */
  readonly rpc: number;
  /** One sentence for the reference page: when a user meets this error. */
  readonly when: string;
}

/** Errors of the HTTP server and what it refuses; part of the closed list in `errors.ts`. */
export const httpErrors = {
  listen_failed: {
    fault: 'host',
    exit: 1,
    http: 500,
    rpc: -32603,
    when: 'The HTTP server cannot listen on the given address and port.',
  },
  tls: { fault: 'user', exit: 2, http: 500, rpc: -32603, when: 'The certificate or key for HTTPS cannot be used.' },
  http_path: {
    fault: 'user',
    exit: 1,
    http: 404,
    rpc: -32600,
    when: 'An HTTP request names a path that is not served.',
  },
  http_method: {
    fault: 'user',
    exit: 1,
    http: 405,
    rpc: -32600,
    when: 'An HTTP request uses a method that its path does not take.',
  },
  host_refused: {
    fault: 'user',
    exit: 1,
    http: 403,
    rpc: -32600,
    when: 'The Host header of an HTTP request names a host that is not allowed.',
  },
  origin_refused: {
    fault: 'user',
    exit: 1,
    http: 403,
    rpc: -32600,
    when: 'The Origin header of an HTTP request names a web page that is not allowed.',
  },
  unauthorized: {
    fault: 'user',
    exit: 1,
    http: 401,
    rpc: -32600,
    when: 'An HTTP request carries no bearer token, or one that is not known.',
  },
  session_missing: {
    fault: 'user',
    exit: 1,
    http: 400,
    rpc: -32600,
    when: 'An HTTP request other than initialize carries no Mcp-Session-Id header.',
  },
  session_unknown: {
    fault: 'user',
    exit: 1,
    http: 404,
    rpc: -32018,
    when: 'The session of an HTTP request has ended, was never here, or belongs to another token.',
  },
  not_acceptable: {
    fault: 'user',
    exit: 1,
    http: 406,
    rpc: -32600,
    when: 'The Accept header of an HTTP request leaves out a content type that the answer needs.',
  },
  media_type: {
    fault: 'user',
    exit: 1,
    http: 415,
    rpc: -32600,
    when: 'The body of an HTTP request is announced as something else than application/json.',
  },
  headers_too_large: {
    fault: 'user',
    exit: 1,
    http: 431,
    rpc: -32600,
    when: 'The headers of an HTTP request are longer than --http-max-header-bytes.',
  },
  request_timeout: {
    fault: 'user',
    exit: 1,
    http: 408,
    rpc: -32600,
    when: 'The headers or the body of an HTTP request did not arrive in time.',
  },
  protocol_version: {
    fault: 'user',
    exit: 1,
    http: 400,
    rpc: -32600,
    when: 'The MCP-Protocol-Version header of an HTTP request names a revision that is not spoken here.',
  },
  sessions_full: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32016,
    when: 'As many sessions are open as --http-session-max allows.',
  },
  token_full: {
    fault: 'user',
    exit: 1,
    http: 429,
    rpc: -32016,
    when: 'As many sessions of one token are open as --http-session-max-per-token allows.',
  },
  calls_full: {
    fault: 'user',
    exit: 1,
    http: 429,
    rpc: -32016,
    when: 'As many requests of one session wait for their answers as --http-session-max-calls allows.',
  },
  memory_low: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32016,
    when: 'Less memory is free than --http-min-free-memory asks for before a session is opened.',
  },
  draining: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32016,
    when: 'The server is about to end and opens no new sessions.',
  },
  replay_gone: {
    fault: 'user',
    exit: 1,
    http: 400,
    rpc: -32600,
    when: 'The events after the Last-Event-ID of a request are no longer kept.',
  },
  session_setting: {
    fault: 'user',
    exit: 1,
    http: 400,
    rpc: -32602,
    when: 'A setting that a client gave with initialize is not known, not allowed or not valid.',
  },
  file_unknown: {
    fault: 'user',
    exit: 1,
    http: 404,
    rpc: -32600,
    when: 'The session has no such file, or file download is not switched on.',
  },
  server_unreachable: {
    fault: 'host',
    exit: 1,
    http: 502,
    rpc: -32603,
    when: 'The status command cannot reach a running server, or is refused by it.',
  },
} as const satisfies Record<string, ErrorKind>;
