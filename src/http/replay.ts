import type { LineParts } from '../core/framing.ts';
import { type Frame, lengthOf, messageFrame } from './sse-frame.ts';

interface Kept {
  readonly stream: number;
  readonly place: number;
  readonly frame: Frame;
  readonly bytes: number;
}

interface Known {
  kept: number;
  /** Place of the newest event that is no longer kept. */
  lastDropped: number;
  /** Nothing more will come on it. */
  isFinished: boolean;
}

/** Cancelled requests that a client may still ask for; it does so within seconds. */
const maxWithdrawn = 100;

/** How much a session keeps for a client that lost a stream. */
export interface ReplayLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/**
 * The last events of a session's streams, for a client that comes back with the id of the last one that it got. An id
 * holds the number of its stream and its place among all events of the session (MCP 2025-11-25, resumability).
 */
export class Replay {
  readonly #limits: ReplayLimits;
  /** In the order of their places. */
  #events: Kept[] = [];
  #bytes = 0;
  #place = 0;
  readonly #streams = new Map<number, Known>();
  /** Streams of cancelled requests, the oldest first. */
  readonly #withdrawn = new Set<number>();

  constructor(limits: ReplayLimits) {
    this.#limits = limits;
  }

  /** Begins a stream, or goes on with it; the id stands before its first event. */
  open(stream: number): string {
    if (!this.#streams.has(stream)) this.#streams.set(stream, { kept: 0, lastDropped: -1, isFinished: false });
    return this.#nextId(stream);
  }

  /** Makes an event of a message and keeps it. One that is too large is kept as what `substitute` makes. */
  add(stream: number, parts: LineParts, substitute?: () => LineParts): Frame {
    const id = this.#nextId(stream);
    const frame = messageFrame(id, parts);
    if (lengthOf(frame) <= this.#limits.maxBytes) this.#keep(stream, frame);
    else if (substitute !== undefined) this.#keep(stream, messageFrame(id, substitute()));
    else this.#noteDropped(stream, this.#place);
    return frame;
  }

  /** Nothing more will come on the stream. */
  finish(stream: number): void {
    const known = this.#streams.get(stream);
    if (known === undefined) return;
    known.isFinished = true;
    this.#forgetEmpty(stream, known);
  }

  /** The client wants nothing of the stream any more. */
  withdraw(stream: number): void {
    for (const event of this.#events) if (event.stream === stream) this.#bytes -= event.bytes;
    this.#events = this.#events.filter((event) => event.stream !== stream);
    this.#streams.delete(stream);
    this.#withdrawn.add(stream);
    for (const oldest of this.#withdrawn) {
      if (this.#withdrawn.size <= maxWithdrawn) return;
      this.#withdrawn.delete(oldest);
    }
  }

  /** True if nothing is to be had on the stream of this event, and nothing was lost by that. */
  isOver(eventId: string): boolean {
    const stream = Number(/^(\d{1,15})-\d{1,15}$/.exec(eventId)?.[1] ?? Number.NaN);
    if (this.#withdrawn.has(stream)) return true;
    return this.#streams.get(stream)?.isFinished === true && this.after(eventId)?.frames.length === 0;
  }

  /** The stream of an event and what came on it later; undefined when that is no longer known in full. */
  after(eventId: string): { readonly stream: number; readonly frames: readonly Frame[] } | undefined {
    const [, streamText = '', placeText = ''] = /^(\d{1,15})-(\d{1,15})$/.exec(eventId) ?? [];
    const [stream, place] = [Number(streamText), Number(placeText)];
    const known = streamText === '' ? undefined : this.#streams.get(stream);
    if (known === undefined || place > this.#place || known.lastDropped > place) return undefined;
    const frames = this.#events.filter((event) => event.stream === stream && event.place > place);
    return { stream, frames: frames.map(({ frame }) => frame) };
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  #nextId(stream: number): string {
    this.#place += 1;
    return `${stream}-${this.#place}`;
  }

  #keep(stream: number, frame: Frame): void {
    const bytes = lengthOf(frame);
    this.#events.push({ stream, place: this.#place, frame, bytes });
    this.#bytes += bytes;
    const known = this.#streams.get(stream);
    if (known !== undefined) known.kept += 1;
    while (this.#events.length > this.#limits.maxEvents || this.#bytes > this.#limits.maxBytes) this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#events.shift();
    if (oldest === undefined) return;
    this.#bytes -= oldest.bytes;
    const known = this.#streams.get(oldest.stream);
    if (known === undefined) return;
    known.kept -= 1;
    this.#noteDropped(oldest.stream, oldest.place);
    this.#forgetEmpty(oldest.stream, known);
  }

  #noteDropped(stream: number, place: number): void {
    const known = this.#streams.get(stream);
    if (known !== undefined) known.lastDropped = Math.max(known.lastDropped, place);
  }

  #forgetEmpty(stream: number, known: Known): void {
    if (known.isFinished && known.kept === 0) this.#streams.delete(stream);
  }
}
