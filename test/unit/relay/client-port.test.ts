import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LineParts } from '../../../src/core/framing.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { type ClientPort, type Told, singleStream } from '../../../src/relay/client-port.ts';
import { Link } from '../../../src/relay/link.ts';
import { Listing } from '../../../src/relay/listing.ts';
import { Relay } from '../../../src/relay/relay.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a client with one stream for everything', () => {
  it('gets answers and messages as they are, can always be told, and needs to hear of nothing else', () => {
    const sent: LineParts[] = [];
    const client = singleStream((parts) => void sent.push(parts));
    client.answer('1', ['a']);
    client.answer(undefined, ['b']);
    expect(client.tell(['c'], { method: 'm', outerId: '7' })).toBe(true);
    client.drop('1');
    expect(sent).toEqual([['a'], ['b'], ['c']]);
  });
});

interface Bed {
  /** What the client's side was called with, in order. */
  readonly calls: string[];
  readonly told: Told[];
  readonly toChild: string[];
  readonly relay: Relay;
  readonly link: Link;
  isReachable: boolean;
}

/** A relay whose client has said `initialize` and whose child is ready. */
function makeBed(): Bed {
  const nothing = (): void => undefined;
  const logger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
  const [calls, toChild]: [string[], string[]] = [[], []];
  const told: Told[] = [];
  const client: ClientPort = {
    answer: (idText, parts) => void calls.push(`answer ${idText}: ${parts.join('')}`),
    tell: (parts, about) => {
      calls.push(`tell ${parts.join('')}`);
      told.push(about);
      return bed.isReachable;
    },
    drop: (idText) => void calls.push(`drop ${idText}`),
  };
  const link = new Link({
    port: { send: (parts) => void toChild.push(parts.join('')) },
    logger,
    ownPrefix: 'own/',
    nextOuterId: () => 5,
    rootsTimeoutMs: 1000,
  });
  const relay = new Relay({
    client,
    gate: { link, enter: nothing, withdraw: nothing, pass: nothing },
    listing: new Listing({ logger, localTools: [], hidden: [], serverInfo: {}, instructions: '' }),
    logger,
    catalogReady: Promise.resolve(),
    onInitialize: nothing,
  });
  relay.accept(Buffer.from('{"id":"init","method":"initialize"}'));
  relay.attach(link, 1000);
  const bed: Bed = { calls, told, toChild, relay, link, isReachable: true };
  return bed;
}

const say = ({ relay }: Bed, ...lines: string[]): void => {
  for (const line of lines) relay.accept(Buffer.from(line));
};
const sayAsChild = ({ link }: Bed, ...lines: string[]): void => {
  for (const line of lines) link.accept(Buffer.from(line));
};

describe('a request of the child', () => {
  it.each(['roots/list', 'sampling/createMessage'])('is refused at once where no client can be asked: %s', (method) => {
    const bed = makeBed();
    bed.isReachable = false;
    sayAsChild(bed, `{"jsonrpc":"2.0","id":"q","method":"${method}"}`);
    const [answer = ''] = bed.toChild;
    expect(JSON.parse(answer)).toMatchObject({
      id: 'q',
      error: { message: expect.stringContaining(method), data: { reason: 'no_answer' } },
    });
    // Nothing waits any more: neither a late answer nor the time for one.
    say(bed, '{"jsonrpc":"2.0","id":5,"result":{}}');
    vi.advanceTimersByTime(1000);
    expect([bed.toChild.length, vi.getTimerCount()]).toEqual([1, 0]);
  });

  it('is told with its method and the id under which it is to be answered', () => {
    const bed = makeBed();
    sayAsChild(bed, '{"jsonrpc":"2.0","id":"q","method":"roots/list"}');
    expect(bed.told).toEqual([{ method: 'roots/list', outerId: '5' }]);
    expect(bed.toChild).toEqual([]);
    say(bed, '{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}');
    expect(bed.toChild).toEqual(['{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}']);
  });
});

describe('a notification of the child', () => {
  it.each([
    ['"t"', 't'],
    ['0', 0],
    ['null', null],
  ])('of progress is told with its token %s', (text, token) => {
    const bed = makeBed();
    sayAsChild(bed, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${text}}}`);
    expect(bed.told[0]).toMatchObject({ method: 'notifications/progress', outerId: undefined });
    expect(bed.told[0]?.progressToken?.()).toBe(token);
  });

  it('is not taken for a request that nobody can be asked', () => {
    const bed = makeBed();
    bed.isReachable = false;
    sayAsChild(bed, '{"jsonrpc":"2.0","method":"notifications/message"}');
    expect([bed.toChild, bed.told[0]?.progressToken?.()]).toEqual([[], undefined]);
  });
});

describe('the client', () => {
  it('is told that a request gets no answer when it withdraws it, once, before the child hears of it', () => {
    const bed = makeBed();
    say(bed, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}');
    const cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';
    say(bed, cancel, cancel);
    expect(bed.calls).toEqual(['drop 1']);
    sayAsChild(bed, '{"jsonrpc":"2.0","id":1,"result":{}}');
    expect(bed.calls).toEqual(['drop 1']);
  });

  it('is told the end of a call that the bridge answers itself by its id', () => {
    const bed = makeBed();
    say(bed, '{"jsonrpc":"2.0","id":"a","method":"ping"}', '{"jsonrpc":"2.0","id":2');
    expect(bed.calls).toEqual([
      'answer "a": {"jsonrpc":"2.0","id":"a","result":{}}',
      expect.stringMatching(/^answer undefined: .*"id":null,"error"/),
    ]);
  });

  it('gets the notices of the bridge with their method, and their token where they have one', () => {
    const bed = makeBed();
    bed.relay.announceTools();
    expect(bed.told).toMatchObject([{ method: 'notifications/tools/list_changed', outerId: undefined }]);
    expect(bed.told[0]?.progressToken?.()).toBeUndefined();
  });
});
