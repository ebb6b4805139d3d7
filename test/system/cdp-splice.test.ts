import { afterEach, describe, expect, it } from 'vitest';

import type { FakeConnection } from '../support/fake-browser.ts';
import { type CdpSocket, GatewayBed, type GatewayWish } from '../support/gateway-bed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

const beds: GatewayBed[] = [];

async function open(wish?: GatewayWish): Promise<GatewayBed> {
  const bed = await GatewayBed.open(wish);
  beds.push(bed);
  return bed;
}

afterEach(async () => {
  for (const bed of beds.splice(0)) await bed.close();
});

function inner(bed: GatewayBed): FakeConnection {
  const [connection] = bed.browser.connections;
  if (connection === undefined) throw new Error('no connection to the browser');
  return connection;
}

function closed(socket: CdpSocket): Promise<{ code: number; reason: string }> {
  return withDeadline('the end of a socket', socket.closed);
}

const large = {
  maxRequestBytes: 104_792_064,
  maxAnswerBytes: 268_435_456,
  bufferBytes: 4_194_304,
  stallTimeoutMs: 20_000,
};

describe('a message', () => {
  it('passes both ways as the bytes it came in', async () => {
    const bed = await open();
    const socket = await bed.connect();
    const got = new Promise<Buffer>((resolve) => {
      inner(bed).webSocket.once('message', (data: Buffer) => {
        resolve(data);
      });
    });
    const text = '{ "id": 1e0, "method": "X.y", "params": {"a":9007199254740993, "b":"\\u00e4ä😀"} }';
    socket.webSocket.send(text);
    expect((await got).toString('utf8')).toBe(text);
    inner(bed).webSocket.send(text);
    expect([await socket.next(), await socket.next()]).toContain(text);
  });

  it('keeps its order among thousands', async () => {
    const bed = await open({ limits: { bufferBytes: 2000 } });
    const socket = await bed.connect();
    for (let id = 0; id < 3000; id += 1) socket.webSocket.send(JSON.stringify({ id, method: 'Browser.getVersion' }));
    for (let id = 0; id < 3000; id += 1) expect(JSON.parse(await socket.next())).toMatchObject({ id });
  });

  it('of exactly the limit passes in, and one byte more is closed with 1009', async () => {
    const bed = await open({ limits: { maxRequestBytes: 1000 } });
    const socket = await bed.connect();
    const { received } = inner(bed);
    const message = (bytes: number): string => {
      const frame = JSON.stringify({ id: 1, method: 'Browser.getVersion', x: '' });
      return frame.replace('"x":""', `"x":"${'x'.repeat(bytes - frame.length)}"`);
    };
    socket.webSocket.send(message(1000));
    expect(JSON.parse(await socket.next())).toMatchObject({ id: 1 });
    socket.webSocket.send(message(1001));
    expect(await closed(socket)).toMatchObject({ code: 1009 });
    expect(received).toHaveLength(1);
    await waitUntil('the end of the browser side', () => (bed.browser.connections.size === 0 ? true : undefined));
  });

  it('of exactly the limit passes out, and one byte more is closed with 1009', async () => {
    const bed = await open({ limits: { maxAnswerBytes: 1000 } });
    const socket = await bed.connect();
    inner(bed).webSocket.send('x'.repeat(1000));
    expect(await socket.next()).toHaveLength(1000);
    inner(bed).webSocket.send('x'.repeat(1001));
    expect(await closed(socket)).toEqual({ code: 1009, reason: 'a message of the browser is longer than the limit' });
  });

  it('of 99 MiB passes in and one of 200 MiB out; a longer one than Chromium takes is closed by us', async () => {
    const bed = await open({ limits: large });
    const socket = await bed.connect();
    const { received } = inner(bed);
    socket.webSocket.send(JSON.stringify({ id: 1, method: 'Browser.getVersion', x: 'x'.repeat(99 * 1_048_576 - 100) }));
    expect(JSON.parse(await withDeadline('an answer', socket.next(), 30_000))).toMatchObject({ id: 1 });
    inner(bed).webSocket.send(Buffer.alloc(200 * 1_048_576, 'x'), { binary: false });
    expect(await withDeadline('200 MiB', socket.next(), 30_000)).toHaveLength(200 * 1_048_576);
    socket.webSocket.send(Buffer.alloc(101 * 1_048_576, 'x'), { binary: false });
    expect(await withDeadline('the end', socket.closed, 30_000)).toMatchObject({ code: 1009 });
    expect(received).toHaveLength(1);
  }, 90_000);

  it('that is binary is closed with 1003 and not passed on', async () => {
    const bed = await open();
    const socket = await bed.connect();
    const { received } = inner(bed);
    socket.webSocket.send(Buffer.from('{"id":1,"method":"Browser.getVersion"}'), { binary: true });
    expect(await closed(socket)).toEqual({ code: 1003, reason: 'CDP has text messages only' });
    expect(received).toEqual([]);
  });
});

