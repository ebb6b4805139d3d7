import type { LineParts } from '../core/framing.ts';

const carriageReturn = 0x0d;
const space = 0x20;
/** Up to here one copy is cheaper than one more write. */
const joinBelowBytes = 65_536;

/** Revision from which on clients know events that carry no message (MCP 2025-11-25). */
const primedSince = '2025-11-25';

/** What is written to an event stream for one event. */
export type Frame = readonly Buffer[];

/** A comment: clients pass over it, and everything between takes it for life. */
export const commentFrame: Frame = [Buffer.from(':\n\n')];

/**
 * A message as an event. A carriage return would end the event's line; in JSON it can only stand between two tokens,
 * so that a space means the same there.
 */
export function messageFrame(eventId: string, parts: LineParts): Frame {
  const pieces = [Buffer.from(`event: message\nid: ${eventId}\ndata: `), ...parts.map(toLine), Buffer.from('\n\n')];
  const bytes = lengthOf(pieces);
  return bytes < joinBelowBytes ? [Buffer.concat(pieces, bytes)] : pieces;
}

/** True if clients of this protocol version know events that carry no message; undefined is an older one. */
export function knowsPriming(version: string | undefined): boolean {
  return version !== undefined && version >= primedSince;
}

/** The event that only tells a client where it stands and when to come back after a break (MCP 2025-11-25). */
export function primingFrame(eventId: string, retryMs: number): Frame {
  return [Buffer.from(`id: ${eventId}\nretry: ${retryMs}\ndata: \n\n`)];
}

/** Length of a frame in bytes. */
export function lengthOf(frame: Frame): number {
  return frame.reduce((sum, { length }) => sum + length, 0);
}

function toLine(part: string | Buffer): Buffer {
  const bytes = typeof part === 'string' ? Buffer.from(part) : part;
  if (!bytes.includes(carriageReturn)) return bytes;
  const cleaned = Buffer.from(bytes);
  for (let at = cleaned.indexOf(carriageReturn); at !== -1; at = cleaned.indexOf(carriageReturn, at))
    cleaned[at] = space;
  return cleaned;
}
