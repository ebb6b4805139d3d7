import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { openEndpoint } from '../../../src/cdp/endpoint.ts';
import { endFakeTimers, fakeTimers, openFake } from './browser-bed.ts';

beforeEach(fakeTimers);
afterEach(endFakeTimers);

describe('a request', () => {
  it('is answered by what has its id, however the answers are ordered', async () => {
    const { socket, endpoint } = openFake();
    const [one, two] = [endpoint.request('A.one'), endpoint.request('A.two', { x: 1 }, { sessionId: 's' })];
    expect(socket.sent).toEqual([
      { id: 1, method: 'A.one', params: {} },
      { id: 2, method: 'A.two', params: { x: 1 }, sessionId: 's' },
    ]);
    socket.say({ id: 2, result: { n: 2 } });
    socket.say({ id: 1, result: { n: 1 } });
    expect(await Promise.all([one, two])).toEqual([{ n: 1 }, { n: 2 }]);
  });

  it('takes no notice of events, of what is no JSON, of ids that are none, and of second answers', async () => {
    const { socket, endpoint } = openFake();
    const asked = endpoint.request('A.one');
    for (const noise of ['{"id":1', '', 'null', '[]', '[{"id":1}]', '"1"', '{"id":"1","result":{}}', '{"result":{}}'])
      socket.say(noise);
    socket.say({ method: 'Target.targetCreated', params: { id: 1 } });
    socket.say({ error: { code: -32700, message: 'no id' } });
    socket.say({ id: 99, result: {} });
    socket.say({ id: 1, result: { first: true } });
    socket.say({ id: 1, result: { first: false } });
    socket.say({ id: 1, error: { message: 'late' } });
    expect(await asked).toEqual({ first: true });
    expect(endpoint.isOpen).toBe(true);
  });

  it('with an answer without a result has an empty one', async () => {
    const { socket, endpoint } = openFake();
    const asked = endpoint.request('A.one');
    socket.say({ id: 1 });
    expect(await asked).toEqual({});
  });

  it('that is refused rejects with the words of the browser', async () => {
    const { socket, endpoint } = openFake();
    const asked = endpoint.request('A.one');
    socket.say({ id: 1, error: { code: -32601, message: "'A.one' wasn't found" } });
    await expect(asked).rejects.toMatchObject({
      code: 'cdp_start_failed',
      message: "The browser refused a request: 'A.one' wasn't found",
    });
  });

  it('that is not answered rejects at its limit and not before, and its late answer harms nobody', async () => {
    const { socket, endpoint } = openFake();
    const asked = endpoint.request('A.one', {}, { timeoutMs: 300 });
    const refused = vi.fn<(failure: unknown) => void>();
    asked.catch(refused);
    await vi.advanceTimersByTimeAsync(299);
    expect(refused).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(refused).toHaveBeenCalledWith(
      expect.objectContaining({
        code: 'cdp_start_failed',
        message: 'The browser did not answer A.one within 300 ms.',
      }),
    );
    socket.say({ id: 1, result: {} });
    const next = endpoint.request('A.two');
    socket.say({ id: 2, result: { n: 2 } });
    expect(await next).toEqual({ n: 2 });
  });
});

describe('the end of a connection', () => {
  it('by the browser rejects what waits, and what is asked afterwards without sending it', async () => {
    const { socket, endpoint } = openFake();
    const asked = ['A.one', 'A.two'].map((method) => endpoint.request(method));
    socket.end();
    for (const one of asked) await expect(one).rejects.toMatchObject({ code: 'cdp_start_failed' });
    await endpoint.closed;
    expect(endpoint.isOpen).toBe(false);
    await expect(endpoint.request('A.three')).rejects.toThrow('has ended');
    expect(socket.sent).toHaveLength(2);
  });

  it('by the bridge does the same, and may be said twice', async () => {
    const { endpoint } = openFake();
    const asked = endpoint.request('A.one');
    endpoint.close();
    endpoint.close();
    await expect(asked).rejects.toThrow('has ended');
    await endpoint.closed;
  });

  it('comes at once after a frame that is none', async () => {
    const { socket, endpoint } = openFake();
    const asked = endpoint.request('A.one');
    socket.emit('error', new RangeError('Invalid WebSocket frame'));
    await expect(asked).rejects.toThrow('has ended');
    await endpoint.closed;
  });
});

it('opens nothing for a session that has ended', async () => {
  const opening = openEndpoint({ port: 1, browserId: 'b' }, 1000, AbortSignal.abort());
  await expect(opening).rejects.toMatchObject({ code: 'closing' });
});
