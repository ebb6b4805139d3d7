import { Channel, type ChannelParts } from '../../../src/http/channel.ts';
import type { LineParts } from '../../../src/core/framing.ts';
import type { Told } from '../../../src/relay/client-port.ts';
import { type Peer, makePeer } from './peer-bed.ts';

export interface ChannelBed {
  readonly channel: Channel;
  /** Method, delivered or not, of each answer that the meter was told of. */
  readonly answered: [string, boolean][];
  readonly logged: string[];
  readonly abandoned: () => number;
  readonly sentBytes: () => number;
  /** A POST with requests of these ids, all of the same method. */
  post(
    ids: readonly (string | number)[],
    some?: { method?: string; token?: string | number; isPrimed?: boolean },
  ): Peer;
  /** A GET that listens, or goes on after an event. */
  listen(lastEventId?: string, isPrimed?: boolean): Peer;
  answer(id: string | number, result?: unknown): void;
  /** Tells a notification; a progress one with this token. */
  notify(method: string, token?: unknown): boolean;
  /** Asks the client something as the child does. */
  ask(id: string): boolean;
}

export function makeChannelBed(some: Partial<ChannelParts> = {}): ChannelBed {
  const answered: [string, boolean][] = [];
  const logged: string[] = [];
  let [abandoned, sentBytes] = [0, 0];
  const log = (event: string): void => void logged.push(event);
  const channel = new Channel({
    sessionId: 'the-session',
    logger: { debug: log, info: log, warn: log, error: log },
    streams: { keepAliveMs: 0, writeTimeoutMs: 1000 },
    replay: { maxEvents: 100, maxBytes: 10_000 },
    retryMs: 1000,
    meter: {
      answered: (method, _durationMs, isDelivered) => void answered.push([method, isDelivered]),
      sent: (bytes) => (sentBytes += bytes),
    },
    onAbandoned: () => (abandoned += 1),
    ...some,
  });
  const tell = (message: object, about: Told): boolean => channel.tell([JSON.stringify(message)] as LineParts, about);
  return {
    channel,
    answered,
    logged,
    abandoned: () => abandoned,
    sentBytes: () => sentBytes,
    post: (ids, { method = 'tools/call', token, isPrimed = false } = {}) => {
      const peer = makePeer();
      const questions = ids.map((id) => ({ idText: JSON.stringify(id), method, progressToken: token }));
      channel.openExchange(peer.res, questions, isPrimed);
      return peer;
    },
    listen: (lastEventId, isPrimed = false) => {
      const peer = makePeer('GET');
      if (lastEventId === undefined) channel.openListener(peer.res, isPrimed);
      else channel.resume(peer.res, lastEventId, isPrimed);
      return peer;
    },
    answer: (id, result = {}) => {
      channel.answer(JSON.stringify(id), [JSON.stringify({ jsonrpc: '2.0', id, result })]);
    },
    notify: (method, token) =>
      tell(
        { method, ...(token === undefined ? {} : { params: { progressToken: token } }) },
        {
          method,
          outerId: undefined,
          progressToken: () => token,
        },
      ),
    ask: (id) => tell({ id, method: 'sampling/createMessage' }, { method: 'sampling/createMessage', outerId: id }),
  };
}

/** What came on a stream, in short: the method of a request or notification, the id of an answer. */
export function seen(peer: Peer): unknown[] {
  return peer.messages().map(({ method, id }) => method ?? id);
}

/** The id of the last event that came on a stream. */
export function lastId(peer: Peer): string {
  return peer.events().findLast(({ id }) => id !== undefined)?.id ?? '';
}