describe('a policy', () => {
  it('answers in the place of the browser, also on the socket of a page', async () => {
    const bed = await open({ policy: { name: 'guarded' } });
    const [page = ''] = bed.browser.targets.keys();
    for (const path of ['', `/devtools/page/${page}`]) {
      const socket = await bed.connect(path);
      expect(await socket.ask({ id: 1, method: 'Browser.crash' })).toMatchObject({ id: 1, error: { code: -32_000 } });
      expect(await socket.ask({ id: 2, method: 'Browser.getVersion' })).toMatchObject({ id: 2, result: {} });
    }
    expect(bed.browser.messages.map(({ method }) => method)).toEqual(['Browser.getVersion', 'Browser.getVersion']);
    expect(bed.logged).toContainEqual({
      level: 'info',
      event: 'CDP method denied',
      fields: { method: 'Browser.crash' },
    });
  });

  it('lets only the client go that asks to close the browser', async () => {
    const bed = await open({ policy: { name: 'guarded' } });
    const [one, other] = [await bed.connect(), await bed.connect()];
    expect(await one.ask({ id: 1, method: 'Browser.close' })).toEqual({ id: 1, result: {} });
    expect(await closed(one)).toEqual({ code: 1000, reason: 'the browser is shared and stays open' });
    expect(await other.ask({ id: 2, method: 'Browser.getVersion' })).toMatchObject({ id: 2 });
  });
});

describe('a splice ends', () => {
  it('with 4001 and the reason when its browser is withdrawn, pending calls and all', async () => {
    const bed = await open();
    const sockets = [await bed.connect(), await bed.connect()];
    bed.browser.isSilent = true;
    sockets[0]?.webSocket.send('{"id":1,"method":"Browser.getVersion"}');
    bed.door.withdraw(4001, 'browser generation 1 ended: sentinel_closed');
    for (const socket of sockets)
      expect(await closed(socket)).toEqual({ code: 4001, reason: 'browser generation 1 ended: sentinel_closed' });
    await waitUntil('the end of all', () => (bed.facts.length === 2 ? true : undefined));
    expect(bed.door.connections).toBe(0);
  });

  it('with 4001 also when the browser broke all its connections first', async () => {
    const bed = await open();
    const socket = await bed.connect();
    await bed.browser.close();
    setTimeout(() => {
      bed.door.withdraw(4001, 'gone');
    }, 100);
    expect(await closed(socket)).toEqual({ code: 4001, reason: 'gone' });
  });

  it('with 1001 when only its page was closed, and when the session ended', async () => {
    const bed = await open();
    const [page = ''] = bed.browser.targets.keys();
    const ofPage = await bed.connect(`/devtools/page/${page}`);
    inner(bed).webSocket.close();
    expect(await closed(ofPage)).toEqual({ code: 1001, reason: 'the browser closed this target' });
    const ofBrowser = await bed.connect();
    bed.door.close();
    expect(await closed(ofBrowser)).toEqual({ code: 1001, reason: 'the session ended' });
  });

  it('when its client goes, with or without a word, and leaves the browser alone', async () => {
    const bed = await open();
    const [polite, rude] = [await bed.connect(), await bed.connect()];
    polite.webSocket.close();
    rude.webSocket.terminate();
    await waitUntil('the end of both', () => (bed.facts.length === 2 ? true : undefined));
    expect(new Set(bed.facts.map(({ code }) => code))).toEqual(new Set([1005, 1006]));
    await waitUntil('no connection', () => (bed.browser.connections.size === 0 ? true : undefined));
    expect(bed.browser.messages).toEqual([]);
    expect((await bed.ask('/json/version')).status).toBe(200);
  });

  it('when its client does not read why: a second later it is cut', async () => {
    const bed = await open();
    const socket = await bed.connect();
    socket.webSocket.pause();
    bed.door.withdraw(4001, 'gone');
    await waitUntil('the end', () => (bed.facts.length === 1 ? true : undefined), 3000);
    expect(bed.facts[0]?.code).toBe(4001);
  });

  it('with 4001 when the browser was replaced while the handshake ran', async () => {
    const bed = await open();
    const opening = bed.connect();
    await waitUntil('the handshake with the browser', () => (bed.browser.upgrades.length === 1 ? true : undefined));
    bed.door.withdraw(4001, 'gone');
    bed.publish(2);
    const socket = await opening;
    expect(await closed(socket)).toMatchObject({ code: 4001 });
  });

  it('when a client says nothing to two pings, but not while it sends or reads', async () => {
    const bed = await open({ limits: { pingIntervalMs: 100, stallTimeoutMs: 60_000 } });
    const [dead, alive] = [await bed.connect(), await bed.connect()];
    // A client whose computer is gone: nothing is read of what comes, and nothing is answered.
    (dead.webSocket as unknown as { _socket: { pause(): void } })._socket.pause();
    await waitUntil('the end of the dead one', () => (bed.facts.length === 1 ? true : undefined), 3000);
    expect(await alive.ask({ id: 1, method: 'Browser.getVersion' })).toMatchObject({ id: 1 });
    expect(bed.facts).toHaveLength(1);
  });
});

