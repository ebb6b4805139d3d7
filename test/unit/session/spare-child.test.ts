import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { toBridgeError } from '../../../src/core/errors.ts';
import type { LineParts } from '../../../src/core/framing.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { bootSpare } from '../../../src/session/spare-child.ts';
import type { Child, ChildEvents, ChildExit } from '../../../src/upstream/child.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

interface Message {
  readonly id?: string;
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

const nothing = (): void => undefined;
const logger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

interface Bed {
  readonly got: Message[];
  readonly abort: AbortController;
  /** How the boot went: `done`, or the code and the message of its failure. */
  readonly result: () => Promise<string>;
  readonly isMuted: () => boolean;
  /** Answers the last request. */
  answer(body?: string): Promise<void>;
  say(text: string): void;
  end(exit: ChildExit): void;
}

function boot(isWarm: boolean): Bed {
  const got: Message[] = [];
  let events: ChildEvents | undefined;
  let end: (exit: ChildExit) => void = nothing;
  const child = {
    ended: new Promise<ChildExit>((resolve) => (end = resolve)),
    listen: (wanted: ChildEvents) => (events = wanted),
    mute: () => (events = undefined),
    send: (parts: LineParts) => got.push(JSON.parse(parts.join('')) as Message),
    stderrTail: () => 'last words',
  };
  const abort = new AbortController();
  const parts = { logger, version: '1.2.3', isWarm, timeoutMs: 5000 };
  const booted = bootSpare(child as unknown as Child, parts, abort.signal).then(
    () => 'done',
    (failure: unknown) => {
      const { code, message } = toBridgeError(failure);
      return `${code}: ${message}`;
    },
  );
  const say = (text: string): void => events?.onLine(Buffer.from(text));
  return {
    got,
    abort,
    result: () => booted,
    isMuted: () => events === undefined,
    say,
    answer: async (body = '"result":{}') => {
      say(`{"jsonrpc":"2.0","id":${JSON.stringify(got.findLast(({ id }) => id !== undefined)?.id)},${body}}`);
      await vi.advanceTimersByTimeAsync(0);
    },
    end: (exit) => {
      end(exit);
    },
  };
}

describe('a spare child', () => {
  it('is there when it answers, which only one that has loaded its program does', async () => {
    const bed = boot(false);
    expect(bed.got).toMatchObject([{ method: 'ping' }]);
    expect(bed.isMuted()).toBe(false);
    await bed.answer();
    expect([await bed.result(), bed.isMuted(), vi.getTimerCount()]).toEqual(['done', true, 0]);
  });

  it('passes over what it tells meanwhile, and does not wait for an answer to what it asks', async () => {
    const bed = boot(false);
    bed.say('{"jsonrpc":"2.0","method":"notifications/message"}');
    bed.say('no JSON');
    bed.say('{"jsonrpc":"2.0","id":7,"method":"roots/list"}');
    bed.say('{"jsonrpc":"2.0","id":"spare/else","result":{}}');
    expect(bed.got.at(-1)).toMatchObject({ id: 7, error: { data: { reason: 'no_answer' } } });
    const { id } = bed.got[0] ?? {};
    bed.say(`{"jsonrpc":"2.0","id":"${id}","result":{}}`);
    expect(await bed.result()).toBe('done');
  });

  it('says ids that nobody can guess', async () => {
    const [one, other] = [boot(false), boot(false)];
    expect(one.got[0]?.id).toMatch(/^spare\/[\w-]{12}\/0$/);
    expect(one.got[0]?.id).not.toBe(other.got[0]?.id);
    await Promise.all([one.answer(), other.answer()]);
    await Promise.all([one.result(), other.result()]);
  });

  it('has its browser running where that is wanted', async () => {
    const bed = boot(true);
    expect(bed.got[0]).toMatchObject({
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { version: '1.2.3' } },
    });
    await bed.answer();
    expect(bed.got.slice(1)).toMatchObject([
      { method: 'notifications/initialized' },
      { method: 'tools/call', params: { name: 'browser_tabs', arguments: { action: 'list' } } },
    ]);
    expect(bed.isMuted()).toBe(false);
    await bed.answer('"result":{"content":[]}');
    expect([await bed.result(), bed.isMuted()]).toEqual(['done', true]);
  });
});

describe('a boot', () => {
  it('fails with a browser that does not start, and says why', async () => {
    const bed = boot(true);
    await bed.answer();
    await bed.answer('"result":{"isError":true,"content":[{"type":"text","text":"no browser here"}]}');
    expect(await bed.result()).toMatch(/^child_start_failed: .*no browser here/);
    expect(bed.isMuted()).toBe(true);
  });

  it('fails when upstream refuses', async () => {
    const bed = boot(false);
    await bed.answer('"error":{"code":-32601,"message":"what is ping"}');
    expect(await bed.result()).toMatch(/what is ping/);
    expect([bed.isMuted(), vi.getTimerCount()]).toEqual([true, 0]);
  });

  it('fails at once with the end of the process, and tells its last words', async () => {
    const bed = boot(true);
    await bed.answer();
    bed.end({ code: 3, signal: null });
    expect(await bed.result()).toMatch(/^child_start_failed: .*exit code 3.*\n?last words/s);
    expect([bed.isMuted(), vi.getTimerCount()]).toEqual([true, 0]);
  });

  it('fails when its time is over, and not before', async () => {
    const bed = boot(false);
    let isOver = false;
    void bed.result().then(() => (isOver = true));
    await vi.advanceTimersByTimeAsync(4999);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await bed.result()).toMatch(/^child_start_timeout: .*5000 ms/);
    expect(bed.isMuted()).toBe(true);
  });

  it('is broken off with the server, whatever it waits for', async () => {
    const [early, late] = [boot(false), boot(true)];
    early.abort.abort();
    await late.answer();
    late.abort.abort();
    await Promise.all([early, late].map(async (bed) => expect(await bed.result()).toMatch(/The server is ending/)));
    expect([early.isMuted(), late.isMuted(), vi.getTimerCount()]).toEqual([true, true, 0]);
  });

  it('that is over does not look at the signal any more', async () => {
    const bed = boot(false);
    await bed.answer();
    await bed.result();
    bed.end({ code: 0, signal: null });
    bed.abort.abort();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await bed.result()).toBe('done');
  });
});
