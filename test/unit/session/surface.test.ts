import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { SurfaceGeneration } from '../../../src/cdp/surface.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { Surface } from '../../../src/session/surface-port.ts';
import { Bed, catalog, settle } from './session-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A surface without a browser, and what was asked of it, in order. */
class FakeSurface implements Surface {
  readonly log: string[] = [];
  readonly opened: SurfaceGeneration[] = [];
  failure: BridgeError | undefined;
  /** What opening waits for. */
  wait: Promise<void> = Promise.resolve();
  signal: AbortSignal | undefined;

  async open(generation: SurfaceGeneration, signal: AbortSignal): Promise<void> {
    this.log.push(`open ${generation.number}`);
    this.signal = signal;
    await this.wait;
    if (this.failure !== undefined) throw this.failure;
    this.opened.push(generation);
  }

  withdraw({ generation, code }: { generation: number; code: string }): void {
    this.log.push(`withdraw ${generation} ${code}`);
  }

  stop(): void {
    this.log.push('stop');
  }

  close(): Promise<void> {
    this.log.push('close');
    return Promise.resolve();
  }

  get last(): SurfaceGeneration {
    const generation = this.opened.at(-1);
    if (generation === undefined) throw new Error('nothing was opened');
    return generation;
  }
}

let surface: FakeSurface;
let bed: Bed;

beforeEach(async () => {
  surface = new FakeSurface();
  bed = new Bed(Promise.resolve(catalog), { surface });
  bed.say(
    '{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
  );
  await settle();
  bed.sent.length = 0;
});

afterEach(async () => {
  const closing = bed.session.close();
  await vi.advanceTimersByTimeAsync(60_000);
  await closing;
});

/** The calls that a child got and has not answered. */
function callsOf(number: number): { readonly id?: string | number }[] {
  return bed.child(number).of('tools/call');
}

function answer(number: number, at: number): void {
  const call = callsOf(number)[at];
  if (call !== undefined) bed.child(number).answer(call, '{"content":[]}');
}

