import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import type { FakeConnection } from '../support/fake-browser.ts';
import { GatewayBed, type GatewayWish, shortLimits } from '../support/gateway-bed.ts';
import { waitUntil } from '../support/waiting.ts';

const beds: GatewayBed[] = [];
const rawSockets: Socket[] = [];
const opcodes = { more: 0, text: 1, close: 8, ping: 9, pong: 10 } as const;

async function open(wish?: GatewayWish): Promise<GatewayBed> {
  const bed = await GatewayBed.open(wish);
  beds.push(bed);
  return bed;
}

afterEach(async () => {
  for (const socket of rawSockets.splice(0)) socket.destroy();
  for (const bed of beds.splice(0)) await bed.close();
});

/** One frame of a client; its mask is zero, so the payload stands in it as it is. */
function frame(kind: keyof typeof opcodes, payload: string | Buffer, isLast = true): Buffer {
  const data = Buffer.from(payload);
  const head = Buffer.alloc(14);
  head[0] = opcodes[kind] | (isLast ? 0x80 : 0);
  head[1] = 0xff;
  head.writeBigUInt64BE(BigInt(data.length), 2);
  if (data.length > 125) return Buffer.concat([head, data]);
  head[1] = 0x80 | data.length;
  return Buffer.concat([head.subarray(0, 2), Buffer.alloc(4), data]);
}

