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
  internal: 'Run again with `--log-level debug` and report the log.',
};

/** `docs/reference/errors.md`. */
export function errorsPage(): string {
  const rows = (Object.keys(errorTable) as ErrorCode[]).map((code) => {
    const { fault, exit, rpc, when } = errorTable[code];
    return `| \`${code}\` | ${fault} | ${String(exit)} | ${String(rpc)} | ${when} | ${mends[code]} |`;
  });
  return `${[
    '# Errors',
    'Written from the code by `npm run docs`; do not edit.',
    "The fault says whose error it is: the `user`'s input, the `host` the bridge runs on, or the `bridge` itself. The exit code is that of the program when the error ends it. A tool call that fails for such a reason gets a result with `isError` and plain text; other requests get a JSON-RPC error with the code below and the name in `data.reason`.",
    [
      '| Code | Fault | Exit | JSON-RPC | When | How to mend it |',
      '| --- | --- | --- | --- | --- | --- |',
      ...rows,
    ].join('\n'),
  ].join('\n\n')}\n`;
}
