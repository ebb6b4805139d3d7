import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type BrowserLoss, watchBrowser } from '../../../src/cdp/sentinel.ts';
import { endFakeTimers, type FakeSocket, fakeTimers, openFake } from './browser-bed.ts';

beforeEach(fakeTimers);
afterEach(endFakeTimers);

interface Bed {
  readonly socket: FakeSocket;
  readonly losses: BrowserLoss[];
  readonly close: () => void;
}

/** Watches a browser that answers with `contexts` until the test says otherwise. */
function watch(contextId?: string, contexts: string[] = ['own']): Bed {
  const { socket, endpoint } = openFake();
  socket.answer = ({ method }) => (method === 'Browser.getVersion' ? {} : { browserContextIds: contexts });
  const losses: BrowserLoss[] = [];
  const onLost = (loss: BrowserLoss): void => void losses.push(loss);
  const watched = watchBrowser({ endpoint, contextId, intervalMs: 5000, limitMs: 15_000, onLost });
  return {
    socket,
    losses,
    close: () => {
      watched.close();
    },
  };
}

const methods = (socket: FakeSocket): string[] => socket.sent.map(({ method }) => method);

it('asks at each interval for the version, and for the contexts only where one has to stay', async () => {
  const [plain, own] = [watch(), watch('own')];
  await vi.advanceTimersByTimeAsync(4999);
  expect(plain.socket.sent).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(methods(plain.socket)).toEqual(['Browser.getVersion']);
  expect(methods(own.socket)).toEqual(['Browser.getVersion', 'Target.getBrowserContexts']);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(methods(plain.socket)).toHaveLength(13);
  expect([...plain.losses, ...own.losses]).toEqual([]);
  plain.close();
  own.close();
});

describe('the end of the connection', () => {
  it('is told at once, and once', async () => {
    const { socket, losses } = watch('own');
    socket.end();
    await vi.advanceTimersByTimeAsync(0);
    expect(losses).toEqual(['sentinel_closed']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(losses).toEqual(['sentinel_closed']);
  });

  it('is no silence when it comes while a heartbeat waits', async () => {
    const { socket, losses } = watch();
    socket.answer = () => undefined;
    await vi.advanceTimersByTimeAsync(6000);
    socket.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(losses).toEqual(['sentinel_closed']);
  });

  it('is no silence when a heartbeat falls between the goodbye and the end', async () => {
    const { socket, losses } = watch();
    await vi.advanceTimersByTimeAsync(4900);
    socket.readyState = 2;
    await vi.advanceTimersByTimeAsync(200);
    expect(losses).toEqual([]);
    socket.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(losses).toEqual(['sentinel_closed']);
  });

  it('is nobody’s business after the watch was closed', async () => {
    const { socket, losses, close } = watch('own');
    close();
    socket.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(losses).toEqual([]);
    expect(socket.sent).toEqual([]);
  });
});

describe('silence', () => {
  it('counts as a loss at the limit and not before, and is told once', async () => {
    const { socket, losses } = watch();
    socket.answer = () => undefined;
    await vi.advanceTimersByTimeAsync(5000 + 14_999);
    expect(losses).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(losses).toEqual(['heartbeat_timeout']);
    expect(socket.sent).toHaveLength(1);
    socket.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(losses).toEqual(['heartbeat_timeout']);
  });

  it('to the question for the contexts counts too', async () => {
    const { socket, losses } = watch('own');
    socket.answer = ({ method }) => (method === 'Browser.getVersion' ? {} : undefined);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(losses).toEqual(['heartbeat_timeout']);
  });

  it('that ends just before the limit is none', async () => {
    const { socket, losses, close } = watch();
    socket.answer = () => undefined;
    await vi.advanceTimersByTimeAsync(19_999);
    socket.say({ id: 1, result: {} });
    socket.answer = () => ({});
    await vi.advanceTimersByTimeAsync(30_000);
    expect(losses).toEqual([]);
    close();
  });

  it('while the bridge itself was stopped is none of the browser, which is asked anew', async () => {
    const { socket, losses, close } = watch();
    const answer = socket.answer;
    socket.answer = () => undefined;
    await vi.advanceTimersByTimeAsync(5000);
    // Asleep for an hour: the clock goes on and the timers are late.
    const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 3_600_000);
    await vi.advanceTimersByTimeAsync(15_000);
    clock.mockRestore();
    expect(losses).toEqual([]);
    socket.answer = answer;
    await vi.advanceTimersByTimeAsync(5000);
    expect(methods(socket)).toHaveLength(2);
    expect(losses).toEqual([]);
    close();
  });

  it('after that counts as ever', async () => {
    const { socket, losses } = watch();
    socket.answer = () => undefined;
    await vi.advanceTimersByTimeAsync(5000);
    const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 3_600_000);
    await vi.advanceTimersByTimeAsync(15_000);
    clock.mockRestore();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(losses).toEqual(['heartbeat_timeout']);
  });
});

describe('the browser context of MCP', () => {
  it('counts as a loss when it is gone, at the next heartbeat', async () => {
    const contexts = ['other', 'own'];
    const { losses } = watch('own', contexts);
    await vi.advanceTimersByTimeAsync(9000);
    contexts.pop();
    expect(losses).toEqual([]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(losses).toEqual(['mcp_context_gone']);
  });

  it('is not asked for in a default context, which cannot go', async () => {
    const { losses, close } = watch(undefined, []);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(losses).toEqual([]);
    close();
  });
});