describe('a client that does not read', () => {
  it('costs a bounded amount of memory, holds up nobody else, and is cut when it stays so', async () => {
    const bed = await open({ limits: { ...large, stallTimeoutMs: 1000 } });
    const [slow, other] = [await bed.connect(), await bed.connect()];
    const connection = inner(bed);
    slow.webSocket.pause();
    const before = process.memoryUsage.rss();
    let peak = 0;
    const part = Buffer.alloc(10_000_000, 'x');
    let sent = 0;
    // The browser sends on only what has left it, as Chromium does with its own buffer.
    const flood = (): void => {
      if (sent === 60 || connection.webSocket.readyState !== connection.webSocket.OPEN) return;
      sent += 1;
      connection.webSocket.send(part, { binary: false }, flood);
    };
    flood();
    const timer = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss());
    }, 10);
    expect(await other.ask({ id: 1, method: 'Browser.getVersion' })).toMatchObject({ id: 1 });
    await waitUntil('the end of the slow one', () => (bed.facts.length === 1 ? true : undefined), 10_000);
    clearInterval(timer);
    expect(bed.facts[0]?.code).toBe(4008);
    expect(sent).toBeLessThan(10);
    expect(peak - before).toBeLessThan(150_000_000);
    expect(await other.ask({ id: 2, method: 'Browser.getVersion' })).toMatchObject({ id: 2 });
  });

  it('gets everything when it reads again in time', async () => {
    const bed = await open({ limits: { bufferBytes: 20_000, stallTimeoutMs: 5000 } });
    const socket = await bed.connect();
    socket.webSocket.pause();
    for (let index = 0; index < 200; index += 1) inner(bed).webSocket.send(`${index}:${'x'.repeat(50_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    socket.webSocket.resume();
    for (let index = 0; index < 200; index += 1) expect((await socket.next()).startsWith(`${index}:`)).toBe(true);
  });
});

it('a browser that does not read makes the client wait, and is cut when it stays so', async () => {
  const bed = await open({ limits: { ...large, bufferBytes: 65_536, stallTimeoutMs: 500 } });
  const socket = await bed.connect();
  inner(bed).socket.pause();
  const part = `{"id":1,"method":"X.y","x":"${'x'.repeat(1_000_000)}"}`;
  for (let index = 0; index < 40; index += 1) socket.webSocket.send(part);
  expect(await closed(socket)).toMatchObject({ code: 4008 });
});

it('one more socket than may be open is closed with 1013, and costs the browser nothing', async () => {
  const bed = await open();
  for (let index = 0; index < 3; index += 1) await bed.connect();
  const refused = await bed.connect();
  expect(await closed(refused)).toEqual({ code: 1013, reason: 'more than 3 connections' });
  expect(bed.browser.upgrades).toHaveLength(3);
  expect(bed.refused).toEqual(['too_many_connections']);
});

it('a browser that says nothing to a handshake holds no place for longer than its limit', async () => {
  const bed = await open();
  bed.browser.isSilent = true;
  const opening = bed.connect();
  opening.catch(() => undefined);
  await waitUntil('the handshake with the browser', () => (bed.browser.upgrades.length === 1 ? true : undefined));
  expect(bed.door.connections).toBe(1);
  await expect(opening).rejects.toThrow('503');
  await waitUntil('nothing open', () => (bed.door.connections === 0 ? true : undefined));
});
