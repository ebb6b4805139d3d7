import { singleStream } from '../../../src/relay/client-port.ts';
import { describe, expect, it } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Link } from '../../../src/relay/link.ts';
import { Listing } from '../../../src/relay/listing.ts';
import type { Ticket } from '../../../src/relay/pending.ts';
import { Relay } from '../../../src/relay/relay.ts';

const maxBytes = 1000;

interface Bed {
  readonly relay: Relay;
  readonly link: Link;
  /** Lines to the client and to the child. */
  readonly sent: string[];
  readonly toChild: string[];
  readonly passed: string[];
  readonly waiting: Set<Ticket>;
  say(...lines: string[]): void;
  answers(): Record<string, unknown>[];
}

/** A relay whose client has said `initialize`; with `isOpen` its child is ready. */
async function makeBed(isOpen: boolean): Promise<Bed> {
  const [sent, toChild, passed]: [string[], string[], string[]] = [[], [], []];
  const waiting = new Set<Ticket>();
  const nothing = (): void => undefined;
  const logger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
  const link = new Link({
    port: { send: (line) => void toChild.push(line.join('')) },
    logger,
    ownPrefix: 'own/',
    nextOuterId: () => 0,
    rootsTimeoutMs: 1000,
  });
  const relay = new Relay({
    client: singleStream((line) => void sent.push(line.join(''))),
    gate: {
      link: isOpen ? link : undefined,
      enter: (ticket) => {
        if (isOpen) ticket.forward(link);
        else waiting.add(ticket);
      },
      withdraw: (ticket) => void waiting.delete(ticket),
      pass: (message) => void passed.push(message.line.toString()),
    },
    listing: new Listing({ logger, localTools: [], hidden: [], serverInfo: {}, instructions: '' }),
    logger,
    catalogReady: Promise.resolve(),
    onInitialize: () => undefined,
  });
  relay.attach(link, maxBytes);
  const say = (...lines: string[]): void => {
    for (const line of lines) relay.accept(Buffer.from(line));
  };
  say('{"id":"init","method":"initialize"}');
  await settle();
  sent.length = 0;
  const answers = (): Record<string, unknown>[] => sent.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { relay, link, sent, toChild, passed, waiting, say, answers };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

const call = (id: number | string, params = '{"name":"browser_click"}'): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"method":"tools/call","params":${params}}`;
const cancel = (id: unknown): string =>
  `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${JSON.stringify(id)}}}`;

describe('a cancelled request', () => {
  it('that waits is withdrawn, and no child hears of it', async () => {
    const bed = await makeBed(false);
    bed.say(call(1), call('1'), cancel(1));
    expect(bed.waiting.size).toBe(1);
    expect([bed.passed, bed.toChild, bed.sent]).toEqual([[], [], []]);
  });

  it('that is running is cancelled at the child, and its late answer is dropped', async () => {
    const bed = await makeBed(true);
    bed.say(call(0), call(1), cancel(0));
    expect(bed.toChild).toEqual([call(0), call(1), cancel(0)]);
    bed.link.accept(Buffer.from('{"id":0,"result":{}}'));
    bed.link.accept(Buffer.from('{"id":1,"result":{}}'));
    expect(bed.sent).toEqual(['{"id":1,"result":{}}']);
  });

  it('is cancelled once', async () => {
    const bed = await makeBed(true);
    bed.say(call(1), cancel(1), cancel(1));
    expect(bed.toChild).toEqual([call(1), cancel(1)]);
  });

  it('that was answered before, or was never made, is no concern of the child', async () => {
    const bed = await makeBed(true);
    bed.say(call(1));
    bed.link.accept(Buffer.from('{"id":1,"result":{}}'));
    bed.say(cancel(1), cancel('1'), cancel(9), cancel(null), cancel({}), '{"method":"notifications/cancelled"}');
    expect(bed.toChild).toEqual([call(1)]);
    expect(bed.passed).toEqual([]);
  });

  it('is known by every spelling of its id', async () => {
    const bed = await makeBed(true);
    bed.say('{"id":1.0,"method":"x"}', '{"id":"\\u0061","method":"x"}', cancel(1), cancel('a'));
    expect(bed.toChild.slice(2)).toEqual([cancel(1), cancel('a')]);
  });

  it('is not answered again when its child is lost', async () => {
    const bed = await makeBed(true);
    bed.say(call(1), cancel(1));
    bed.relay.failAll(bed.link, () => new BridgeError('child_lost', 'gone'));
    expect(bed.sent).toEqual([]);
  });

  it('whose late answer is too long fails nothing else', async () => {
    const bed = await makeBed(true);
    bed.say(call(1), call(2), cancel(1));
    bed.link.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":1,"result":'), Buffer.from('x"}}'), 5000);
    expect(bed.sent).toEqual([]);
  });
});

describe('notifications of the client', () => {
  it('pass to the gate as they came, in their order', async () => {
    const bed = await makeBed(true);
    const lines = [
      '{"method":"notifications/roots/list_changed"}',
      ' {"method":"notifications/unknown","params":{"x":1.0}}',
    ];
    bed.say(...lines);
    expect(bed.passed).toEqual(lines);
  });

  it('that it is initialized end here, since every child gets its own', async () => {
    const bed = await makeBed(true);
    bed.say('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    expect([bed.passed, bed.toChild]).toEqual([[], []]);
  });
});

describe('messages of the child', () => {
  it('pass to the client, and its answers pass back', async () => {
    const bed = await makeBed(true);
    bed.link.accept(Buffer.from('{"id":7,"method":"roots/list"}'));
    bed.link.accept(Buffer.from('{"method":"notifications/message","params":{"data":1.0}}'));
    bed.say('{"id":0,"result":{"roots":[]}}', '{"id":1,"result":{}}');
    expect(bed.sent).toEqual([
      '{"id":0,"method":"roots/list"}',
      '{"method":"notifications/message","params":{"data":1.0}}',
    ]);
    expect(bed.toChild).toEqual(['{"id":7,"result":{"roots":[]}}']);
  });

  it('that the tools changed make the next list a new one', async () => {
    const bed = await makeBed(true);
    bed.link.accept(Buffer.from('{"method":"notifications/tools/list_changed"}'));
    bed.say('{"id":1,"method":"tools/list"}');
    await settle();
    expect(bed.toChild.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ method: 'tools/list' }]);
    expect(bed.sent).toEqual(['{"method":"notifications/tools/list_changed"}']);
  });
});

describe('a line of the client that is no message', () => {
  it.each([
    ['nonsense', null, -32700, 'parse_error'],
    ['{"id":1,"method":', null, -32700, 'parse_error'],
    ['7', null, -32600, 'invalid_request'],
    ['{}', null, -32600, 'invalid_request'],
    ['{"id":null,"method":"x"}', null, -32600, 'invalid_request'],
    ['{"id":6,"method":7}', 6, -32600, 'invalid_request'],
    ['[]', null, -32600, 'invalid_request'],
    ['[{"id":1,"method":"x"}', null, -32700, 'parse_error'],
  ])('is refused: %s', async (line, id, code, reason) => {
    const bed = await makeBed(true);
    bed.say(line);
    expect(bed.answers()).toMatchObject([{ id, error: { code, data: { reason } } }]);
    expect(bed.toChild).toEqual([]);
  });
});

describe('a batch', () => {
  it('is taken as the messages in it, each answered by itself', async () => {
    const bed = await makeBed(true);
    bed.say(`[ ${call(1)} ,{"method":"notifications/x"},{"id":2,"method":"ping"}, 5, [${call(3)}], {"id":4} ]`);
    expect(bed.toChild).toEqual([call(1)]);
    expect(bed.passed).toEqual(['{"method":"notifications/x"}']);
    expect(bed.answers()).toMatchObject([
      { id: 2, result: {} },
      { id: null, error: { code: -32600 } },
      { id: null, error: { code: -32600 } },
      { id: 4, error: { code: -32600 } },
    ]);
  });

  it('may hold answers to the child', async () => {
    const bed = await makeBed(true);
    bed.link.accept(Buffer.from('{"id":"q","method":"x/y"}'));
    bed.say('[{"id":0,"result":{}}]');
    expect(bed.toChild).toEqual(['{"id":"q","result":{}}']);
  });
});

describe('a message that is too long', () => {
  it('from the client is refused under its id, with the limit and how to raise it', async () => {
    const bed = await makeBed(true);
    bed.relay.acceptOversize('"a"', 1001, maxBytes);
    bed.relay.acceptOversize(undefined, 1002, maxBytes);
    expect(bed.answers()).toMatchObject([
      { id: 'a', error: { code: -32017, data: { reason: 'message_too_large', bytes: 1001, maxBytes: 1000 } } },
      { id: null, error: { data: { bytes: 1002 } } },
    ]);
    expect(bed.sent[0]).toContain('--max-message-bytes');
  });

  it('from the child fails the request that it answers and no other', async () => {
    const bed = await makeBed(true);
    bed.say(call(1), call(2));
    bed.link.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":1,"result":'), Buffer.from('x"}}'), 5000);
    expect(bed.answers()).toMatchObject([{ id: 1, result: { isError: true } }]);
    expect(bed.sent[0]).toMatch(/5000 bytes.*1000/);
    bed.link.accept(Buffer.from('{"id":2,"result":{}}'));
    expect(bed.sent).toHaveLength(2);
  });

  it('from the child, whose request cannot be told, fails all that are with the child', async () => {
    const bed = await makeBed(true);
    bed.say(call(1), '{"id":2,"method":"x"}');
    bed.link.acceptOversize(Buffer.from('{"result":'), Buffer.from('x"}}'), 5000);
    expect(bed.answers()).toMatchObject([
      { id: 1, result: { isError: true } },
      { id: 2, error: { code: -32017 } },
    ]);
  });
});

describe('progress of a start', () => {
  const withToken = (id: number, token: string): string => call(id, `{"name":"a","_meta":{"progressToken":${token}}}`);
  const report = { progress: 5, total: 10, message: 'half' };

  it('is told to the calls that wait with a token of their own', async () => {
    const bed = await makeBed(false);
    bed.say(withToken(1, '0'), withToken(2, '"t"'), call(3), withToken(4, 'null'), withToken(5, '{}'));
    bed.relay.tellProgress(report);
    expect(bed.answers()).toEqual(
      [0, 't'].map((progressToken) => ({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken, ...report },
      })),
    );
  });

  it('grows with every notice: what is no more than before is told to nobody', async () => {
    const bed = await makeBed(false);
    bed.say(withToken(1, '1'));
    for (const progress of [5, 5, 3, 6]) bed.relay.tellProgress({ ...report, progress });
    bed.say(withToken(2, '2'));
    bed.relay.tellProgress({ ...report, progress: 6 });
    const told = bed.answers().map(({ params }) => params as { progressToken: number; progress: number });
    expect(told.map(({ progressToken, progress }) => [progressToken, progress])).toEqual([
      [1, 5],
      [1, 6],
      [2, 6],
    ]);
  });

  it('is not told to a call that was cancelled or is with a child', async () => {
    const bed = await makeBed(false);
    bed.say(withToken(1, '1'), withToken(2, '2'), cancel(1));
    for (const ticket of bed.waiting) ticket.forward(bed.link);
    bed.relay.tellProgress(report);
    expect(bed.sent).toEqual([]);
  });

  it('is told once in the log of a client that asked for one', async () => {
    const bed = await makeBed(false);
    bed.say('{"id":1,"method":"logging/setLevel","params":{"level":"info"}}');
    bed.relay.tellProgress(report);
    bed.relay.tellProgress(report);
    bed.relay.tellProgress({ ...report, message: 'more' });
    expect(bed.answers()).toEqual(
      ['half', 'more'].map((data) => ({
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'info', logger: 'cloakbrowser-mcp', data },
      })),
    );
  });

  it.each([
    ['debug', 1],
    ['info', 1],
    ['notice', 0],
    ['error', 0],
  ])('at the level %s makes %i messages', async (level, count) => {
    const bed = await makeBed(false);
    bed.say(`{"id":1,"method":"logging/setLevel","params":{"level":"${level}"}}`);
    bed.relay.tellProgress(report);
    expect(bed.sent).toHaveLength(count);
  });
});

describe('logging/setLevel', () => {
  it('goes to the child, and is kept for the next one', async () => {
    const bed = await makeBed(true);
    const line = '{"id":1,"method":"logging/setLevel","params":{"level":"warning"}}';
    bed.say(line);
    expect(bed.toChild).toEqual([line]);
    expect(bed.relay.logLevel).toBe('warning');
  });

  it('is not kept when it names no level', async () => {
    const bed = await makeBed(true);
    bed.say('{"id":1,"method":"logging/setLevel"}', '{"id":2,"method":"logging/setLevel","params":{"level":5}}');
    expect(bed.relay.logLevel).toBeUndefined();
  });
});

describe('a change of tools', () => {
  it('is announced to a client that has said initialize', async () => {
    const bed = await makeBed(true);
    bed.relay.announceTools();
    expect(bed.sent).toEqual(['{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}']);
  });
});
