import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Envelope } from '../../../src/core/envelope.ts';
import { readEnvelope } from '../../../src/core/envelope.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { LineParts } from '../../../src/core/framing.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Link } from '../../../src/relay/link.ts';

const rootsTimeoutMs = 1000;

function textOf(parts: LineParts): string {
  return parts.map((part) => part.toString()).join('');
}

function envelope(text: string): Envelope {
  const message = readEnvelope(Buffer.from(text));
  if ('bad' in message) throw new Error(message.bad);
  return message;
}

interface Bed {
  readonly link: Link;
  readonly toChild: string[];
  readonly toClient: string[];
  readonly answers: string[];
  readonly large: string[];
  readonly oversize: unknown[];
  readonly outerIds: (string | undefined)[];
  readonly log: string[];
  readonly counts: { toolsChanged: number };
  say(text: string): void;
}

function makeBed(isAttached = true): Bed {
  const bed: Omit<Bed, 'link' | 'say'> = {
    toChild: [],
    toClient: [],
    answers: [],
    large: [],
    oversize: [],
    outerIds: [],
    log: [],
    counts: { toolsChanged: 0 },
  };
  const note = (event: string): void => void bed.log.push(event);
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  let nextOuterId = 0;
  const link = new Link({
    port: { send: (parts) => void bed.toChild.push(textOf(parts)) },
    logger,
    ownPrefix: 'own/',
    nextOuterId: () => nextOuterId++,
    rootsTimeoutMs,
  });
  if (isAttached) {
    link.attach({
      onAnswer: (answer) => void bed.answers.push(answer.line.toString()),
      onLargeAnswer: (idText, chunks) => {
        bed.large.push(`${idText} ${chunks.map(String).join('')}`);
        return idText !== '8' && !idText.startsWith('"own');
      },
      onOversize: (idText, bytes) => void bed.oversize.push([idText, bytes]),
      onMessage: (parts, { outerId }) => {
        bed.toClient.push(textOf(parts));
        bed.outerIds.push(outerId);
        return true;
      },
      onToolsChanged: () => void (bed.counts.toolsChanged += 1),
    });
  }
  return {
    ...bed,
    link,
    say: (text) => {
      link.accept(Buffer.from(text));
    },
  };
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a child that speaks before its client is there', () => {
  it('has what it told kept for the client, in order and up to a limit', () => {
    const bed = makeBed(false);
    bed.say('{"jsonrpc":"2.0","method":"notifications/message","params":{"data":0}}');
    bed.say('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
    for (let count = 3; count <= 1001; count += 1) bed.say(`{"jsonrpc":"2.0","method":"n/${count}"}`);
    const got: string[] = [];
    let toolsChanged = 0;
    bed.link.attach({
      onAnswer: () => undefined,
      onLargeAnswer: () => false,
      onOversize: () => undefined,
      onMessage: (parts) => got.push(textOf(parts)) > 0,
      onToolsChanged: () => void (toolsChanged += 1),
    });
    expect(got).toHaveLength(1000);
    expect([got[0], got.at(-1)]).toEqual([
      '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":0}}',
      '{"jsonrpc":"2.0","method":"n/1000"}',
    ]);
    expect(toolsChanged).toBe(1);
  });
});

