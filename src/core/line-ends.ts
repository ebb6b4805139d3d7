/** Bytes at either end of a large answer that are looked at. */
const endBytes = 512;
const idMember = /"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*)/;
/** The first member that tells what a message is, after those that every message has. */
const tellingMember =
  /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*)\s*,\s*)?(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(method|params|result|error)"\s*:/;

/** What the beginning of a message tells of it: an answer, or a request or notification; undefined if it tells nothing. */
export function kindOfCutLine(head: Buffer): 'answer' | 'message' | undefined {
  const member = tellingMember.exec(head.toString('latin1'))?.[1];
  if (member === undefined) return undefined;
  return member === 'result' || member === 'error' ? 'answer' : 'message';
}

/**
 * The id of a large answer from its two ends alone: undefined unless it begins as an answer does, with its id before
 * the result or as its last member. Everything else is to be joined and read.
 */
export function idOfLargeAnswer(chunks: readonly Buffer[]): string | undefined {
  const head = Buffer.concat(chunks.slice(0, 2).map((chunk) => chunk.subarray(0, endBytes))).subarray(0, endBytes);
  // The last chunk may hold no more than the closing brace; the one before it is then long enough.
  const tail = Buffer.concat(chunks.slice(-2).map((chunk) => chunk.subarray(-endBytes))).subarray(-endBytes);
  return kindOfCutLine(head) === 'answer' ? idOfCutLine(head, tail) : undefined;
}

/** The id of a message of which only the beginning and the end were kept; servers write it in one of the two places. */
export function idOfCutLine(head: Buffer, tail: Buffer): string | undefined {
  const ending = tail.toString('latin1');
  const lastMember = ending.lastIndexOf('"id"');
  const fromTail = lastMember === -1 ? null : idMember.exec(ending.slice(lastMember));
  // At the end the id must be followed by nothing but the closing of the message, else it belongs to the body.
  if (
    fromTail?.[1] !== undefined &&
    /^\s*(,"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.test(ending.slice(lastMember + fromTail[0].length))
  ) {
    return fromTail[1];
  }
  const beginning = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?/.exec(head.toString('latin1'));
  if (beginning === null) return undefined;
  const fromHead = idMember.exec(head.toString('latin1').slice(beginning[0].length));
  return fromHead?.index === 0 ? fromHead[1] : undefined;
}
