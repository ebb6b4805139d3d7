import { BridgeError, describeError, errorTable } from '../core/errors.ts';
import type { LineParts } from '../core/framing.ts';

/** The line that answers a request with a result. `resultText` is JSON. */
export function resultLine(idText: string, resultText: string): LineParts {
  return [`{"jsonrpc":"2.0","id":${idText},"result":${resultText}}`];
}

/** The line that answers a request with a JSON-RPC error; the reason and the way to mend it are in `data`. */
export function errorLine(idText: string | undefined, error: BridgeError): LineParts {
  const data = { reason: error.code, ...(error.hint === undefined ? {} : { hint: error.hint }), ...error.data };
  const body = { code: errorTable[error.code].rpc, message: error.message, data };
  return [`{"jsonrpc":"2.0","id":${idText ?? 'null'},"error":${JSON.stringify(body)}}`];
}

/** The line that answers a request that failed for our reasons: a tool call gets a result that the model can read. */
export function failureLine(idText: string, method: string, error: BridgeError): LineParts {
  if (method !== 'tools/call') return errorLine(idText, error);
  const result = { content: [{ type: 'text', text: describeError(error) }], isError: true };
  return resultLine(idText, JSON.stringify(result));
}

/** The line of a notification. */
export function notificationLine(method: string, params?: Readonly<Record<string, unknown>>): LineParts {
  return [JSON.stringify({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })];
}

/** What a message over the limit is answered with. */
export function tooLargeError(what: string, bytes: number, maxBytes: number): BridgeError {
  return new BridgeError('message_too_large', `${what} has ${bytes} bytes; the limit is ${maxBytes}.`, {
    hint: 'Raise --max-message-bytes, or ask for less at once (a smaller screenshot, a part of the page).',
    data: { bytes, maxBytes },
  });
}

/** Why a line is refused that is no message. */
export function badLineError(bad: 'parse' | 'shape'): BridgeError {
  return bad === 'parse'
    ? new BridgeError('parse_error', 'The line is not JSON.')
    : new BridgeError('invalid_request', 'The line is JSON, but no JSON-RPC message with a string or number id.');
}
