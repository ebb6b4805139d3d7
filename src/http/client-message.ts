import { BridgeError } from '../core/errors.ts';
import { isRecord } from '../core/record.ts';
import type { Question } from './exchange.ts';

/** More messages in one body than any client sends; the limit of SDK 1.32. */
const maxBatch = 100;
const newline = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;

type Fields = Readonly<Record<string, unknown>>;

/** A message of a client, as it came and as it is understood. */
export interface ClientMessage {
  readonly kind: 'request' | 'notification' | 'response';
  readonly method: string;
  /** The id of a request as JSON. */
  readonly idText: string | undefined;
  readonly fields: Fields;
}

/** What a body holds: its messages, and for one alone its bytes as one line. */
export interface ClientBody {
  readonly messages: readonly ClientMessage[];
  readonly isBatch: boolean;
  readonly line: Buffer;
}

/** Reads the body of a POST. Throws `parse_error` or `invalid_request`. */
export function readClientBody(body: Buffer): ClientBody {
  const value = parse(body);
  if (!Array.isArray(value)) return { messages: [readMessage(value)], isBatch: false, line: toLine(body) };
  const elements: readonly unknown[] = value;
  if (elements.length === 0 || elements.length > maxBatch) {
    throw new BridgeError(
      'invalid_request',
      `The batch has ${elements.length} messages; 1 to ${maxBatch} are allowed.`,
    );
  }
  const messages = elements.map(readMessage);
  if (messages.some(({ method }) => method === 'initialize')) {
    throw new BridgeError('invalid_request', 'initialize must be sent alone, not in a batch.');
  }
  return { messages, isBatch: true, line: toLine(body) };
}

/** The id of the first request of a body as JSON, for the answer when it is refused as a whole. */
export function firstIdOf({ messages }: ClientBody): string | undefined {
  return messages.find(({ idText }) => idText !== undefined)?.idText;
}

/** The requests among messages, as their answers are waited for. */
export function questionsOf(messages: readonly ClientMessage[]): readonly Question[] {
  return messages.flatMap(({ idText, method, fields }) =>
    idText === undefined ? [] : [{ idText, method, progressToken: progressTokenIn(fields['params']) }],
  );
}

function progressTokenIn(params: unknown): string | number | undefined {
  const meta = isRecord(params) ? params['_meta'] : undefined;
  const token = isRecord(meta) ? meta['progressToken'] : undefined;
  return typeof token === 'string' || typeof token === 'number' ? token : undefined;
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    // Without the failure as a cause: its message quotes the body.
    throw new BridgeError('parse_error', 'The request body is not JSON in UTF-8.');
  }
}

function readMessage(value: unknown): ClientMessage {
  const message = isRecord(value) && value['jsonrpc'] === '2.0' ? classify(value) : undefined;
  if (message !== undefined) return message;
  throw new BridgeError('invalid_request', 'The request body is JSON, but no JSON-RPC 2.0 message.', {
    hint: 'A request has "jsonrpc": "2.0", a method, and a string or a number as its id.',
  });
}

function classify(fields: Fields): ClientMessage | undefined {
  const { id, method } = fields;
  // A number beyond what a double holds is read as infinite: no answer could name it.
  const hasId = typeof id === 'string' || (typeof id === 'number' && Number.isFinite(id));
  if (typeof method === 'string') {
    if (hasId) return { kind: 'request', method, idText: JSON.stringify(id), fields };
    return id === undefined ? { kind: 'notification', method, idText: undefined, fields } : undefined;
  }
  const isAnswer = method === undefined && hasId && ('result' in fields || 'error' in fields);
  return isAnswer ? { kind: 'response', method: '', idText: undefined, fields } : undefined;
}

/** A line break can only stand between two tokens of JSON, where a space means the same; a child reads by lines. */
function toLine(body: Buffer): Buffer {
  if (!body.includes(newline) && !body.includes(carriageReturn)) return body;
  const line = Buffer.from(body);
  for (const end of [newline, carriageReturn]) {
    for (let at = line.indexOf(end); at !== -1; at = line.indexOf(end, at)) line[at] = space;
  }
  return line;
}
