import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { type Endpoint, openEndpoint } from '../../src/cdp/endpoint.ts';
import { findMarked, makeMark } from '../../src/cdp/proof.ts';
import { type BrowserLoss, watchBrowser } from '../../src/cdp/sentinel.ts';
import { FakeBrowser, type FakeConnection } from '../support/fake-browser.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

/** What the bridge takes of one answer. */
const maxAnswerBytes = 16_777_216;
let browser: FakeBrowser;
let stop: AbortController;

beforeEach(async () => {
  browser = await FakeBrowser.start();
  stop = new AbortController();
});

afterEach(async () => {
  stop.abort();
  await browser.close();
  await waitUntil('no connection to be left', () => (socketsLeft() === 0 ? true : undefined));
});

/** TCP connections of this process to anybody; the test runner has none of its own. */
function socketsLeft(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

function open(target: { port: number; browserId: string } = browser, timeoutMs = 5000): Promise<Endpoint> {
  const { port, browserId } = target;
  return openEndpoint({ port, browserId }, timeoutMs, stop.signal);
}

/** The one connection of the browser. */
function connection(): FakeConnection {
  const [only] = browser.connections;
  if (only === undefined || browser.connections.size > 1) throw new Error(`${browser.connections.size} connections`);
  return only;
}

/** What a promise rejects with, and when. */
async function failureOf(promise: Promise<unknown>): Promise<{ code: string; message: string; afterMs: number }> {
  const startedAt = performance.now();
  try {
    await promise;
  } catch (failure) {
    const { code, message } = failure as { code: string; message: string };
    return { code, message, afterMs: performance.now() - startedAt };
  }
  throw new Error('It did not reject');
}

describe('a connection', () => {
  test('is opened at exactly the id, without an origin and without compression', async () => {
    const endpoint = await open();
    expect(browser.upgrades).toHaveLength(1);
    const [{ url, headers } = { url: '', headers: {} }] = browser.upgrades;
    expect(url).toBe(`/devtools/browser/${browser.browserId}`);
    expect(headers['origin']).toBeUndefined();
    expect(headers['sec-websocket-extensions']).toBeUndefined();
    expect(headers.host).toBe(`127.0.0.1:${browser.port}`);
    expect(await endpoint.request('Browser.getVersion')).toMatchObject({ product: 'Fake/1.0' });
    endpoint.close();
    await endpoint.closed;
    await waitUntil('the browser to notice', () => (browser.openSockets === 0 ? true : undefined));
  });

  test('carries a hundred requests at once, answered in any order', async () => {
    const endpoint = await open();
    const kept: (() => void)[] = [];
    browser.intercept = ({ webSocket }, { id, params }) => {
      kept.push(() => webSocket.send(JSON.stringify({ id, result: params })));
      if (kept.length === 100) for (const answer of kept.toReversed()) answer();
      return true;
    };
    const numbers = Array.from({ length: 100 }, (_none, n) => n);
    const answers = await Promise.all(numbers.map((n) => endpoint.request('Any.thing', { n })));
    expect(answers).toEqual(numbers.map((n) => ({ n })));
    endpoint.close();
  });

  test('takes no part in a browser with another id behind the port', async () => {
    const stranger = { port: browser.port, browserId: '00000000-0000-0000-0000-000000000000' };
    await expect(open(stranger)).rejects.toMatchObject({ code: 'cdp_start_failed', message: /response: 404/ });
    expect(browser.connections.size).toBe(0);
  });

  test('to a port that nobody listens on fails at once', async () => {
    const other = await FakeBrowser.start();
    const { port, browserId } = other;
    await other.close();
    await expect(open({ port, browserId }, 60_000)).rejects.toThrow('ECONNREFUSED');
  });
});

describe('a connection that is not finished', () => {
  let server: Server;
  let greet: (socket: Socket) => void;
  const sockets = new Set<Socket>();

  beforeEach(async () => {
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
      socket.once('data', () => greet(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });

  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  const target = (): { port: number; browserId: string } => ({
    port: (server.address() as AddressInfo).port,
    browserId: 'b',
  });

  test('fails at its limit when nothing comes', async () => {
    greet = () => undefined;
    const opening = open(target(), 200);
    await expect(opening).rejects.toThrow(/does not answer on port \d+: no answer within 200 ms/);
  });

  test('fails at its limit when bytes come one by one', async () => {
    let timer: NodeJS.Timeout | undefined;
    greet = (socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nX-Long: ');
      timer = setInterval(() => socket.write('x'), 20);
    };
    const failure = await failureOf(open(target(), 300));
    clearInterval(timer);
    expect(failure.message).toContain('within 300 ms');
    expect(failure.afterMs).toBeLessThan(3000);
  });

  test.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['a plain answer', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'],
    [
      'a wrong key',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n',
    ],
  ])('fails with %s', async (_what, text) => {
    greet = (socket) => socket.end(text);
    await expect(open(target())).rejects.toMatchObject({ code: 'cdp_start_failed' });
  });

  test('fails with a redirect, even to the right browser', async () => {
    const location = `ws://127.0.0.1:${browser.port}/devtools/browser/${browser.browserId}`;
    greet = (socket) => socket.end(`HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`);
    await expect(open(target())).rejects.toMatchObject({ code: 'cdp_start_failed', message: /response: 302/ });
    expect(browser.upgrades).toEqual([]);
  });

  test('fails when the other end hangs up', async () => {
    greet = (socket) => socket.destroy();
    await expect(open(target())).rejects.toMatchObject({ code: 'cdp_start_failed' });
  });

  test('is given up at once by a session that ends', async () => {
    greet = () => {
      stop.abort();
    };
    await expect(open(target(), 60_000)).rejects.toMatchObject({ code: 'closing' });
  });
});

describe('what comes over a connection', () => {
  test('may be an answer of 16 MiB, and one byte more ends it at once', async () => {
    const endpoint = await open();
    let extra = 0;
    browser.intercept = ({ webSocket }, { id }) => {
      const empty = JSON.stringify({ id, result: { x: '' } });
      const x = 'x'.repeat(maxAnswerBytes + extra - empty.length);
      webSocket.send(JSON.stringify({ id, result: { x } }));
      return true;
    };
    const { x } = await endpoint.request('Any.thing');
    expect(String(x).length).toBeGreaterThan(maxAnswerBytes - 100);
    extra = 1;
    const failure = await failureOf(endpoint.request('Any.thing'));
    expect(failure.message).toContain('has ended');
    expect(failure.afterMs).toBeLessThan(5000);
    await endpoint.closed;
  });

  test.each([
    ['a frame with reserved bits', Buffer.from([0xf1, 0x01, 0x78])],
    ['a frame of an unknown kind', Buffer.from([0x83, 0x01, 0x78])],
    ['a masked frame', Buffer.from([0x81, 0x81, 1, 2, 3, 4, 0x78])],
    ['text that is no UTF-8', Buffer.from([0x81, 0x02, 0xc3, 0x28])],
    ['a length that no memory has', Buffer.from([0x81, 0x7f, 0, 0x10, 0, 0, 0, 0, 0, 0])],
    ['a continuation of nothing', Buffer.from([0x80, 0x01, 0x78])],
  ])('may be broken: %s ends it at once, and what waits is told', async (_what, bytes) => {
    const endpoint = await open();
    browser.intercept = ({ socket }) => socket.write(bytes);
    const failure = await failureOf(endpoint.request('Any.thing', {}, { timeoutMs: 60_000 }));
    expect(failure).toMatchObject({ code: 'cdp_start_failed', message: 'The connection to the browser has ended.' });
    await withDeadline('the end', endpoint.closed);
    // Without waiting for an answer to the goodbye, for which `ws` would take 30 s.
    expect(failure.afterMs).toBeLessThan(5000);
    expect(endpoint.isOpen).toBe(false);
  });

  test('may be noise, which nobody takes for an answer', async () => {
    const endpoint = await open();
    browser.intercept = ({ webSocket }, { id }) => {
      webSocket.send('');
      webSocket.send('no JSON');
      webSocket.send(Buffer.from([0, 1, 2]), { binary: true });
      webSocket.send(JSON.stringify({ method: 'Target.targetCreated', params: {} }));
      webSocket.send(JSON.stringify({ result: { wrong: true } }));
      webSocket.send(JSON.stringify({ id: `${id ?? 0}`, result: { wrong: true } }));
      for (const n of [1, 2]) webSocket.send(JSON.stringify({ id, result: { n } }));
      return true;
    };
    expect(await endpoint.request('Any.thing')).toEqual({ n: 1 });
    expect(await endpoint.request('Any.thing')).toEqual({ n: 1 });
    endpoint.close();
  });
});

describe('the end of a connection', () => {
  test('while requests run rejects each of them', async () => {
    const endpoint = await open();
    browser.isSilent = true;
    const asked = [1, 2, 3].map(() => endpoint.request('Browser.getVersion', {}, { timeoutMs: 60_000 }));
    await waitUntil('the requests', () => (browser.messages.length === 3 ? true : undefined));
    const settled = Promise.allSettled(asked);
    await browser.close();
    const outcomes = await withDeadline('the requests to settle', settled);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    await endpoint.closed;
  });

  test('by the bridge does so too, though the browser reads nothing any more', async () => {
    const endpoint = await open();
    connection().socket.pause();
    const asked = endpoint.request('Browser.getVersion', {}, { timeoutMs: 60_000 });
    endpoint.close();
    await expect(asked).rejects.toThrow('has ended');
    await withDeadline('the end', endpoint.closed, 1000);
  });

  test('is not held up by a browser that says goodbye and then does not go', async () => {
    const endpoint = await open();
    connection().webSocket.close(1000);
    const { socket } = connection();
    socket.end = () => socket;
    socket.destroy = () => socket;
    await withDeadline('the end', endpoint.closed, 5000);
    Reflect.deleteProperty(socket, 'destroy');
    socket.destroy();
  });
});

describe('the proof', () => {
  test('is found in its own context and closed, whatever else is open', async () => {
    const mark = makeMark();
    const targetId = browser.openPage(mark, 'OWN');
    browser.openPage(makeMark(), 'OWN');
    const endpoint = await open();
    expect(await findMarked(endpoint, mark, 1000)).toEqual({ browserContextId: 'OWN', isDefaultContext: false });
    expect(browser.targets.has(targetId)).toBe(false);
    expect(browser.targets.size).toBe(2);
    endpoint.close();
  });

  test('is not found in a foreign browser, of which nothing is closed', async () => {
    browser.openPage(makeMark());
    const endpoint = await open();
    await expect(findMarked(endpoint, makeMark(), 1000)).rejects.toThrow('not the one that upstream drives');
    expect(browser.targets.size).toBe(2);
    endpoint.close();
  });
});

describe('the watch', () => {
  function watch(endpoint: Endpoint, contextId?: string): { losses: BrowserLoss[]; close: () => void } {
    const losses: BrowserLoss[] = [];
    const onLost = (loss: BrowserLoss): void => void losses.push(loss);
    const watched = watchBrowser({ endpoint, contextId, intervalMs: 50, limitMs: 500, onLost });
    return {
      losses,
      close: () => {
        watched.close();
      },
    };
  }

  const first = (losses: BrowserLoss[]): Promise<BrowserLoss> => waitUntil('a loss', () => losses[0], 5000);

  test('tells of a browser that goes', async () => {
    const endpoint = await open();
    const { losses } = watch(endpoint);
    await browser.close();
    expect(await first(losses)).toBe('sentinel_closed');
  });

  test('tells of one that hangs', async () => {
    const endpoint = await open();
    const { losses } = watch(endpoint);
    browser.isSilent = true;
    expect(await first(losses)).toBe('heartbeat_timeout');
    endpoint.close();
    await endpoint.closed;
    expect(losses).toEqual(['heartbeat_timeout']);
  });

  test('tells of a context that is disposed of, and of no other one', async () => {
    browser.openPage('about:blank', 'OWN');
    browser.openPage('about:blank', 'OTHER');
    const endpoint = await open();
    const { losses } = watch(endpoint, 'OWN');
    browser.contexts.delete('OTHER');
    const asked = browser.messages.length;
    await waitUntil('more heartbeats', () => (browser.messages.length > asked + 6 ? true : undefined));
    expect(losses).toEqual([]);
    browser.contexts.delete('OWN');
    expect(await first(losses)).toBe('mcp_context_gone');
    endpoint.close();
  });

  test('asks one heartbeat at a time, and none after its end', async () => {
    const endpoint = await open();
    const { losses, close } = watch(endpoint);
    await waitUntil('a heartbeat', () => (browser.messages.length > 0 ? true : undefined));
    browser.isSilent = true;
    const { received } = connection();
    const asked = received.length;
    close();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(received.length).toBeLessThanOrEqual(asked + 1);
    expect(losses).toEqual([]);
    endpoint.close();
  });
});
