import { type ErrorCode, errorTable } from '../core/errors.ts';

const mends: Readonly<Record<ErrorCode, string>> = {
  usage: 'Correct what the lines on stderr name; `--help` lists every flag.',
  config: 'Correct the settings that the message names, see [options](options.md), then restart the client.',
  binary_path: 'Let `--binary-path` or `CLOAKBROWSER_BINARY_PATH` name an existing, executable browser, or remove it.',
  platform: 'Give a Chromium of your own with `--binary-path`, or use `--browser-engine playwright`.',
  licence: 'Check `CLOAKBROWSER_LICENSE_KEY`, or unset it to use the free browser.',
  download_network:
    'Check that this computer reaches the download server, then call again; or give a browser with `--binary-path`.',
  download_missing: 'Check `--browser-version` and `--release-channel`; without them the current release is used.',
  download_stalled: 'Call again, the download starts anew; raise `--stall-timeout-ms` on a slow network.',
  download_corrupt:
    'Call again, the download starts anew; if it fails again, look for a proxy or filter that changes downloads.',
  folder_unwritable: 'Make the folder in the message writable, or name another one by the option in the message.',
  upstream_missing: 'Install the package again, or correct `--upstream-cli`.',
  child_start_failed: 'Read the stderr lines in the message; `cloakbrowser-mcp doctor` tries the same start.',
  child_start_timeout: 'Call again; raise `--restart-timeout-ms` on a slow computer.',
  child_lost: 'Call again: a new browser is started. Check first whether the lost call took effect.',
  start_pending: 'Call again when the browser is ready; the message says what is still going on.',
  restart_limited: 'Wait a minute and call again; the message holds the reason of the last failure.',
  method_not_found: 'Ask only for what the answer to `initialize` offers.',
  message_too_large: 'Ask for less, for example a smaller screenshot, or raise `--max-message-bytes`.',
  closing: 'Nothing to mend; start a new session.',
  no_answer: 'Let the client answer requests such as `roots/list`, or raise `--roots-timeout-ms`.',
  not_initialized: 'Let the client send `initialize` first.',
  invalid_request: 'Let the client send JSON-RPC 2.0 requests with an id of their own each.',
  parse_error: 'Let the client send one JSON message a line.',
  listen_failed: 'Choose another `--http-port` or `--http-host`, or end the program that uses it.',
  tls: 'Correct `--https-cert` and `--https-key`, or `--https-pfx`, and `--https-passphrase`.',
  http_path: 'Send MCP requests to the address that the server prints when it starts (`--http-endpoint`).',
  http_method: 'Use a method that the `Allow` header of the answer names.',
  host_refused: 'Add the name to `--http-allowed-hosts`, or address the server by a name that is allowed.',
  origin_refused: 'Add the page to `--http-allowed-origins` if it may use this server.',
  unauthorized: 'Send `Authorization: Bearer` with a token of `--http-auth-token` or `--http-auth-token-file`.',
  session_missing: 'Send `initialize` first, and its `Mcp-Session-Id` header with every later request.',
  session_unknown: 'Start a new session with `initialize`, without a session id.',
  not_acceptable: 'Send `Accept: application/json, text/event-stream` (for a GET `text/event-stream`).',
  media_type: 'Send `Content-Type: application/json`.',
  headers_too_large: 'Send shorter headers, or raise `--http-max-header-bytes`.',
  request_timeout: 'Send faster, or raise `--http-header-timeout-ms` or `--http-body-timeout-ms`.',
  protocol_version: 'Send the version that `initialize` answered with.',
  sessions_full:
    'Try again after the seconds in `Retry-After`; end sessions with DELETE, or raise `--http-session-max`.',
  token_full: 'End sessions with DELETE, or raise `--http-session-max-per-token`.',
  calls_full: 'Wait for answers before sending more, or raise `--http-session-max-calls`.',
  memory_low: 'Try again later; free memory, lower `--http-session-max`, or lower `--http-min-free-memory`.',
  draining: 'Try again after the seconds in `Retry-After`; another replica or the next start takes new sessions.',
  replay_gone: 'Repeat what is still needed; raise `--http-replay-events` and `--http-replay-bytes` to keep more.',
  session_setting: 'Correct what the message names; `--session-settings` decides what clients may set.',
  file_unknown: 'Use a path as the results name it; `--http-files` switches file download on.',
  server_unreachable: 'Check that the server runs, and its address and token.',
  cdp_start_failed: 'Call again; the message says which part failed. `--no-cdp` does without managed CDP.',
  cdp_ports_busy:
    'Give a wider `--cdp-port-range`, end what holds the ports, or correct `--cdp-host`; then call again.',
  browser_lost: 'Call again: a new browser is started. Check first whether the lost call took effect.',
  internal: 'Run again with `--log-level debug` and report the log.',
};

/** `docs/reference/errors.md`. */
export function errorsPage(): string {
  const rows = (Object.keys(errorTable) as ErrorCode[]).map((code) => {
    const { fault, exit, http, rpc, when } = errorTable[code];
    return `| \`${code}\` | ${fault} | ${String(exit)} | ${String(http)} | ${String(rpc)} | ${when} | ${mends[code]} |`;
  });
  return `${[
    '# Errors',
    'Written from the code by `npm run docs`; do not edit.',
    "The fault says whose error it is: the `user`'s input, the `host` the bridge runs on, or the `bridge` itself. The exit code is that of the program when the error ends it. A tool call that fails for such a reason gets a result with `isError` and plain text; other requests get a JSON-RPC error with the code below and the name in `data.reason`. The HTTP status is that of a request that the Streamable HTTP server refuses, with the same JSON-RPC error as its body; once an answer has begun, errors travel inside it.",
    [
      '| Code | Fault | Exit | HTTP | JSON-RPC | When | How to mend it |',
      '| --- | --- | --- | --- | --- | --- | --- |',
      ...rows,
    ].join('\n'),
  ].join('\n\n')}\n`;
}
