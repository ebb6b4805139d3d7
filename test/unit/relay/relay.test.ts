import { singleStream } from '../../../src/relay/client-port.ts';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Envelope } from '../../../src/core/envelope.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Link } from '../../../src/relay/link.ts';
import { Listing } from '../../../src/relay/listing.ts';
import type { LocalTool } from '../../../src/relay/local-tools.ts';
import type { Ticket } from '../../../src/relay/pending.ts';
import { type GatePort, Relay } from '../../../src/relay/relay.ts';

/** A gate that is open or not as the test says. */
class FakeGate implements GatePort {
  link: Link | undefined;
  readonly waiting = new Set<Ticket>();
  readonly passed: string[] = [];

  enter(ticket: Ticket): void {
    if (this.link === undefined) this.waiting.add(ticket);
    else ticket.forward(this.link);
  }

  withdraw(ticket: Ticket): void {
    this.waiting.delete(ticket);
  }

  pass(message: Envelope): void {
    this.passed.push(message.line.toString());
  }
}

interface Bed {
  readonly relay: Relay;
  readonly gate: FakeGate;
  readonly listing: Listing;
  readonly sent: string[];
  readonly toChild: string[];
  readonly log: string[];
  readonly initialized: unknown[];
  readonly runs: { local: number };
  /** Opens the gate with a child. */
  open(): Link;
  say(...lines: string[]): void;
  /** What the client got, parsed, in order. */
  answers(): Record<string, unknown>[];
}

const maxBytes = 1000;

