const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;
/** Below this many bytes a plain loop beats the call into the native search. */
const nativeSearchFrom = 48;

/** A stretch of a buffer, end exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

function skipSpace(text: Buffer, from: number): number {
  let at = from;
  while (at < text.length) {
    const byte = text[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    at += 1;
  }
  return at;
}

function isEscaped(text: Buffer, at: number, opening: number): boolean {
  let backslashes = 0;
  for (let before = at - 1; before > opening && text[before] === backslash; before -= 1) backslashes += 1;
  return backslashes % 2 === 1;
}

/** Position after the closing quote of the string that opens at `from`; -1 if it does not end. */
function skipString(text: Buffer, from: number): number {
  const nearEnd = Math.min(text.length, from + nativeSearchFrom);
  let at = from + 1;
  while (at < nearEnd) {
    const byte = text[at];
    if (byte === quote) return at + 1;
    at += byte === backslash ? 2 : 1;
  }
  for (;;) {
    // A long string is searched natively for its next quote: this is what makes a 5 MB image cheap.
    const found = text.indexOf(quote, at);
    if (found === -1) return -1;
    if (!isEscaped(text, found, from)) return found + 1;
    at = found + 1;
  }
}

function skipNested(text: Buffer, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const byte = text[at];
    if (byte === quote) {
      at = skipString(text, at);
      if (at === -1) return -1;
      continue;
    }
    at += 1;
    if (byte === openBrace || byte === openBracket) depth += 1;
    else if (byte === closeBrace || byte === closeBracket) depth -= 1;
    if (depth === 0) return at;
  }
  return -1;
}

function skipScalar(text: Buffer, from: number): number {
  let at = from;
  while (at < text.length) {
    const byte = text[at];
    if (byte === comma || byte === closeBrace || byte === closeBracket || (byte !== undefined && byte <= 0x20)) break;
    at += 1;
  }
  return at === from ? -1 : at;
}

function skipValue(text: Buffer, from: number): number {
  const byte = text[from];
  if (byte === quote) return skipString(text, from);
  if (byte === openBrace || byte === openBracket) return skipNested(text, from);
  return skipScalar(text, from);
}

/** A text out of the buffer that is a JSON string with its quotes, decoded; undefined if it is not one. */
function stringAt(text: Buffer, span: Span): string | undefined {
  const inner = text.toString('utf8', span.start + 1, span.end - 1);
  if (!inner.includes('\\')) return inner;
  try {
    const decoded: unknown = JSON.parse(`"${inner}"`);
    return typeof decoded === 'string' ? decoded : undefined;
  } catch {
    // Not valid JSON: the caller treats the key or value as absent.
    return undefined;
  }
}

/**
 * The members of the object that starts at or after `from`, as spans of their values, without reading the values.
 * Undefined if the text there is no object or is broken; a repeated key keeps its last value, as `JSON.parse` does.
 */
export function scanObject(text: Buffer, from = 0): ReadonlyMap<string, Span> | undefined {
  const members = new Map<string, Span>();
  let at = skipSpace(text, from);
  if (text[at] !== openBrace) return undefined;
  at = skipSpace(text, at + 1);
  if (text[at] === closeBrace) return members;
  while (text[at] === quote) {
    const keyEnd = skipString(text, at);
    if (keyEnd === -1) return undefined;
    const key = stringAt(text, { start: at, end: keyEnd });
    const separator = skipSpace(text, keyEnd);
    if (key === undefined || text[separator] !== colon) return undefined;
    const start = skipSpace(text, separator + 1);
    const end = skipValue(text, start);
    if (end === -1) return undefined;
    members.set(key, { start, end });
    at = skipSpace(text, end);
    if (text[at] === closeBrace) return members;
    if (text[at] !== comma) return undefined;
    at = skipSpace(text, at + 1);
  }
  return undefined;
}

/** The elements of the array that starts at or after `from`, as spans; undefined if there is none or it is broken. */
export function scanArray(text: Buffer, from = 0): readonly Span[] | undefined {
  const elements: Span[] = [];
  let at = skipSpace(text, from);
  if (text[at] !== openBracket) return undefined;
  at = skipSpace(text, at + 1);
  if (text[at] === closeBracket) return elements;
  while (at < text.length) {
    const end = skipValue(text, at);
    if (end === -1) return undefined;
    elements.push({ start: at, end });
    at = skipSpace(text, end);
    if (text[at] === closeBracket) return elements;
    if (text[at] !== comma) return undefined;
    at = skipSpace(text, at + 1);
  }
  return undefined;
}

/** True when the first byte that is not white space opens an array. */
export function startsArray(text: Buffer): boolean {
  return text[skipSpace(text, 0)] === openBracket;
}

/** The value at a span, parsed; undefined if it is not JSON. */
export function parseSpan(text: Buffer, span: Span): unknown {
  try {
    return JSON.parse(text.toString('utf8', span.start, span.end)) as unknown;
  } catch {
    // Broken JSON is reported by the caller, who knows where it came from.
    return undefined;
  }
}

/** The string at a span, decoded; undefined if the value there is no string. */
export function stringOf(text: Buffer, span: Span | undefined): string | undefined {
  return span === undefined || text[span.start] !== quote ? undefined : stringAt(text, span);
}
