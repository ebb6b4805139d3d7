import { Channel } from '../../../src/http/channel.ts';
import { HttpSession, type HttpSessionParts } from '../../../src/http/http-session.ts';
import type { Session } from '../../../src/session/session.ts';

export interface HttpSessionBed {
  readonly session: HttpSession;
  /** Lines that reached the session below. */
  readonly lines: string[];
  /** What the session's end did, in order. */
  readonly ended: string[];
  /** How many calls were sent to a child. */
  calls: number;
  /** Bytes that wait for the child. */
  unreadBytes: number;
  /** What the session below does with a line; nothing unless the test says otherwise. */
  onLine: (line: string) => void;
}

/** A session over HTTP whose inside is the test's. */
export function makeSessionBed(some: Partial<HttpSessionParts> = {}): HttpSessionBed {
  const [lines, ended]: [string[], string[]] = [[], []];
  const nothing = (): void => undefined;
  const { id = 'the-session' } = some;
  const channel = new Channel({
    sessionId: id,
    logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    streams: { keepAliveMs: 0, writeTimeoutMs: 1000 },
    replay: { maxEvents: 100, maxBytes: 10_000 },
    retryMs: 1000,
    meter: { answered: nothing, sent: nothing },
    onAbandoned: nothing,
  });
  const inside = {
    accept: (line: Buffer) => {
      lines.push(line.toString());
      bed.onLine(line.toString());
    },
    get unreadBytes(): number {
      return bed.unreadBytes;
    },
    relay: {
      get forwarded(): number {
        return bed.calls;
      },
    },
  };
  const session = new HttpSession({
    id,
    owner: 'owner',
    now: 5,
    client: { name: 'a client', version: '1' },
    channel,
    session: inside as unknown as Session,
    end: () => {
      ended.push(`with ${channel.inFlight} in flight`);
      return Promise.resolve().then(() => void ended.push('done'));
    },
    folders: () => [],
    workspace: () => undefined,
    passesRoots: false,
    ...some,
  });
  const bed: HttpSessionBed = { session, lines, ended, calls: 0, unreadBytes: 0, onLine: nothing };
  return bed;
}