describe('a session with a surface', () => {
  it('boots its child ahead, and opens the surface with the first call, before that call', async () => {
    expect([bed.children.length, surface.log]).toEqual([1, []]);
    let go = (): void => undefined;
    surface.wait = new Promise((resolve) => (go = resolve));
    bed.call(1);
    bed.call(2);
    await settle();
    expect([surface.log, callsOf(1)]).toEqual([['open 1'], []]);
    go();
    await settle();
    expect(callsOf(1).map(({ id }) => id)).toEqual([1, 2]);
    expect(bed.children).toHaveLength(1);
  });

  it('starts a child of its own for the call when the one ahead has died', async () => {
    bed.child(1).die({ code: 1, signal: null });
    await settle();
    bed.call(1);
    await settle();
    expect([surface.log, callsOf(2).length]).toEqual([['open 1'], 1]);
  });

  it('fails all waiting calls alike when it cannot be opened, sends none of them, and tries again for the next', async () => {
    surface.failure = new BridgeError('cdp_start_failed', 'No proof.');
    for (let id = 1; id <= 10; id += 1) bed.call(id);
    await settle();
    const sent = bed.takeSent();
    expect(sent.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(new Set(sent.map(({ result }) => JSON.stringify(result))).size).toBe(1);
    expect(JSON.stringify(sent[0])).toContain('No proof.');
    expect([callsOf(1), bed.child(1).isClosed]).toEqual([[], true]);
    surface.failure = undefined;
    bed.call(11);
    await vi.advanceTimersByTimeAsync(250);
    expect(callsOf(2).map(({ id }) => id)).toEqual([11]);
    expect(surface.log).toEqual(['open 1', 'withdraw 1 start_failed', 'open 1']);
  });

  it('gives up opening after the time for a restart, and kills what hangs', async () => {
    surface.wait = new Promise(() => undefined);
    bed.call(1);
    await vi.advanceTimersByTimeAsync(45_000);
    expect(JSON.stringify(bed.takeSent())).toContain('not ready yet');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(surface.signal?.aborted).toBe(true);
    expect([bed.child(1).isClosed, bed.child(1).graceMs]).toEqual([true, 0]);
  });

  it('tells at once that the child died while it was being opened', async () => {
    surface.wait = new Promise(() => undefined);
    bed.call(1);
    await settle();
    bed.child(1).die({ code: null, signal: 'SIGKILL' });
    await settle();
    expect(JSON.stringify(bed.takeSent())).toContain('signal SIGKILL');
    expect(surface.signal?.aborted).toBe(true);
  });

  it('ends while it is being opened', async () => {
    surface.wait = new Promise(() => undefined);
    bed.call(1);
    await settle();
    await bed.session.close();
    expect(surface.signal?.aborted).toBe(true);
    expect(surface.log).toEqual(['open 1', 'stop', 'withdraw 1 start_failed', 'close']);
    expect(bed.child(1).isClosed).toBe(true);
  });
});

describe('the loss of a browser whose child lives', () => {
  beforeEach(async () => {
    bed.call(1);
    await settle();
    answer(1, 0);
    bed.takeSent();
  });

  it('withdraws it at once, starts nothing, and gives the next ten calls one replacement, each once', async () => {
    surface.last.onLost('sentinel_closed');
    expect(surface.log).toEqual(['open 1', 'withdraw 1 sentinel_closed']);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([bed.children.length, bed.child(1).isClosed, bed.child(1).graceMs]).toEqual([1, true, 0]);
    for (let id = 2; id <= 11; id += 1) bed.call(id);
    await settle();
    expect(bed.children).toHaveLength(2);
    expect(callsOf(2).map(({ id }) => id)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(callsOf(1)).toHaveLength(1);
    expect(surface.log.at(-1)).toBe('open 2');
    expect(bed.session.lastLoss).toMatchObject({ generation: 1, code: 'sentinel_closed' });
  });

  it('lets the child answer what it has, and fails the rest after the grace', async () => {
    bed.call(2);
    bed.call(3);
    await settle();
    surface.last.onLost('heartbeat_timeout');
    answer(1, 1);
    await settle();
    expect(bed.takeSent().map(({ id }) => id)).toEqual([2]);
    expect(bed.child(1).isClosed).toBe(false);
    await vi.advanceTimersByTimeAsync(5000);
    const [failed] = bed.takeSent();
    expect([failed?.id, JSON.stringify(failed?.result)]).toEqual([
      3,
      expect.stringContaining('does not answer any more'),
    ]);
    expect(bed.child(1).isClosed).toBe(true);
  });

  it('by browser_close is told as such, and its answer is the child own one', async () => {
    bed.say('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"browser_close"}}');
    await settle();
    surface.last.onLost('sentinel_closed');
    expect(surface.log.at(-1)).toBe('withdraw 1 browser_close_tool');
    answer(1, 1);
    await settle();
    expect(bed.takeSent().filter(({ id }) => id === 2)).toEqual([{ jsonrpc: '2.0', id: 2, result: { content: [] } }]);
    expect(bed.child(1).isClosed).toBe(true);
  });

  it('is the loss of the child when that ends first, and is noticed once', async () => {
    bed.child(1).die({ code: null, signal: 'SIGKILL' });
    await settle();
    surface.last.onLost('sentinel_closed');
    await settle();
    expect(surface.log).toEqual(['open 1', 'withdraw 1 child_exit']);
    expect(bed.session.lastLoss).toMatchObject({ code: 'child_exit' });
  });

  it('holds the replacement back until the old child is gone', async () => {
    let end = (): void => undefined;
    bed.child(1).endSlowly = new Promise((resolve) => (end = resolve));
    surface.last.onLost('sentinel_closed');
    bed.call(2);
    await settle();
    expect(bed.children).toHaveLength(1);
    end();
    await settle();
    expect([bed.children.length, callsOf(2).length]).toEqual([2, 1]);
  });
});

it('the end of the session closes the door first, then the child, and gives back the port last', async () => {
  bed.call(1);
  await settle();
  let end = (): void => undefined;
  bed.child(1).endSlowly = new Promise((resolve) => (end = resolve));
  const closing = bed.session.close();
  await settle();
  expect(surface.log).toEqual(['open 1', 'stop']);
  end();
  await closing;
  expect(surface.log).toEqual(['open 1', 'stop', 'close']);
});

it('an eager session opens its surface with initialize', async () => {
  const own = new FakeSurface();
  const eager = new Bed(Promise.resolve(catalog), { surface: own, opensSurface: true });
  await eager.open();
  expect(own.log).toEqual(['open 1']);
  await eager.session.close();
});
