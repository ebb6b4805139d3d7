import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { readEnvelope } from '../../../src/core/envelope.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { LineParts } from '../../../src/core/framing.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { type CatalogParts, findCatalog } from '../../../src/session/catalog-source.ts';
import {
  type Generation,
  type GenerationParts,
  type StartedChild,
  describeExit,
  lastWords,
  learnCatalog,
  startGeneration,
} from '../../../src/session/generation.ts';
import type { Child, ChildEvents, ChildExit } from '../../../src/upstream/child.ts';

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const timeoutMs = 5000;
const never = new AbortController().signal;
/** Takes the end of a listing child, for which nobody waits. */
const keep = vi.fn<(closing: Promise<void>) => void>();

type Answer = (request: { id: string; method: string; params: unknown }) => string | undefined;

/** A child without a process: answers what `answer` gives, and ends when the test says so or when it is closed. */
class FakeChild {
  readonly pid = 77;
  readonly got: string[] = [];
  readonly closings: number[] = [];
  tail = '';
  isReleased = false;
  readonly #answer: Answer;
  #events: ChildEvents | undefined;
  end: (exit: ChildExit) => void = () => undefined;
  readonly ended: Promise<ChildExit>;

  constructor(answer: Answer) {
    this.#answer = answer;
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  get started(): StartedChild {
    return { child: this as unknown as Child, release: () => void (this.isReleased = true) };
  }

  listen(events: ChildEvents): void {
    this.#events = events;
  }

  mute(): void {
    this.#events = undefined;
  }

  stderrTail(): string {
    return this.tail;
  }

  send(parts: LineParts): void {
    const line = parts.join('');
    this.got.push(line);
    const message = JSON.parse(line) as Parameters<Answer>[0];
    const answer = message.id === undefined ? undefined : this.#answer(message);
    if (answer !== undefined) this.say(`{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${answer}}`);
  }

  say(line: string): void {
    this.#events?.onLine(Buffer.from(line));
  }

  close(graceMs: number): Promise<void> {
    this.closings.push(graceMs);
    this.end({ code: 0, signal: null });
    return Promise.resolve();
  }

  methods(): string[] {
    return this.got.map((line) => (JSON.parse(line) as { method: string }).method);
  }
}

const wellBehaved: Answer = ({ method }) => {
  if (method === 'initialize') return '{"capabilities":{"tools":{}},"serverInfo":{"name":"up"}}';
  return method === 'tools/list' ? '{"tools":[{"name":"a"}]}' : '{}';
};

function makeParts(child: FakeChild, some: Partial<GenerationParts> = {}): GenerationParts {
  return {
    number: 3,
    logger: silent,
    initialize: { protocolVersion: '2025-06-18', capabilities: { roots: {} } },
    logLevel: undefined,
    timeoutMs,
    closeGraceMs: 4000,
    link: { ownPrefix: 'own/', rootsTimeoutMs: 1000, nextOuterId: () => 0 },
    startChild: () => Promise.resolve(child.started),
    ...some,
  };
}

async function start(child: FakeChild, some: Partial<GenerationParts> = {}): Promise<Generation> {
  return (await startGeneration(makeParts(child, some), never)).generation;
}

/** What a promise is rejected with. */
function failureOf(promise: Promise<unknown>): Promise<BridgeError> {
  return promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (failure: unknown) => failure as BridgeError,
  );
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('startGeneration', () => {
  it("replays the client's initialize, tells the child that it is done, and returns its answer", async () => {
    const child = new FakeChild(wellBehaved);
    const { generation, answer } = await startGeneration(makeParts(child), never);
    expect(child.got.map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        jsonrpc: '2.0',
        id: 'own/0',
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: { roots: {} } },
      },
      { jsonrpc: '2.0', method: 'notifications/initialized' },
    ]);
    expect(answer.toString()).toBe(wellBehaved({ id: '', method: 'initialize', params: {} }));
    expect([generation.number, generation.state]).toEqual([3, 'ready']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('repeats the log level that the client set, and does not mind an upstream that refuses it', async () => {
    const child = new FakeChild((request) => (request.method === 'initialize' ? '{}' : undefined));
    const generation = await start(child, { logLevel: 'debug' });
    expect(child.got[2]).toBe('{"jsonrpc":"2.0","id":"own/1","method":"logging/setLevel","params":{"level":"debug"}}');
    child.say('{"id":"own/1","error":{"code":-32601,"message":"no"}}');
    await vi.advanceTimersByTimeAsync(0);
    expect(generation.state).toBe('ready');
  });

  it('fails with what the child said last when it ends first, and leaves nothing', async () => {
    const child = new FakeChild(() => undefined);
    child.tail = 'Error: no display';
    const failing = failureOf(start(child));
    await vi.advanceTimersByTimeAsync(10);
    child.end({ code: 7, signal: null });
    expect(await failing).toMatchObject({
      code: 'child_start_failed',
      message:
        'The upstream process ended before it answered initialize (exit code 7). Its last lines were:\nError: no display',
      data: { phase: 'start', exitCode: 7, signal: null },
    });
    expect(child.closings).toEqual([0]);
    expect(child.isReleased).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('fails when there is no answer at the limit, and not before', async () => {
    const child = new FakeChild(() => undefined);
    const failing = failureOf(start(child));
    await vi.advanceTimersByTimeAsync(timeoutMs - 1);
    expect(child.closings).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await failing).toMatchObject({
      code: 'child_start_timeout',
      message: 'The upstream process did not answer initialize within 5000 ms.',
    });
    expect([child.closings, child.isReleased]).toEqual([[0], true]);
  });

  it('fails with the answer of an upstream that refuses initialize', async () => {
    const child = new FakeChild(() => undefined);
    const failing = failureOf(start(child));
    await vi.advanceTimersByTimeAsync(0);
    child.say('{"id":"own/0","error":{"code":-32602,"message":"bad"}}');
    expect((await failing).message).toContain('"bad"');
    expect(child.isReleased).toBe(true);
  });

  it('ends what it has begun when it is aborted', async () => {
    const child = new FakeChild(() => undefined);
    const controller = new AbortController();
    const failing = failureOf(startGeneration(makeParts(child), controller.signal));
    await vi.advanceTimersByTimeAsync(0);
    controller.abort();
    expect((await failing).code).toBe('closing');
    expect([child.closings, child.isReleased]).toEqual([[0], true]);
  });

  it('leaves nothing on the signal of a session that has many of them', async () => {
    const { signal } = new AbortController();
    await startGeneration(makeParts(new FakeChild(wellBehaved)), signal);
    await learnCatalog(makeParts(new FakeChild(wellBehaved)), signal, keep);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('passes on why no child could be made', async () => {
    const failure = new BridgeError('folder_unwritable', 'full');
    const child = new FakeChild(wellBehaved);
    expect(await failureOf(start(child, { startChild: () => Promise.reject(failure) }))).toBe(failure);
  });
});

describe('a generation', () => {
  it('is lost once, and only while it is ready', async () => {
    const generation = await start(new FakeChild(wellBehaved));
    expect(generation.markLost()).toBe(true);
    expect(generation.state).toBe('lost');
    expect(generation.markLost()).toBe(false);
  });

  it('that is closed is not lost by the end of its child', async () => {
    const generation = await start(new FakeChild(wellBehaved));
    await generation.close();
    expect(generation.markLost()).toBe(false);
    expect(generation.state).toBe('closed');
  });

  it('gives a used child its time to end, and an unused one none', async () => {
    const [unused, used] = [new FakeChild(wellBehaved), new FakeChild(wellBehaved)];
    await (await start(unused)).close();
    const generation = await start(used);
    const request = readEnvelope(Buffer.from('{"id":1,"method":"x"}'));
    if ('bad' in request) throw new Error(request.bad);
    generation.link.forward(request);
    await generation.close();
    await generation.close();
    expect([unused.closings, used.closings]).toEqual([[0], [4000]]);
  });

  it('ends the child before it removes its folder, and fails what was still asked', async () => {
    const child = new FakeChild((request) => (request.method === 'initialize' ? '{}' : undefined));
    const generation = await start(child);
    const asked = failureOf(generation.link.request('tools/list', {}));
    child.close = () => {
      expect(child.isReleased).toBe(false);
      return Promise.resolve();
    };
    await generation.close();
    expect((await asked).code).toBe('child_lost');
    expect(child.isReleased).toBe(true);
  });

  it('removes its folder even when the child cannot be ended', async () => {
    const child = new FakeChild(wellBehaved);
    const generation = await start(child);
    child.close = () => Promise.reject(new Error('stuck'));
    await expect(generation.close()).rejects.toThrow('1 release(s) failed');
    expect(child.isReleased).toBe(true);
  });
});

describe('the end of a child in words', () => {
  it.each([
    [{ code: 0, signal: null }, 'exit code 0'],
    [{ code: 139, signal: null }, 'exit code 139'],
    [{ code: null, signal: 'SIGKILL' }, 'signal SIGKILL'],
    [{ code: null, signal: null }, 'exit code unknown'],
    [{ code: null, signal: null, failure: 'spawn ENOENT' }, 'spawn ENOENT'],
  ] as const)('is %j as %j', (exit, words) => {
    expect(describeExit(exit)).toBe(words);
  });

  it('says nothing of last lines where there are none', () => {
    expect(lastWords(new FakeChild(wellBehaved).started.child)).toBe('');
  });
});

describe('learnCatalog', () => {
  it('returns the answer and the list of a child, and ends it', async () => {
    const child = new FakeChild(wellBehaved);
    expect(await learnCatalog(makeParts(child), never, keep)).toEqual({
      initialize: { capabilities: { tools: {} }, serverInfo: { name: 'up' } },
      tools: [{ name: 'a', text: '{"name":"a"}' }],
      members: {},
    });
    await keep.mock.lastCall?.[0];
    expect([child.closings, child.isReleased]).toEqual([[0], true]);
    expect(child.methods()).toEqual(['initialize', 'notifications/initialized', 'tools/list']);
  });

  it('fails at the limit when the list does not come, and ends the child', async () => {
    const child = new FakeChild((request) => (request.method === 'initialize' ? '{}' : undefined));
    const failing = failureOf(learnCatalog(makeParts(child), never, keep));
    await vi.advanceTimersByTimeAsync(timeoutMs);
    expect((await failing).code).toBe('child_start_timeout');
    expect(child.isReleased).toBe(true);
  });

  it('has one limit for the answer and the list', async () => {
    const child = new FakeChild(() => undefined);
    const failing = failureOf(learnCatalog(makeParts(child), never, keep));
    await vi.advanceTimersByTimeAsync(3000);
    child.say('{"id":"own/0","result":{}}');
    await vi.advanceTimersByTimeAsync(1999);
    expect(child.isReleased).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(child.isReleased).toBe(true);
    expect((await failing).code).toBe('child_start_timeout');
  });

  it('ends its child at once when the session ends while its tools are read', async () => {
    const child = new FakeChild((request) => (request.method === 'initialize' ? '{}' : undefined));
    const controller = new AbortController();
    const failing = failureOf(learnCatalog(makeParts(child), controller.signal, keep));
    await vi.advanceTimersByTimeAsync(10);
    controller.abort();
    expect((await failing).code).toBe('closing');
    expect(child.isReleased).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('fails at once when the child dies while its tools are read', async () => {
    const child = new FakeChild((request) => (request.method === 'initialize' ? '{}' : undefined));
    const failing = failureOf(learnCatalog(makeParts(child), never, keep));
    await vi.advanceTimersByTimeAsync(10);
    child.end({ code: 1, signal: null });
    await vi.advanceTimersByTimeAsync(10);
    expect(child.isReleased).toBe(true);
    await vi.advanceTimersByTimeAsync(timeoutMs);
    expect((await failing).code).toBe('child_start_failed');
  });
});

describe('findCatalog', () => {
  const stored = { initialize: {}, tools: [{ name: 'stored', text: '{"name":"stored"}' }], members: {} };

  function makeSource(
    children: (isPlain: boolean) => FakeChild,
    some: Partial<CatalogParts> = {},
  ): { parts: CatalogParts; starts: boolean[]; written: unknown[] } {
    const [starts, written]: [boolean[], unknown[]] = [[], []];
    const parts: CatalogParts = {
      logger: silent,
      store: { read: () => undefined, write: (catalog) => void written.push(catalog) },
      version: '1',
      onClosing: keep,
      timeoutMs,
      hasSettings: true,
      startListing: (isPlain) => {
        starts.push(isPlain);
        return children(isPlain).started;
      },
      ...some,
    };
    return { parts, starts, written };
  }

  function makeDying(): FakeChild {
    const child = new FakeChild(() => undefined);
    child.end({ code: 1, signal: null });
    return child;
  }

  it('takes the stored one without a child', async () => {
    const { parts, starts, written } = makeSource(makeDying, { store: { read: () => stored, write: () => undefined } });
    expect(await findCatalog(parts, never)).toBe(stored);
    expect([starts, written]).toEqual([[], []]);
  });

  it('learns it from a child and stores it', async () => {
    const { parts, starts, written } = makeSource(() => new FakeChild(wellBehaved));
    const catalog = await findCatalog(parts, never);
    expect(catalog?.tools.map(({ name }) => name)).toEqual(['a']);
    expect(written).toEqual([catalog]);
    expect(starts).toEqual([false]);
  });

  it('asks again without the settings that upstream refuses, and does not store what it then says', async () => {
    const { parts, starts, written } = makeSource((isPlain) => (isPlain ? new FakeChild(wellBehaved) : makeDying()));
    expect((await findCatalog(parts, never))?.tools).toHaveLength(1);
    expect(starts).toEqual([false, true]);
    expect(written).toEqual([]);
  });

  it('has one limit for both tries, since the client waits for its first answer', async () => {
    const refusing = new FakeChild(() => undefined);
    const { parts, starts } = makeSource((isPlain) => (isPlain ? new FakeChild(() => undefined) : refusing));
    let isDone = false;
    const finding = findCatalog(parts, never).finally(() => (isDone = true));
    await vi.advanceTimersByTimeAsync(timeoutMs - 1000);
    refusing.end({ code: 1, signal: null });
    await vi.advanceTimersByTimeAsync(999);
    expect([starts, isDone]).toEqual([[false, true], false]);
    await vi.advanceTimersByTimeAsync(2);
    expect(isDone).toBe(true);
    expect(await finding).toBeUndefined();
  });

  it('does not ask again where there are no settings to leave out', async () => {
    const { parts, starts } = makeSource(makeDying, { hasSettings: false });
    expect(await findCatalog(parts, never)).toBeUndefined();
    expect(starts).toEqual([false]);
  });

  it('does not ask again after a child that said nothing', async () => {
    const { parts, starts } = makeSource(() => new FakeChild(() => undefined));
    const finding = findCatalog(parts, never);
    await vi.advanceTimersByTimeAsync(timeoutMs);
    expect(await finding).toBeUndefined();
    expect(starts).toEqual([false]);
  });

  it('does not ask again once the session ends', async () => {
    const { parts, starts } = makeSource(() => new FakeChild(() => undefined));
    const controller = new AbortController();
    const finding = findCatalog(parts, controller.signal);
    await vi.advanceTimersByTimeAsync(0);
    controller.abort();
    expect(await finding).toBeUndefined();
    expect(starts).toEqual([false]);
  });

  it('is undefined when a child refuses both ways', async () => {
    const { parts, starts } = makeSource(makeDying);
    expect(await findCatalog(parts, never)).toBeUndefined();
    expect(starts).toEqual([false, true]);
  });

  it('is undefined when no child can be started', async () => {
    const { parts } = makeSource(makeDying, {
      startListing: () => {
        throw new BridgeError('folder_unwritable', 'full');
      },
    });
    expect(await findCatalog(parts, never)).toBeUndefined();
  });
});
