import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';

import { readBody } from '../../src/http/body.ts';
import { replyJson } from '../../src/http/reply.ts';
import { closeListeners, type ListenerBed, openListener, shortLimits } from '../support/listener-bed.ts';
import { makeRandom } from '../support/random.ts';
import { type RawConnection, reasonOf } from '../support/raw-connection.ts';
import { waitUntil } from '../support/waiting.ts';

const get = 'GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n';
const announced = 'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n';
/** Time for a limit to be noticed and for a busy machine. */
const slackMs = 1500;

async function echoBody(req: IncomingMessage, res: ServerResponse): Promise<void> {
  replyJson(res, 200, (await readBody(req, 10_000)).toString());
}

async function expectNoConnection({ listener }: ListenerBed): Promise<void> {
  await waitUntil('no connection', () => (listener.connections === 0 ? true : undefined));
}

/** A good client, which leaves no connection behind. */
async function expectServed({ url }: ListenerBed): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: 'good', headers: { connection: 'close' } });
  expect([answer.status, await answer.json()]).toEqual([200, 'good']);
}

/** Sends a byte every 50 ms until the other side has ended; returns how long that took in ms. */
async function trickle(connection: RawConnection, bytes: string): Promise<number> {
  const begin = performance.now();
  let next = 0;
  const timer = setInterval(() => {
    if (connection.isEnded) return;
    connection.send(bytes[next % bytes.length] ?? '');
    next += 1;
  }, 50);
  try {
    await connection.sees('HTTP/1.1');
    return performance.now() - begin;
  } finally {
    clearInterval(timer);
  }
}

afterEach(closeListeners);

describe('a client that sends too slowly', () => {
  it('has the time of the setting for its headers, while others are served', async () => {
    const bed = await openListener(echoBody, { limits: { ...shortLimits, bodyTimeoutMs: 10_000 } });
    const connection = await bed.connect();
    const trickled = trickle(connection.send('GET / HTTP/1.1\r\nX: '), 'x');
    await expectServed(bed);
    const took = await trickled;
    expect(took).toBeGreaterThan(shortLimits.headerTimeoutMs - 20);
    expect(took).toBeLessThan(shortLimits.headerTimeoutMs + slackMs);
    const answer = await connection.answer();
    expect([answer.status, reasonOf(answer), bed.refused]).toEqual([408, 'request_timeout', ['request_timeout']]);
    await connection.ended();
    connection.close();
    await expectNoConnection(bed);
  });

  it('has the time of the setting for its body, while others are served', async () => {
    const bed = await openListener(echoBody);
    const connection = await bed.connect();
    const trickled = trickle(connection.send(announced), 'x');
    await expectServed(bed);
    const took = await trickled;
    expect(took).toBeGreaterThan(shortLimits.bodyTimeoutMs - 20);
    expect(took).toBeLessThan(shortLimits.bodyTimeoutMs + slackMs);
    const answer = await connection.answer();
    expect([answer.status, reasonOf(answer), bed.refused]).toEqual([408, 'request_timeout', ['request_timeout']]);
    await expectNoConnection(bed);
  });

  it('is not waited for by what serves the request', async () => {
    const failures: unknown[] = [];
    const bed = await openListener(async (req) => {
      await readBody(req, 10_000).catch((failure: unknown) => failures.push(failure));
    });
    (await bed.connect()).send(announced).send('part');
    await waitUntil('the end of the body', () => failures[0]);
    expect(failures).toMatchObject([{ code: 'invalid_request' }]);
    await expectNoConnection(bed);
  });

  it('is cut off when nobody reads its body and its answer has begun', async () => {
    const bed = await openListener((_req, res) => void res.writeHead(200).write('data'));
    const connection = await bed.connect();
    connection.send(announced);
    await connection.ended(shortLimits.bodyTimeoutMs + slackMs);
    await expectNoConnection(bed);
  });

  it('and never says a word is let go without one', async () => {
    const bed = await openListener();
    const connection = await bed.connect();
    expect(await connection.ended(shortLimits.headerTimeoutMs + slackMs)).toBe('');
    await expectNoConnection(bed);
  });

  it('has its time anew with the next request of its connection, and none runs between them', async () => {
    const bed = await openListener();
    const connection = await bed.connect();
    connection.send(get);
    expect((await connection.answer()).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, shortLimits.bodyTimeoutMs * 1.5));
    expect(connection.isEnded).toBe(false);
    connection.send(get);
    expect((await connection.answer()).status).toBe(200);
    await trickle(connection.send('GET / HTTP/1.1\r\nX: '), 'x');
    expect((await connection.answer()).status).toBe(408);
  });
});

it('the time for a request is none for its answer: a stream far longer than that is not cut', async () => {
  const length = Math.ceil((shortLimits.bodyTimeoutMs * 3) / 50);
  const bed = await openListener(async (req, res) => {
    if (req.method === 'POST') await readBody(req, 1000);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    let sent = 0;
    const timer = setInterval(() => {
      sent += 1;
      res.write(`data: ${sent}\n\n`);
      if (sent < length) return;
      clearInterval(timer);
      res.end('data: end\n\n');
    }, 50);
  });
  const [stream, call] = [await bed.connect(), await bed.connect()];
  stream.send(get);
  call.send(announced.replace('1000', '2')).send('{}');
  for (const connection of [stream, call]) {
    await connection.sees('data: end');
    expect(connection.received.match(/data: \d/g)).toHaveLength(length);
  }
});