describe('a request of the child', () => {
  it('goes to the client under an id of the session and with every other byte as it was', () => {
    const bed = makeBed();
    bed.say('{ "jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"big":90071992547409931,"x":1} }');
    bed.say('{"method":"elicitation/create","params":{"id":"a"},"id":"a"}');
    expect(bed.toClient).toEqual([
      '{ "jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"big":90071992547409931,"x":1} }',
      '{"method":"elicitation/create","params":{"id":"a"},"id":1}',
    ]);
    expect(bed.outerIds).toEqual(['0', '1']);
  });

  it('gets the answer of the client under its own id, also when that is 0', () => {
    const bed = makeBed();
    bed.say('{"id":"first","method":"x/y"}');
    bed.say('{"id":0,"method":"x/y"}');
    expect(bed.link.answerChild(envelope('{"jsonrpc":"2.0","id":1,"result":{"r":1.0}}'))).toBe(true);
    expect(bed.link.answerChild(envelope('{"jsonrpc":"2.0","id":0.0,"error":{"code":1,"message":"no"}}'))).toBe(true);
    expect(bed.toChild).toEqual([
      '{"jsonrpc":"2.0","id":0,"result":{"r":1.0}}',
      '{"jsonrpc":"2.0","id":"first","error":{"code":1,"message":"no"}}',
    ]);
  });

  it('takes one answer, and none that belongs to no request', () => {
    const bed = makeBed();
    bed.say('{"id":5,"method":"x/y"}');
    expect(bed.link.answerChild(envelope('{"id":5,"result":{}}'))).toBe(false);
    expect(bed.link.answerChild(envelope('{"id":"0","result":{}}'))).toBe(false);
    expect(bed.link.answerChild(envelope('{"id":0,"result":{}}'))).toBe(true);
    expect(bed.link.answerChild(envelope('{"id":0,"result":{}}'))).toBe(false);
    expect(bed.toChild).toHaveLength(1);
  });

  it('is refused at once while no client is connected', () => {
    const bed = makeBed(false);
    bed.say('{"id":0,"method":"roots/list"}');
    expect(bed.toChild.map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        jsonrpc: '2.0',
        id: 0,
        error: { code: -32019, message: 'No client is connected.', data: { reason: 'no_answer' } },
      },
    ]);
  });
});

describe('roots/list of the child', () => {
  it('is answered in the place of a client that says nothing, at the limit and not before', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"roots/list"}');
    vi.advanceTimersByTime(rootsTimeoutMs - 1);
    expect(bed.toChild).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(JSON.parse(bed.toChild[0] ?? '')).toMatchObject({ id: 0, error: { code: -32019 } });
    expect(bed.log).toEqual(['client did not answer']);
  });

  it('is answered once: what the client says later is dropped', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"roots/list"}');
    vi.advanceTimersByTime(rootsTimeoutMs);
    expect(bed.link.answerChild(envelope('{"id":0,"result":{"roots":[]}}'))).toBe(false);
    expect(bed.toChild).toHaveLength(1);
  });

  it('has no limit any more once the client has answered', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"roots/list"}');
    bed.link.answerChild(envelope('{"id":0,"result":{"roots":[]}}'));
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is the only request with a limit, since people answer the others', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"elicitation/create"}');
    bed.say('{"id":1,"method":"sampling/createMessage"}');
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a notification of the child', () => {
  it.each([
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1.0}}',
    '{"method":"notifications/message" , "params":{"data":"ü"}}',
    '{"method":"notifications/unknown"}',
  ])('passes to the client as it is: %s', (line) => {
    const bed = makeBed();
    bed.say(line);
    expect(bed.toClient).toEqual([line]);
    expect(bed.outerIds).toEqual([undefined]);
    expect(bed.counts.toolsChanged).toBe(0);
  });

  it('that its tools changed is told to the relay and passed on', () => {
    const bed = makeBed();
    const line = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
    bed.say(line);
    expect(bed.counts.toolsChanged).toBe(1);
    expect(bed.toClient).toEqual([line]);
  });

  it('that it gives up a request names the id that the client knows', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"roots/list"}');
    bed.say('{"id":"b","method":"x/y"}');
    bed.say('{"method":"notifications/cancelled","params":{"requestId":"b","reason":"late"}}');
    expect(JSON.parse(bed.toClient[2] ?? '')).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 1, reason: 'late' },
    });
    expect(bed.link.answerChild(envelope('{"id":1,"result":{}}'))).toBe(false);
  });

  it('that it gives up roots/list ends the wait for them', () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"roots/list"}');
    bed.say('{"method":"notifications/cancelled","params":{"requestId":0}}');
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each(['{"requestId":7}', '{}', 'null', '[]'])('that it gives up %s, which nobody asked, is dropped', (params) => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"x/y"}');
    bed.say(`{"method":"notifications/cancelled","params":${params}}`);
    expect(bed.toClient).toHaveLength(1);
  });

  it('is dropped while no client is connected', () => {
    const bed = makeBed(false);
    bed.say('{"method":"notifications/message"}');
    expect(bed.toClient).toEqual([]);
  });
});

