import { type Span, parseSpan, scanObject, stringOf } from './json-scan.ts';

/**
 * Up to this many bytes a line is parsed, so that what we pass on is known to be JSON; a longer one is only scanned, since
 * parsing costs with its size (16 KiB about 0.1 ms) and its body is nobody's business here.
 */
const parseUpToBytes = 16_384;

/** What the outside of a JSON-RPC message tells, with the line it came in. */
export interface Envelope {
  readonly line: Buffer;
  readonly kind: 'request' | 'notification' | 'response';
  readonly method: string | undefined;
  /** The id as JSON; undefined for a notification. */
  readonly idText: string | undefined;
  /** The whole message; undefined when the line is too long to be parsed. */
  readonly parsed: Readonly<Record<string, unknown>> | undefined;
}

/** Why a line is no message: not JSON, or JSON that is no JSON-RPC message. `idText` lets a refusal name the request. */
export interface BadLine {
  readonly bad: 'parse' | 'shape';
  readonly idText: string | undefined;
}

interface Outside {
  readonly method: string | undefined;
  readonly idText: string | undefined;
  readonly has: (member: string) => boolean;
}

function spanText(line: Buffer, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : line.toString('utf8', span.start, span.end);
}

function kindOf({ method, idText, has }: Outside): Envelope['kind'] | undefined {
  // An id that is neither a string nor a number, such as null, names no request.
  if (idText === undefined && has('id')) return undefined;
  if (method !== undefined) return idText === undefined ? 'notification' : 'request';
  const isAnswer = idText !== undefined && !has('method') && (has('result') || has('error'));
  return isAnswer ? 'response' : undefined;
}

function idTextOf(id: unknown, line: Buffer): string | undefined {
  if (typeof id === 'string') return JSON.stringify(id);
  if (typeof id !== 'number') return undefined;
  // Beyond 2^53 a parsed number is another one than was written.
  return Number.isSafeInteger(id) ? String(id) : spanText(line, scanObject(line)?.get('id'));
}

function readParsed(line: Buffer): Envelope | BadLine {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    return { bad: 'parse', idText: undefined };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { bad: 'shape', idText: undefined };
  const parsed = value as Readonly<Record<string, unknown>>;
  const method = typeof parsed['method'] === 'string' ? parsed['method'] : undefined;
  const idText = idTextOf(parsed['id'], line);
  const kind = kindOf({ method, idText, has: (member) => Object.hasOwn(parsed, member) });
  return kind === undefined ? { bad: 'shape', idText } : { line, kind, method, idText, parsed };
}

function readScanned(line: Buffer): Envelope | BadLine {
  const members = scanObject(line);
  if (members === undefined) return { bad: 'parse', idText: undefined };
  const method = stringOf(line, members.get('method'));
  const written = spanText(line, members.get('id'));
  const idText = written !== undefined && /^["\d-]/.test(written) ? written : undefined;
  const kind = kindOf({ method, idText, has: (member) => members.has(member) });
  return kind === undefined ? { bad: 'shape', idText } : { line, kind, method, idText, parsed: undefined };
}

/** Reads the outside of one line. */
export function readEnvelope(line: Buffer): Envelope | BadLine {
  return line.length <= parseUpToBytes ? readParsed(line) : readScanned(line);
}

/** A key under which both sides' spelling of one id is the same: `1`, `1.0` and `1e0` are one id, `1` and `"1"` are two. */
export function idKey(idText: string): string {
  if (!idText.startsWith('"')) return `n${Number(idText)}`;
  if (!idText.includes('\\')) return `s${idText.slice(1, -1)}`;
  try {
    return `s${String(JSON.parse(idText))}`;
  } catch {
    // Broken escapes inside a line too long to be checked: the spelling itself is the key.
    return `s${idText}`;
  }
}

/** The parameters, parsed; undefined when there are none. */
export function paramsOf(envelope: Envelope): Readonly<Record<string, unknown>> | undefined {
  const { line, parsed } = envelope;
  const span = parsed === undefined ? scanObject(line)?.get('params') : undefined;
  const params = span === undefined ? parsed?.['params'] : parseSpan(line, span);
  return typeof params === 'object' && params !== null ? (params as Record<string, unknown>) : undefined;
}

/** The text of an answer's result, as it came; undefined for an error. */
export function resultOf(answer: Envelope): Buffer | undefined {
  const span = scanObject(answer.line)?.get('result');
  return span === undefined ? undefined : answer.line.subarray(span.start, span.end);
}

/** The name that a `tools/call` asks for; of a long line without reading its arguments. */
export function toolNameOf(envelope: Envelope): string | undefined {
  if (envelope.parsed !== undefined) {
    const name = paramsOf(envelope)?.['name'];
    return typeof name === 'string' ? name : undefined;
  }
  const params = scanObject(envelope.line)?.get('params');
  return params === undefined
    ? undefined
    : stringOf(envelope.line, scanObject(envelope.line, params.start)?.get('name'));
}

/** The progress token that a request asks to be told under; undefined when it asks for no progress. */
export function progressTokenOf(request: Envelope): string | number | undefined {
  const meta = paramsOf(request)?.['_meta'];
  const token = typeof meta === 'object' && meta !== null && 'progressToken' in meta ? meta.progressToken : undefined;
  return typeof token === 'string' || typeof token === 'number' ? token : undefined;
}

/** The line with another id in the place of its own, everything else byte for byte. */
export function withId(envelope: Envelope, idText: string): readonly (Buffer | string)[] {
  const { line } = envelope;
  const span = envelope.idText === idText ? undefined : scanObject(line)?.get('id');
  return span === undefined ? [line] : [line.subarray(0, span.start), idText, line.subarray(span.end)];
}