function request(bed: GatewayBed, headers: Readonly<Record<string, string>> = {}): string {
  const lines = Object.entries({
    host: `127.0.0.1:${bed.lease.port}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64'),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}`);
  return `GET /cdp/${bed.door.capability ?? ''} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** A client without a WebSocket library: it sends what it likes, and reads or not. */
async function openRaw(
  bed: GatewayBed,
  { first, allowHalfOpen = false }: { first?: string | Buffer; allowHalfOpen?: boolean } = {},
): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect({ port: bed.lease.port, host: '127.0.0.1', allowHalfOpen });
  rawSockets.push(socket);
  let text = '';
  socket.on('error', () => undefined).on('data', (part: Buffer) => void (text += part.toString('latin1')));
  socket.write(first ?? request(bed));
  await waitUntil('an answer', () => (text.includes('\r\n\r\n') || socket.destroyed ? true : undefined));
  return { socket, text: () => text };
}

function inner(bed: GatewayBed): FakeConnection {
  const [connection] = bed.browser.connections;
  if (connection === undefined) throw new Error('no connection to the browser');
  return connection;
}

function codes(bed: GatewayBed, count: number, ms?: number): Promise<number[]> {
  return waitUntil(
    `the end of ${count}`,
    () => (bed.facts.length === count ? bed.facts.map(({ code }) => code) : undefined),
    ms,
  );
}

const command = '{"id":1,"method":"Browser.getVersion"}';

describe('a message', () => {
  it('that came in pieces reaches the browser whole, also with pings in between', async () => {
    const bed = await open();
    const { socket, text } = await openRaw(bed);
    const pieces = command
      .split('')
      .map((piece, at) => frame(at === 0 ? 'text' : 'more', piece, at === command.length - 1));
    socket.write(Buffer.concat(pieces.flatMap((piece) => [piece, frame('ping', 'p')])));
    await waitUntil('the answer', () => (text().includes('Fake/1.0') ? true : undefined));
    expect(inner(bed).received).toHaveLength(1);
  });

  it('that came together with the handshake is not lost', async () => {
    const bed = await open();
    const both = Buffer.concat([Buffer.from(request(bed)), frame('text', command)]);
    const { text } = await openRaw(bed, { first: both });
    await waitUntil('the answer', () => (text().includes('Fake/1.0') ? true : undefined));
  });

  it('that is no valid UTF-8 is closed with 1007 and not passed on', async () => {
    const bed = await open();
    const { socket, text } = await openRaw(bed);
    const { received } = inner(bed);
    socket.write(frame('text', Buffer.from([0xd8, 0x5a, 0x00])));
    await waitUntil('1007', () => (text().includes('\u0088\u0002\u0003\u00EF') ? true : undefined));
    expect(received).toEqual([]);
  });
});

describe('a client that says no goodbye', () => {
  it('is cut a second after it was closed for a message that is too long, and its browser side at once', async () => {
    const bed = await open({ limits: { maxRequestBytes: 100 } });
    const { socket } = await openRaw(bed, { allowHalfOpen: true });
    socket.write(frame('text', 'x'.repeat(101)));
    await waitUntil('the end of the browser side', () => (bed.browser.connections.size === 0 ? true : undefined), 900);
    expect(await codes(bed, 1, 3000)).toHaveLength(1);
  });

  it('is cut a second after its own close frame as well', async () => {
    const bed = await open();
    const { socket } = await openRaw(bed, { allowHalfOpen: true });
    socket.write(frame('close', Buffer.from([0x03, 0xe8])));
    expect(await codes(bed, 1, 3000)).toEqual([1000]);
    await waitUntil('no connection', () => (bed.browser.connections.size === 0 ? true : undefined));
  });

  it('is cut when it was one too many, whatever it sends', async () => {
    const bed = await open({ limits: { maxConnections: 1 } });
    await bed.connect();
    const { socket } = await openRaw(bed, { allowHalfOpen: true });
    const part = frame('text', 'x'.repeat(1_000_000));
    const timer = setInterval(() => socket.write(part), 20);
    await waitUntil('the end', () => (socket.destroyed ? true : undefined), 3000).finally(() => {
      clearInterval(timer);
    });
    expect(bed.browser.upgrades).toHaveLength(1);
  });
});

describe('a client that does not read', () => {
  it('is not taken for stalled while one long message moves', async () => {
    const bed = await open({ limits: { maxAnswerBytes: 50_000_000, stallTimeoutMs: 700 } });
    const { socket, text } = await openRaw(bed);
    let bytes = 0;
    let isDue = false;
    socket.on('data', (part: Buffer) => {
      bytes += part.length;
      if (isDue) socket.pause();
      isDue = false;
    });
    // Some 8 MB a second: several times the limit for the stall.
    const timer = setInterval(() => {
      isDue = bytes < 29_000_000;
      socket.resume();
    }, 8);
    socket.pause();
    inner(bed).webSocket.send(Buffer.alloc(30_000_000, 'x'), { binary: false });
    await waitUntil('all of it', () => (bytes >= 30_000_000 ? true : undefined), 30_000).finally(() => {
      clearInterval(timer);
    });
    socket.resume();
    socket.write(frame('text', command));
    await waitUntil('an answer', () => (text().includes('Fake/1.0') ? true : undefined));
  }, 40_000);

  it('is held up and cut also when it is the policy that answers', async () => {
    const bed = await open({ policy: { name: 'guarded' }, limits: { bufferBytes: 20_000, stallTimeoutMs: 300 } });
    const { socket } = await openRaw(bed);
    socket.pause();
    const many = Buffer.concat(Array.from({ length: 1000 }, () => frame('text', '{"id":1,"method":"Browser.crash"}')));
    const timer = setInterval(() => socket.write(many), 1);
    const ended = await codes(bed, 1, 10_000).finally(() => {
      clearInterval(timer);
    });
    expect(ended).toEqual([4008]);
    expect(bed.door.messages).toBeLessThan(200_000);
  });

  it('makes the browser wait by the number of messages too, and gets all of them in the end', async () => {
    const bed = await open({ limits: { bufferBytes: 50_000_000, stallTimeoutMs: 20_000 } });
    const socket = await bed.connect();
    (socket.webSocket as unknown as { _socket: { pause(): void } })._socket.pause();
    const count = 20_000;
    for (let index = 0; index < count; index += 1) inner(bed).webSocket.send(`${index} ${'x'.repeat(1000)}`);
    await waitUntil('the browser waiting', async () => {
      const before = inner(bed).webSocket.bufferedAmount;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return before > 0 && inner(bed).webSocket.bufferedAmount === before ? true : undefined;
    });
    (socket.webSocket as unknown as { _socket: { resume(): void } })._socket.resume();
    for (let index = 0; index < count; index += 1) expect((await socket.next()).startsWith(`${index} `)).toBe(true);
  }, 60_000);
});

describe('a splice', () => {
  it('tells a long reason in whole characters', async () => {
    const bed = await open();
    const socket = await bed.connect();
    bed.door.withdraw(4001, `a${'é'.repeat(100)}`);
    expect(await socket.closed).toEqual({ code: 4001, reason: `a${'é'.repeat(61)}` });
  });

  it('cuts a client after the second ping without an answer', async () => {
    const bed = await open({ limits: { pingIntervalMs: 200 } });
    const { text } = await openRaw(bed);
    const [code] = await codes(bed, 1, 3000);
    expect(code).toBe(1006);
    expect(text().split('\u0089\u0000')).toHaveLength(3);
  });

  it('leaves no timer and no listener behind, however it ended', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const bed = await open({ limits: { ...shortLimits, maxConnections: 20, pingIntervalMs: 3_600_000 } });
    const before = timers();
    const [one, two, three] = [await bed.connect(), await bed.connect(), await openRaw(bed)];
    one.webSocket.close(1000);
    two.webSocket.terminate();
    three.socket.write(frame('text', Buffer.from([0xff])));
    await codes(bed, 3);
    const [four, five] = [await bed.connect(), await bed.connect()];
    bed.door.withdraw(4001, 'gone');
    await Promise.all([four.closed, five.closed]);
    await codes(bed, 5);
    await waitUntil('no timer more than before', () => (timers() <= before ? true : undefined), 5000);
    expect(bed.door.connections).toBe(0);
    await waitUntil('no connection', () => (bed.browser.openSockets === 0 ? true : undefined));
  });

  it('does not come to be with a handshake that is none, or a client that has gone', async () => {
    const bed = await open();
    for (const headers of [{ 'sec-websocket-key': 'short' }, { 'sec-websocket-version': '7' }]) {
      const { socket, text } = await openRaw(bed, { first: request(bed, headers) });
      await waitUntil('the end', () => (socket.destroyed ? true : undefined));
      expect(text()).toMatch(/^HTTP\/1\.1 4(?:00|26) /);
    }
    await waitUntil('no connection', () => (bed.browser.openSockets === 0 ? true : undefined));
    bed.browser.isSilent = true;
    const socket = connect(bed.lease.port, '127.0.0.1');
    rawSockets.push(socket);
    socket.write(request(bed));
    await waitUntil('the handshake with the browser', () => (bed.browser.upgrades.length === 3 ? true : undefined));
    socket.resetAndDestroy();
    await waitUntil('nothing open', () => (bed.door.connections === 0 ? true : undefined));
    expect(bed.facts).toEqual([]);
  });
});