describe('an answer of the child', () => {
  it('to a request of the client is told to the relay as it is', () => {
    const bed = makeBed();
    bed.say('{"id":3,"result":{}}');
    bed.say('{"id":"own","error":{"code":1,"message":"x"}}');
    expect(bed.answers).toEqual(['{"id":3,"result":{}}', '{"id":"own","error":{"code":1,"message":"x"}}']);
  });

  it('to a request of the bridge never shows', async () => {
    const bed = makeBed();
    const first = bed.link.request('initialize', { a: 1 });
    const second = bed.link.request('tools/list', {});
    expect(bed.toChild).toEqual([
      '{"jsonrpc":"2.0","id":"own/0","method":"initialize","params":{"a":1}}',
      '{"jsonrpc":"2.0","id":"own/1","method":"tools/list","params":{}}',
    ]);
    bed.say('{"jsonrpc":"2.0","id":"own/1","result":{ "tools":[] }}');
    bed.say('{"jsonrpc":"2.0","result":{"z":1},"id":"own\\/0"}');
    expect((await second).toString()).toBe('{ "tools":[] }');
    expect((await first).toString()).toBe('{"z":1}');
    expect(bed.answers).toEqual([]);
  });

  it('that refuses a request of the bridge fails it with what was said', async () => {
    const bed = makeBed();
    const request = bed.link.request('initialize', {});
    bed.say('{"id":"own/0","error":{"code":-32602,"message":"bad version"}}');
    await expect(request).rejects.toMatchObject({ code: 'internal', message: expect.stringContaining('bad version') });
  });

  it('that is too long is told with its id and length', () => {
    const bed = makeBed();
    bed.link.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":4,"result":'), Buffer.from('x"}'), 5000);
    bed.link.acceptOversize(Buffer.from('{"result":'), Buffer.from('x"}'), 6000);
    expect(bed.oversize).toEqual([
      ['4', 5000],
      [undefined, 6000],
    ]);
  });

  it('that is too long fails the request of the bridge that it belongs to', async () => {
    const bed = makeBed();
    const request = bed.link.request('tools/list', {});
    bed.link.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":"own/0","result":'), Buffer.from('x"}'), 5000);
    await expect(request).rejects.toMatchObject({ code: 'message_too_large' });
    expect(bed.oversize).toEqual([]);
  });
});

