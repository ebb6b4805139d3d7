import type { ServerResponse } from 'node:http';
import { connect, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import { type Lease, Ports } from '../../src/cdp/lease.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const never = new AbortController().signal;
const leases: Lease[] = [];
const squatters: Server[] = [];

afterEach(async () => {
  for (const lease of leases.splice(0)) await lease.close();
  for (const server of squatters.splice(0)) await new Promise((resolve) => server.close(resolve));
});

const answering = {
  onRequest: (_req: unknown, res: { end(text: string): void }) => {
    res.end('served');
  },
  onUpgrade: () => undefined,
};

async function take(ports: Ports): Promise<Lease> {
  const lease = await ports.acquire(answering, never);
  leases.push(lease);
  return lease;
}

async function squat(port: number, host = '127.0.0.1'): Promise<number> {
  const server = createServer();
  squatters.push(server);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ port, host }, resolve);
  });
  return (server.address() as { port: number }).port;
}

/** Some ports in a row that nobody uses now. */
async function freePorts(count: number): Promise<number> {
  return waitUntil('free ports', async () => {
    const from = 21_000 + Math.floor(Math.random() * 20_000);
    try {
      for (let index = 0; index < count; index += 1) await squat(from + index);
      return from;
    } catch {
      return undefined; // one of them is in use
    } finally {
      for (const server of squatters.splice(0)) await new Promise((resolve) => server.close(resolve));
    }
  });
}

describe('ports of a range', () => {
  it('are given one to each, busy ones skipped, and again as soon as they are given back', async () => {
    const from = await freePorts(4);
    await squat(from + 1);
    const ports = new Ports({ range: { from, to: from + 3 }, host: '127.0.0.1', logger });
    const taken = await Promise.all([take(ports), take(ports), take(ports)]);
    expect(new Set(taken.map(({ port }) => port))).toEqual(new Set([from, from + 2, from + 3]));
    await expect(ports.acquire(answering, never)).rejects.toMatchObject({
      code: 'cdp_ports_busy',
      message: `No port of --cdp-port-range ${from}-${from + 3} is free on 127.0.0.1: 3 leased by sessions of this program, 1 held by other programs.`,
    });
    await taken[1]?.close();
    expect((await take(ports)).port).toBe(taken[1]?.port);
  });

  it('go round, so that the address of a session that ended does not lead to the next one', async () => {
    const from = await freePorts(3);
    const ports = new Ports({ range: { from, to: from + 2 }, host: '127.0.0.1', logger });
    const seen: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      const lease = await take(ports);
      seen.push(lease.port);
      await lease.close();
    }
    expect(seen).toEqual([from, from + 1, from + 2, from]);
  });

  it('are never held by two sessions at once, whoever comes and goes', async () => {
    const from = await freePorts(5);
    const ports = new Ports({ range: { from, to: from + 4 }, host: '127.0.0.1', logger });
    const held = new Set<number>();
    const stay = async (): Promise<void> => {
      for (let count = 0; count < 20; count += 1) {
        const lease = await ports.acquire(answering, never);
        expect(held.has(lease.port)).toBe(false);
        held.add(lease.port);
        await new Promise(setImmediate);
        held.delete(lease.port);
        await lease.close();
      }
    };
    await Promise.all([stay(), stay(), stay(), stay(), stay()]);
  });

  it('may be a single one, also while somebody holds it on the other loopback address', async () => {
    const from = await freePorts(1);
    await squat(from, '::1');
    const ports = new Ports({ range: { from, to: from }, host: '127.0.0.1', logger });
    expect((await take(ports)).port).toBe(from);
    await expect(ports.acquire(answering, never)).rejects.toThrow(`--cdp-port-range ${from} is free`);
  });

  it('are not looked for on an address that this computer has not', async () => {
    const ports = new Ports({ range: { from: 21_000, to: 21_999 }, host: '192.0.2.1', logger });
    await expect(ports.acquire(answering, never)).rejects.toMatchObject({
      code: 'cdp_ports_busy',
      message: expect.stringContaining('Managed CDP cannot listen on 192.0.2.1: ') as string,
    });
  });

  it('are not taken for a session that ends', async () => {
    const ports = new Ports({ range: { from: 21_000, to: 21_999 }, host: '127.0.0.1', logger });
    await expect(ports.acquire(answering, AbortSignal.abort())).rejects.toMatchObject({ code: 'closing' });
  });
});

describe('a leased port', () => {
  it('is free at once when it is given back, whatever is connected to it', async () => {
    const ports = new Ports({ range: undefined, host: '127.0.0.1', logger });
    const upgraded: { destroyed: boolean }[] = [];
    const lease = await ports.acquire({ ...answering, onUpgrade: (_req, socket) => void upgraded.push(socket) }, never);
    const idle = await RawConnection.open(lease.port);
    const half = (await RawConnection.open(lease.port)).send('GET / HTTP/1.1\r\nHost:');
    const socket = await RawConnection.open(lease.port);
    socket.send('GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    await waitUntil('the upgrade', () => (upgraded.length === 1 ? true : undefined));
    await Promise.all([lease.close(), lease.close()]);
    for (const connection of [idle, half, socket]) await connection.ended();
    await squat(lease.port);
    expect(upgraded[0]?.destroyed).toBe(true);
  });

  it('serves plain requests, and no proxy, no body that waits for permission, and no endless headers', async () => {
    const lease = await take(new Ports({ range: undefined, host: '127.0.0.1', logger }));
    const connection = await RawConnection.open(lease.port);
    connection.send(
      'GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n',
    );
    expect(await connection.ended()).toMatch(/^HTTP\/1\.1 200[\s\S]*served$/);
    const odd = await RawConnection.open(lease.port);
    odd.send('GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\nConnection: close\r\n\r\n');
    expect(await odd.ended()).toMatch(/^HTTP\/1\.1 200[\s\S]*served$/);
    const proxy = await RawConnection.open(lease.port);
    proxy.send('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await proxy.ended()).toBe('');
    const large = await RawConnection.open(lease.port);
    large.send(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`);
    expect(await large.ended()).toMatch(/^HTTP\/1\.1 431/);
  });

  it('survives a client that goes before its answer, also one that waited with its body', async () => {
    const pending: ServerResponse[] = [];
    const onRequest = (_req: unknown, res: ServerResponse): void => void pending.push(res);
    const lease = await new Ports({ range: undefined, host: '127.0.0.1', logger }).acquire(
      { ...answering, onRequest },
      never,
    );
    leases.push(lease);
    for (const expected of ['', 'Expect: 100-continue\r\n', 'Expect: something\r\n']) {
      const connection = await RawConnection.open(lease.port);
      connection.send(`GET / HTTP/1.1\r\nHost: a\r\n${expected}\r\n`);
      const res = await waitUntil('the request', () => pending.pop());
      const gone = new Promise((resolve) => res.once('close', resolve));
      connection.close();
      await gone;
      res.write('late');
      res.end('later');
    }
    await new Promise(setImmediate);
  });

  it('is opened on its host only', async () => {
    const lease = await take(new Ports({ range: undefined, host: '127.0.0.1', logger }));
    const socket = connect({ port: lease.port, host: '127.0.0.2' });
    const outcome = await new Promise((resolve) => {
      socket.once('connect', () => {
        resolve('connected');
      });
      socket.once('error', () => {
        resolve('refused');
      });
    });
    socket.destroy();
    expect(outcome).toBe('refused');
  });
});