describe('an idle connection', () => {
  it('is kept for the time of the setting, which the client is told', async () => {
    const bed = await openListener(undefined, { limits: { ...shortLimits, keepAliveTimeoutMs: 620_000 } });
    const connection = await bed.connect();
    connection.send(get);
    expect((await connection.answer()).headers.get('keep-alive')).toBe('timeout=620');
  });

  it('is closed after it', async () => {
    const bed = await openListener(undefined, { limits: { ...shortLimits, keepAliveTimeoutMs: 700 } });
    const connection = await bed.connect();
    connection.send(get);
    await connection.answer();
    const begin = performance.now();
    // Newer versions of Node grant a second more than they tell.
    await connection.ended(700 + 1000 + slackMs);
    expect(performance.now() - begin).toBeGreaterThan(650);
    await expectNoConnection(bed);
  });
});

describe('headers', () => {
  /** Node counts the target, names and values, without what separates them. */
  const padding = shortLimits.maxHeaderBytes - '/a'.length - 'Host'.length - 'localhost'.length - 'X'.length;

  it('are taken up to the limit and refused beyond it', async () => {
    const bed = await openListener();
    const answers = [padding - 1, padding].map(async (length) => {
      const connection = await bed.connect();
      connection.send(get.replace('\r\n\r\n', `\r\nX: ${'x'.repeat(length)}\r\n\r\n`));
      return (await connection.answer()).status;
    });
    expect(await Promise.all(answers)).toEqual([200, 431]);
    expect(bed.refused).toEqual(['headers_too_large']);
  });

  it('of a megabyte do not keep their client from reading the refusal', async () => {
    const bed = await openListener();
    const connection = await bed.connect();
    connection.send(get.replace('\r\n\r\n', `\r\nX: ${'x'.repeat(1_000_000)}\r\n\r\n`));
    const answer = await connection.answer();
    expect([answer.status, reasonOf(answer)]).toEqual([431, 'headers_too_large']);
    expect(JSON.parse(answer.body)).toMatchObject({
      error: { data: { hint: expect.stringContaining('--http-max-header-bytes') } },
    });
    await expectNoConnection(bed);
  });

  it('that go on after they were refused are read away for a while, so that the refusal arrives', async () => {
    const bed = await openListener();
    const connection = await bed.connect();
    connection.send(`GET / HTTP/1.1\r\nX: ${'x'.repeat(shortLimits.maxHeaderBytes)}`);
    await connection.sees('431');
    for (let piece = 0; piece < 5; piece += 1) {
      connection.send('x'.repeat(100));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect([bed.listener.connections, bed.refused]).toEqual([1, ['headers_too_large']]);
    await expectNoConnection(bed);
  });

  it('in thousands are refused or served, and nothing worse', async () => {
    const bed = await openListener();
    const connection = await bed.connect();
    connection.send(get.replace('\r\n\r\n', `\r\n${'x:\r\n'.repeat(3000)}\r\n`));
    expect([200, 431]).toContain((await connection.answer()).status);
  });
});

describe('a client that goes', () => {
  /** What a request's two sides tell of it. */
  async function watched(): Promise<{ bed: ListenerBed; begun: string[]; ends: string[] }> {
    const [begun, ends]: [string[], string[]] = [[], []];
    const bed = await openListener((req, res) => {
      req.on('close', () => ends.push('request'));
      res.on('close', () => ends.push('answer'));
      if (req.method === 'GET') res.writeHead(200).write('begun');
      begun.push(req.method ?? '');
    });
    return { bed, begun, ends };
  }

  it.each([
    ['after its request, by closing its half', get, 'half'],
    ['after its request, by a reset', get, 'reset'],
    ['within its body, by closing its half', announced, 'half'],
    ['within its body, by a reset', announced, 'reset'],
  ])('%s, is noticed at once', async (_what, bytes, how) => {
    const { bed, begun, ends } = await watched();
    const connection = await bed.connect();
    connection.send(bytes);
    await waitUntil('the request', () => begun[0]);
    if (how === 'half') connection.socket.end();
    else connection.socket.resetAndDestroy();
    await expectNoConnection(bed);
    expect(ends.toSorted()).toEqual(['answer', 'request']);
  });

  it('within its headers leaves nothing', async () => {
    const { bed, ends } = await watched();
    for (const how of ['end', 'resetAndDestroy'] as const) {
      const connection = await bed.connect();
      connection.send('GET / HTTP/1.1\r\nHo');
      connection.socket[how]();
    }
    await expectNoConnection(bed);
    expect(ends).toEqual([]);
  });
});

describe('random bytes', () => {
  const valid = Buffer.from(
    'POST /mcp?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  );

  function mutate(random: () => number): Buffer {
    const bytes = Buffer.from(valid);
    for (let count = 1 + Math.floor(random() * 4); count > 0; count -= 1) {
      bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    }
    return bytes.subarray(0, random() < 0.2 ? Math.floor(random() * bytes.length) : bytes.length);
  }

  it('are refused or let go, and the good ones are answered all the time', async () => {
    const random = makeRandom(20_251);
    const bed = await openListener(echoBody);
    const statuses = new Set<number>();
    for (let round = 0; round < 30; round += 1) {
      const connections = await Promise.all(Array.from({ length: 10 }, () => bed.connect()));
      for (const [index, connection] of connections.entries()) {
        const noise = Buffer.from(
          Array.from({ length: 1 + Math.floor(random() * 600) }, () => Math.floor(random() * 256)),
        );
        connection.send(index % 2 === 0 ? noise : mutate(random));
        connection.socket.end();
      }
      await expectServed(bed);
      for (const connection of connections) {
        const received = await connection.ended();
        if (received !== '') statuses.add(Number(received.slice(9, 12)));
        connection.close();
      }
    }
    // Whatever they were, a request or none: never a failure of ours.
    expect(statuses).toEqual(new Set([200, 400]));
    expect(bed.logged.filter(({ level }) => level !== 'debug')).toEqual([]);
    await expectNoConnection(bed);
  });
});