describe('a request of the child that is too long', () => {
  it('is refused under its own id, which is no answer to the client', () => {
    const bed = makeBed();
    bed.link.acceptOversize(
      Buffer.from('{"jsonrpc":"2.0","id":0,"method":"sampling/x","params":'),
      Buffer.from('"}}'),
      5000,
    );
    bed.link.acceptOversize(Buffer.from('{"method":"x","params":'), Buffer.from('"},"jsonrpc":"2.0","id":1}'), 5000);
    expect(bed.toChild.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { id: 0, error: { code: -32017 } },
      { id: 1, error: { code: -32017 } },
    ]);
    expect([bed.oversize, bed.toClient]).toEqual([[], []]);
  });

  it('is dropped where it is a notification', () => {
    const bed = makeBed();
    bed.link.acceptOversize(Buffer.from('{"method":"notifications/message","params":'), Buffer.from('"}}'), 5000);
    expect([bed.toChild, bed.oversize, bed.toClient]).toEqual([[], [], []]);
    expect(bed.log).toEqual(['child line dropped']);
  });

  it('gets an error for an answer of the client that is too long, and once', () => {
    const bed = makeBed();
    const error = new BridgeError('message_too_large', 'much');
    bed.say('{"id":"q","method":"roots/list"}');
    bed.link.failAnswer('7', error);
    bed.link.failAnswer(undefined, error);
    expect(bed.toChild).toEqual([]);
    bed.link.failAnswer('0', error);
    bed.link.failAnswer('0', error);
    expect(bed.toChild.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { id: 'q', error: { code: -32017, message: 'much' } },
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a large line of the child', () => {
  const accept = ({ link }: Bed, ...pieces: string[]): void => {
    link.acceptChunks(
      pieces.map((piece) => Buffer.from(piece)),
      pieces.join('').length,
    );
  };

  it('that is an answer is offered to the relay in its pieces', () => {
    const bed = makeBed();
    accept(bed, '{"jsonrpc":"2.0","id":3,"result":{', '}}');
    expect(bed.large).toEqual(['3 {"jsonrpc":"2.0","id":3,"result":{}}']);
    expect(bed.answers).toEqual([]);
  });

  it('that the relay does not take in pieces is read as any other', () => {
    const bed = makeBed();
    accept(bed, '{"jsonrpc":"2.0","id":8,"result":{', '}}');
    expect(bed.answers).toEqual(['{"jsonrpc":"2.0","id":8,"result":{}}']);
  });

  it('that is no answer is read as any other', () => {
    const bed = makeBed();
    accept(bed, '{"method":"notifications/message"', ',"params":{}}');
    accept(bed, '{"id":0,"method":"sampling/', 'createMessage"}');
    expect(bed.large).toEqual([]);
    expect(bed.toClient).toEqual([
      '{"method":"notifications/message","params":{}}',
      '{"id":0,"method":"sampling/createMessage"}',
    ]);
  });

  it('that answers the bridge reaches it, with and without a client', async () => {
    for (const bed of [makeBed(), makeBed(false)]) {
      const request = bed.link.request('tools/list', {});
      accept(bed, '{"jsonrpc":"2.0","id":"own/0","result":{"tools"', ':[]}}');
      expect((await request).toString()).toBe('{"tools":[]}');
    }
  });
});

describe('a line of the child that is no message', () => {
  it.each(['Listening on port 1', '{}', '[]', '{"id":1'])('is logged and not passed on: %s', (line) => {
    const bed = makeBed();
    bed.say(line);
    expect([bed.toClient, bed.toChild, bed.answers]).toEqual([[], [], []]);
    expect(bed.log).toEqual(['child line dropped']);
  });
});

describe('breaking a link', () => {
  it('fails the requests of the bridge, running and new ones, with the reason', async () => {
    const bed = makeBed();
    const running = bed.link.request('tools/list', {});
    bed.link.break('it crashed');
    await expect(running).rejects.toMatchObject({ code: 'child_lost', message: 'it crashed' });
    await expect(bed.link.request('tools/list', {})).rejects.toMatchObject({ code: 'child_lost' });
    expect(bed.toChild).toHaveLength(1);
  });

  it('tells the client that nobody waits for its answers, and waits for them no longer', () => {
    const bed = makeBed();
    bed.say('{"id":7,"method":"roots/list"}');
    bed.say('{"id":8,"method":"x/y"}');
    bed.link.answerChild(envelope('{"id":1,"result":{}}'));
    bed.link.break('it crashed');
    expect(bed.toClient.slice(2).map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 0, reason: 'it crashed' } },
    ]);
    expect(vi.getTimerCount()).toBe(0);
    expect(bed.link.answerChild(envelope('{"id":0,"result":{}}'))).toBe(false);
  });

  it('happens once, and nothing of the child is told after it', () => {
    const bed = makeBed();
    bed.say('{"id":7,"method":"x/y"}');
    bed.link.break('first');
    bed.link.break('second');
    bed.say('{"id":3,"result":{}}');
    bed.say('{"method":"notifications/message"}');
    expect(bed.toClient).toHaveLength(2);
    expect(bed.answers).toEqual([]);
  });
});

describe('what was sent to a child', () => {
  it('goes as it came, and a request makes it one that is worth a slow end', () => {
    const bed = makeBed();
    bed.link.notify('notifications/initialized');
    bed.link.forward(envelope('{"method":"n"}'));
    expect(bed.link.isUsed).toBe(false);
    bed.link.forward(envelope(' {"id":1, "method":"m"}'));
    bed.link.forward(envelope('{"method":"n"}'));
    expect(bed.link.isUsed).toBe(true);
    expect(bed.toChild).toEqual([
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"method":"n"}',
      ' {"id":1, "method":"m"}',
      '{"method":"n"}',
    ]);
  });
});