function makeBed(parts: { hidden?: string[]; catalogReady?: Promise<void>; run?: LocalTool['run'] } = {}): Bed {
  const [sent, toChild, log, initialized]: [string[], string[], string[], unknown[]] = [[], [], [], []];
  const runs = { local: 0 };
  const note = (event: string): void => void log.push(event);
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const gate = new FakeGate();
  const run = (): Promise<Readonly<Record<string, unknown>>> => {
    runs.local += 1;
    return parts.run === undefined ? Promise.resolve({ state: 'ö' }) : parts.run();
  };
  const localTools = ['info', 'browser_shared'].map((name) => ({ definition: { name, description: 'local' }, run }));
  const hidden = parts.hidden ?? [];
  const listing = new Listing({ logger, localTools, hidden, serverInfo: { name: 'us' }, instructions: 'ours' });
  listing.use({
    initialize: { capabilities: { tools: {}, logging: {}, prompts: {} } },
    tools: ['browser_click', 'browser_shared'].map((name) => ({ name, text: `{"name":"${name}"}` })),
    members: {},
  });
  const relay = new Relay({
    client: singleStream((line) => void sent.push(line.join(''))),
    gate,
    listing,
    logger,
    catalogReady: parts.catalogReady ?? Promise.resolve(),
    onInitialize: (params) => void initialized.push(params),
  });
  let outerId = 100;
  return {
    ...{ relay, gate, listing, sent, toChild, log, initialized, runs },
    open: () => {
      const link = new Link({
        port: { send: (line) => void toChild.push(line.join('')) },
        logger,
        ownPrefix: 'own/',
        nextOuterId: () => outerId++,
        rootsTimeoutMs: 1000,
      });
      relay.attach(link, maxBytes);
      gate.link = link;
      for (const ticket of [...gate.waiting]) ticket.forward(link);
      gate.waiting.clear();
      return link;
    },
    say: (...lines) => {
      for (const line of lines) relay.accept(Buffer.from(line));
    },
    answers: () => sent.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

/** A bed whose client has said `initialize` and read the answer. */
async function startBed(parts: Parameters<typeof makeBed>[0] = {}): Promise<Bed> {
  const bed = makeBed(parts);
  bed.say('{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18"}}');
  await settle();
  bed.sent.length = 0;
  return bed;
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

const call = (id: number | string, name = 'browser_click', more = ''): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"method":"tools/call","params":{"name":"${name}"${more}}}`;

afterEach(() => {
  vi.useRealTimers();
});

describe('before initialize', () => {
  it.each(['tools/list', 'tools/call', 'server/discover', 'resources/list', 'x'])(
    'the method %s is unknown, and nothing is started for it',
    (method) => {
      const bed = makeBed();
      bed.say(`{"jsonrpc":"2.0","id":0,"method":"${method}"}`);
      expect(bed.answers()).toMatchObject([{ id: 0, error: { code: -32601, data: { reason: 'not_initialized' } } }]);
      expect(bed.gate.waiting.size).toBe(0);
      expect(bed.initialized).toEqual([]);
    },
  );

  it('a ping is answered', () => {
    const bed = makeBed();
    bed.say('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    expect(bed.sent).toEqual(['{"jsonrpc":"2.0","id":"p","result":{}}']);
  });

  it('notifications go nowhere, and no change of tools is announced', () => {
    const bed = makeBed();
    bed.say(
      '{"method":"notifications/roots/list_changed"}',
      '{"method":"notifications/cancelled","params":{"requestId":1}}',
    );
    bed.relay.announceTools();
    expect([bed.gate.passed, bed.sent]).toEqual([[], []]);
  });
});

describe('initialize', () => {
  it('is answered from the catalog, and its parameters are recorded', async () => {
    const bed = makeBed();
    bed.say(
      '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}}',
    );
    await settle();
    expect(bed.answers()).toMatchObject([
      {
        id: 0,
        result: {
          protocolVersion: '2025-03-26',
          capabilities: { logging: {}, prompts: {}, tools: { listChanged: true } },
        },
      },
    ]);
    expect(bed.initialized).toEqual([
      { protocolVersion: '2025-03-26', capabilities: { roots: {} }, clientInfo: { name: 'c' } },
    ]);
    expect(bed.gate.waiting.size).toBe(0);
  });

  it('waits for the catalog, and a ping meanwhile does not', async () => {
    let found = (): void => undefined;
    const bed = makeBed({ catalogReady: new Promise((resolve) => (found = resolve)) });
    bed.say('{"id":0,"method":"initialize"}', '{"id":1,"method":"tools/list"}', '{"id":2,"method":"ping"}');
    await settle();
    expect(bed.answers().map(({ id }) => id)).toEqual([2]);
    found();
    await settle();
    expect(bed.answers().map(({ id }) => id)).toEqual([2, 0, 1]);
  });

  it('is an error where there can be no catalog', async () => {
    const bed = makeBed({ catalogReady: Promise.reject(new BridgeError('upstream_missing', 'gone')) });
    bed.say('{"id":0,"method":"initialize"}');
    await settle();
    expect(bed.answers()).toMatchObject([{ id: 0, error: { code: -32012, message: 'gone' } }]);
  });

  it('cannot be cancelled', async () => {
    const bed = makeBed();
    bed.say('{"id":0,"method":"initialize"}', '{"method":"notifications/cancelled","params":{"requestId":0}}');
    await settle();
    expect(bed.answers()).toHaveLength(1);
  });
});

describe('what is answered here', () => {
  it('are tool lists, with the local tools', async () => {
    const bed = await startBed();
    bed.say('{"id":1,"method":"tools/list"}');
    await settle();
    expect(bed.answers()).toEqual([
      {
        jsonrpc: '2.0',
        id: 1,
        result: {
          tools: [{ name: 'browser_click' }, { name: 'browser_shared' }, { name: 'info', description: 'local' }],
        },
      },
    ]);
    expect(bed.gate.waiting.size).toBe(0);
  });

  it('are calls of local tools, as text and as structure', async () => {
    const bed = await startBed();
    bed.say(call(1, 'info'));
    await settle();
    expect(bed.answers()).toEqual([
      {
        jsonrpc: '2.0',
        id: 1,
        result: {
          content: [{ type: 'text', text: '{\n  "state": "ö"\n}' }],
          structuredContent: { state: 'ö' },
          isError: false,
        },
      },
    ]);
    expect(bed.gate.waiting.size).toBe(0);
    expect(bed.relay.forwarded).toBe(0);
  });

  it('are local tools that fail, as a result that a model can read', async () => {
    const bed = await startBed({ run: () => Promise.reject(new Error('broken')) });
    bed.say(call(1, 'info'));
    await settle();
    expect(bed.answers()).toMatchObject([{ id: 1, result: { isError: true, content: [{ text: 'broken' }] } }]);
  });

  it('are calls of hidden tools, which are refused', async () => {
    const bed = await startBed({ hidden: ['browser_click', 'info'] });
    bed.open();
    bed.say(call(1), call(2, 'info'));
    await settle();
    expect(bed.answers()).toMatchObject([
      { id: 1, result: { isError: true } },
      { id: 2, result: { isError: true } },
    ]);
    expect(bed.sent[0]).toContain('--hide-tools');
    expect([bed.toChild, bed.runs.local]).toEqual([[], 0]);
  });

  it("is no tool that upstream has too: its own goes before the bridge's", async () => {
    const bed = await startBed();
    bed.open();
    bed.say(call(1, 'browser_shared'));
    await settle();
    expect(bed.toChild).toEqual([call(1, 'browser_shared')]);
    expect(bed.runs.local).toBe(0);
  });

  it('does not wait for the catalog where it is a local tool, which tells why there is none', async () => {
    const bed = makeBed({ catalogReady: new Promise(() => undefined) });
    bed.say('{"id":0,"method":"initialize"}', call(1, 'info'));
    await settle();
    expect(bed.answers().map(({ id }) => id)).toEqual([1]);
  });

  it('is given once where a cancelled id is used again', async () => {
    const bed = await startBed();
    bed.say(call(1, 'info'), '{"method":"notifications/cancelled","params":{"requestId":1}}', call(1, 'info'));
    await settle();
    expect([bed.sent.length, bed.runs.local]).toEqual([1, 2]);
  });

  it('is what upstream does not offer, as long as there is no child that could say so', async () => {
    const bed = await startBed();
    bed.say('{"id":1,"method":"resources/list"}', '{"id":2,"method":"prompts/list"}');
    expect(bed.answers()).toMatchObject([{ id: 1, error: { code: -32601, message: 'Method not found' } }]);
    expect(bed.gate.waiting.size).toBe(1);
    bed.open();
    bed.say('{"id":3,"method":"resources/list"}');
    expect(bed.toChild.map((line) => (JSON.parse(line) as { id: number }).id)).toEqual([2, 3]);
  });

  it('is not given any more after it was cancelled', async () => {
    const bed = await startBed();
    bed.say(call(1, 'info'), '{"method":"notifications/cancelled","params":{"requestId":1}}');
    await settle();
    expect(bed.sent).toEqual([]);
  });
});

describe('a request for the child', () => {
  it('goes as the bytes it came in, whatever its method, name and arguments', async () => {
    const bed = await startBed();
    bed.open();
    const lines = [
      '{ "id" : 1,"jsonrpc":"2.0", "method":"tools/call","params":{"arguments":{"n":90071992547409931,"z":1.0},"name":"browser_click","_meta":{"progressToken":0},"later":true}}',
      '{"id":2,"method":"tools/call","params":{}}',
      '{"id":3,"method":"resources/read","params":{"uri":"x"}}',
      '{"id":"a","method":"unknown/method"}',
    ];
    bed.say(...lines);
    expect(bed.toChild).toEqual(lines);
    expect(bed.relay.forwarded).toBe(4);
  });

  it('gets the answer of the child unchanged, and under its own id where the child has rounded it', async () => {
    const bed = await startBed();
    const link = bed.open();
    bed.say('{"id":1.0,"method":"x"}', '{"id":"\\u0061","method":"x"}', '{"id":9007199254740993,"method":"x"}');
    link.accept(Buffer.from('{"jsonrpc":"2.0", "id":1,"result":{"content":[{"type":"new"}],"n":90071992547409931}}'));
    link.accept(Buffer.from('{"error":{"code":-1,"message":"m","data":{"x":1}},"id":"a"}'));
    link.accept(Buffer.from('{"id":9007199254740992,"result":{}}'));
    expect(bed.sent).toEqual([
      '{"jsonrpc":"2.0", "id":1,"result":{"content":[{"type":"new"}],"n":90071992547409931}}',
      '{"error":{"code":-1,"message":"m","data":{"x":1}},"id":"a"}',
      '{"id":9007199254740993,"result":{}}',
    ]);
  });

  it('gets a large answer in the pieces it came in, and once', async () => {
    const bed = await startBed();
    const link = bed.open();
    bed.say(call(1), call(2));
    const pieces = ['{"jsonrpc":"2.0","id":1,"result":{"x":', '1}}'].map((piece) => Buffer.from(piece));
    link.acceptChunks(pieces, 41);
    link.acceptChunks(pieces, 41);
    expect(bed.sent).toEqual(['{"jsonrpc":"2.0","id":1,"result":{"x":1}}']);
    expect(bed.log).toEqual(['late answer dropped']);
  });

  it('gets a large answer under its own id where the child has rounded it', async () => {
    const bed = await startBed();
    const link = bed.open();
    bed.say('{"id":9007199254740993,"method":"x"}');
    link.acceptChunks([Buffer.from('{"jsonrpc":"2.0","id":9007199254740992,"result":{"x":'), Buffer.from('1}}')], 56);
    expect(bed.sent).toEqual(['{"jsonrpc":"2.0","id":9007199254740993,"result":{"x":1}}']);
  });

  it('gets one answer: a second one is dropped', async () => {
    const bed = await startBed();
    const link = bed.open();
    bed.say(call(1));
    link.accept(Buffer.from('{"id":1,"result":{}}'));
    link.accept(Buffer.from('{"id":1,"result":{}}'));
    expect(bed.sent).toHaveLength(1);
    expect(bed.log).toEqual(['late answer dropped']);
  });

  it('that waits is not answered by a child it was never sent to', async () => {
    const bed = await startBed();
    const link = bed.open();
    bed.gate.link = undefined;
    bed.say(call(1));
    link.accept(Buffer.from('{"id":1,"result":{}}'));
    expect(bed.sent).toEqual([]);
    expect(bed.gate.waiting.size).toBe(1);
  });

  it.each([
    ['1', '1.0'],
    ['"a"', '"\\u0061"'],
    ['0', '0'],
  ])('is refused under the id %s while %s is running, and taken afterwards', async (first, second) => {
    const bed = await startBed();
    const link = bed.open();
    bed.say(`{"id":${first},"method":"x"}`, `{"id":${second},"method":"ping"}`);
    expect(bed.answers()).toMatchObject([{ error: { code: -32600, data: { reason: 'invalid_request' } } }]);
    expect(bed.toChild).toHaveLength(1);
    link.accept(Buffer.from(`{"id":${first},"result":{}}`));
    bed.say(`{"id":${second},"method":"x"}`);
    expect(bed.toChild).toHaveLength(2);
  });

  it('that fails at the gate is told so, as a result for a call and as an error for the rest', async () => {
    const bed = await startBed();
    bed.say(call(1), '{"id":2,"method":"prompts/list"}');
    for (const ticket of bed.gate.waiting) ticket.fail(new BridgeError('start_pending', 'Wait.', { hint: 'Retry.' }));
    expect(bed.answers()).toEqual([
      { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'Wait.\nRetry.' }], isError: true } },
      {
        jsonrpc: '2.0',
        id: 2,
        error: { code: -32015, message: 'Wait.', data: { reason: 'start_pending', hint: 'Retry.' } },
      },
    ]);
    bed.say(call(1));
    expect(bed.sent).toHaveLength(2);
  });
});

describe('the loss of a child', () => {
  it('answers what was with it, and nothing that waits or is with another one', async () => {
    const bed = await startBed();
    const lost = bed.open();
    bed.say(call(1), '{"id":2,"method":"x"}');
    const next = bed.open();
    bed.say(call(3));
    bed.gate.link = undefined;
    bed.say(call(4));
    bed.relay.failAll(lost, () => new BridgeError('child_lost', 'gone'));
    expect(bed.answers()).toMatchObject([
      { id: 1, result: { isError: true, content: [{ text: 'gone' }] } },
      { id: 2, error: { code: -32014, message: 'gone' } },
    ]);
    next.accept(Buffer.from('{"id":3,"result":{}}'));
    expect(bed.sent).toHaveLength(3);
    expect(bed.gate.waiting.size).toBe(1);
  });
});

describe('the end of a session', () => {
  it('answers everything that has no answer, once', async () => {
    const bed = await startBed({ run: () => new Promise(() => undefined) });
    const link = bed.open();
    bed.say(call(1), call(2, 'info'));
    bed.gate.link = undefined;
    bed.say(call(3));
    bed.relay.close(new BridgeError('closing', 'The end.'));
    bed.relay.close(new BridgeError('closing', 'The end.'));
    for (const ticket of bed.gate.waiting) ticket.fail(new BridgeError('closing', 'again'));
    link.accept(Buffer.from('{"id":1,"result":{}}'));
    expect(bed.answers().map(({ id }) => id)).toEqual([1, 2, 3]);
    expect(bed.sent.every((line) => line.includes('The end.'))).toBe(true);
  });
});
