import type { Answer, Sent } from './http-exchange.ts';
import { initializeBody, postHeaders, send } from './http-exchange.ts';
import type { HttpClient, HttpServer } from './http-server.ts';
import { makeRandom } from './random.ts';
import { RawConnection } from './raw-connection.ts';
import { waitUntil } from './waiting.ts';

/** One kind of abuse: what it does so many times, and what the server counts for each. */
export interface Abuse {
  readonly name: string;
  readonly times: number;
  /** Refusals that are counted for one time, by reason; undefined where chance decides. */
  readonly refusals: Readonly<Record<string, number>> | undefined;
  /** Does it once; throws when the answer is not the right one. */
  readonly act: (target: Target, index: number) => Promise<void>;
}

/** Whom it is done to. */
export interface Target {
  readonly server: HttpServer;
  /** A session of the abuser. */
  readonly client: HttpClient;
}

const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', arguments: {} } };
const note = { jsonrpc: '2.0', method: 'notifications/x' };
const valid = Buffer.from(
  `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
);
const manyBytes = 5_000_000;
/** Longer than any limit of the server, on a computer that has more to do. */
const patienceMs = 30_000;
const batches = [[], [42], [call, 'x'], [[call]], Array.from({ length: 101 }, () => note), [initializeBody()], [null]];
const badInitializes: readonly Sent[] = [
  { body: { ...initializeBody(), params: 5 } },
  { body: initializeBody('2025-11-25', { _meta: { 'io.github.cloakbrowser-mcp/session': { nothing: 1 } } }) },
  { body: initializeBody(), headers: { accept: 'text/plain' } },
  { body: initializeBody(), headers: { 'mcp-session-id': 'there-is-none' } },
  { body: JSON.stringify(initializeBody()).slice(0, -1) },
];
const badReasons = ['invalid_request', 'session_setting', 'not_acceptable', 'session_unknown', 'parse_error'] as const;

async function expectStatus(answer: Promise<Answer>, ...statuses: number[]): Promise<void> {
  const { status } = await answer;
  const text = await (await answer).ended(patienceMs);
  if (!statuses.includes(status)) throw new Error(`Answered ${status} in place of ${statuses.join()}: ${text}`);
}

/** Connects, lets `talk` say something, and gives the connection up. */
async function raw({ server }: Target, talk: (connection: RawConnection) => unknown): Promise<void> {
  const connection = await RawConnection.open(server.port);
  try {
    await talk(connection);
  } finally {
    connection.close();
  }
}

async function expectRaw(connection: RawConnection, status: number): Promise<void> {
  const answer = await connection.answer(patienceMs);
  if (answer.status !== status) throw new Error(`Answered ${answer.status} in place of ${status}: ${answer.body}`);
}

function post({ client }: Target, headers: Sent['headers'], body: unknown = call): Promise<Answer> {
  return client.send({ headers: headers ?? {}, body });
}

/** Bytes by chance: noise, or a proper request with some bytes changed. */
function randomBytes(index: number): Buffer {
  const random = makeRandom(7_000 + index);
  const below = (limit: number): number => Math.floor(random() * limit);
  if (index % 2 === 0) return Buffer.from(Array.from({ length: 1 + below(600) }, () => below(256)));
  const bytes = Buffer.from(valid);
  for (let count = 1 + below(4); count > 0; count -= 1) bytes[below(bytes.length)] = below(256);
  return bytes.subarray(0, random() < 0.2 ? below(bytes.length) : bytes.length);
}

/** JSON by chance, with the names that mean something in it. */
function randomJson(index: number): unknown {
  const random = makeRandom(9_000 + index);
  const words = [
    'jsonrpc',
    '2.0',
    'id',
    'method',
    'params',
    'result',
    'error',
    'ping',
    '_meta',
    'progressToken',
    '\u0000',
  ];
  const pick = (): string => words[Math.floor(random() * words.length)] ?? '';
  const make = (depth: number): unknown => {
    const kind = Math.floor(random() * (depth > 3 ? 5 : 7));
    const leaves = [null, true, random() * 1e20 - 5e19, -0, pick()];
    if (kind < 5) return leaves[kind];
    if (kind === 5) return Array.from({ length: Math.floor(random() * 4) }, () => make(depth + 1));
    return Object.fromEntries(Array.from({ length: Math.floor(random() * 5) }, () => [pick(), make(depth + 1)]));
  };
  const value = make(0);
  return random() < 0.5 ? { jsonrpc: '2.0', method: `x/${pick()}`, params: value } : { ...call, id: value };
}

/** Everything that a server must bear; each is done so many times at once. */
export const abuses: readonly Abuse[] = [
  {
    name: 'an Accept that leaves out what is answered',
    times: 50,
    refusals: { not_acceptable: 2 },
    act: async (target) => {
      await expectStatus(post(target, { accept: 'application/json' }), 406);
      await expectStatus(target.client.send({ method: 'GET', headers: { accept: 'application/json' } }), 406);
    },
  },
  {
    name: 'another content type',
    times: 50,
    refusals: { media_type: 1 },
    act: (target) => expectStatus(post(target, { 'content-type': 'text/plain' }), 415),
  },
  {
    name: 'wrong batches',
    times: 50,
    refusals: { invalid_request: 1 },
    act: (target, index) => expectStatus(post(target, {}, batches[index % batches.length]), 400),
  },
  {
    name: 'bodies that are too large, announced and not',
    times: 10,
    refusals: { message_too_large: 2 },
    act: async (target) => {
      await expectStatus(post(target, {}, { ...call, params: 'x'.repeat(manyBytes) }), 413);
      await raw(target, async (connection) => {
        const { client } = target;
        const headers = Object.entries({ host: 'localhost', ...client.headers, 'transfer-encoding': 'chunked' });
        const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
        connection.send(`POST /mcp HTTP/1.1\r\n${lines}\r\n`);
        for (let sent = 0; sent < manyBytes; sent += 500_000) connection.send(`7a120\r\n${'x'.repeat(500_000)}\r\n`);
        await expectRaw(connection, 413);
      });
    },
  },
  {
    name: 'initializes that are refused',
    times: 100,
    refusals: Object.fromEntries(badReasons.map((reason) => [reason, 1])),
    act: async ({ server }) => {
      for (const sent of badInitializes) {
        const headers = { ...postHeaders, ...sent.headers };
        await expectStatus(send(server.url, { ...sent, headers }), 400, 404, 406);
      }
    },
  },
  {
    name: 'initializes whose client goes',
    times: 200,
    refusals: {},
    act: (target, index) =>
      raw(target, async (connection) => {
        const body = JSON.stringify(initializeBody());
        const headers = Object.entries({ host: 'localhost', ...postHeaders, 'content-length': body.length });
        const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
        connection.send(`POST /mcp HTTP/1.1\r\n${lines}\r\n${body}`);
        // A quarter waits for the answer, the others go before it.
        if (index % 4 === 0) await connection.sees('mcp-session-id', patienceMs);
        else await new Promise((resolve) => connection.socket.write('', resolve));
        if (index % 4 === 1) connection.socket.resetAndDestroy();
      }),
  },
  {
    name: 'streams to listen on, all at once',
    times: 100,
    refusals: {},
    act: async ({ client }) => {
      const stream = await client.listen();
      await stream.sees('the first bytes', () => true, patienceMs).catch(() => undefined);
      stream.close();
    },
  },
  {
    name: 'headers and bodies that come too slowly, and connections on which nothing is said or that are half closed',
    times: 25,
    refusals: { request_timeout: 2 },
    act: async (target) => {
      const headers = Object.entries({ host: 'localhost', ...target.client.headers, 'content-length': '100000' });
      const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      await Promise.all([
        raw(target, (connection) => trickle(connection, 'GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: ')),
        raw(target, (connection) => trickle(connection, `POST /mcp HTTP/1.1\r\n${lines}\r\n`)),
        raw(target, (connection) => connection.ended(patienceMs)),
        raw(target, (connection) => {
          connection.socket.end();
          return connection.ended(patienceMs);
        }),
      ]);
    },
  },
  {
    name: 'a huge header',
    times: 20,
    refusals: { headers_too_large: 1 },
    act: (target) =>
      raw(target, async (connection) => {
        connection.send(`GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(200_000)}\r\n\r\n`);
        await expectRaw(connection, 431);
      }),
  },
  {
    name: 'ids that are in use',
    times: 20,
    refusals: { invalid_request: 2 },
    act: async (target, index) => {
      const held = { ...call, id: `held ${index}`, params: { name: 'never', arguments: {} } };
      const first = await post(target, {}, held);
      await expectStatus(post(target, {}, held), 400);
      await expectStatus(
        post(target, {}, [
          { ...call, id: `twice ${index}` },
          { ...call, id: `twice ${index}` },
        ]),
        400,
      );
      await target.client.post({ method: 'notifications/cancelled', params: { requestId: held.id } });
      await first.ended(patienceMs);
    },
  },
  {
    name: 'session ids that do not exist',
    times: 50,
    refusals: { session_unknown: 3 },
    act: async (target, index) => {
      const headers = { 'mcp-session-id': `${target.client.id}${index}` };
      await expectStatus(post(target, headers), 404);
      await expectStatus(target.client.send({ method: 'GET', headers }), 404);
      await expectStatus(target.client.send({ method: 'DELETE', headers }), 404);
    },
  },
  {
    name: 'a foreign Host and a foreign Origin',
    times: 50,
    refusals: { host_refused: 1, origin_refused: 1 },
    act: async (target) => {
      await expectStatus(post(target, { host: 'evil.example.com' }), 403);
      await expectStatus(post(target, { origin: 'http://evil.example.com' }), 403);
    },
  },
  {
    name: 'random bytes',
    times: 300,
    refusals: undefined,
    act: (target, index) =>
      raw(target, async (connection) => {
        connection.send(randomBytes(index));
        connection.socket.end();
        const text = await connection.ended(patienceMs);
        if (text.startsWith('HTTP/1.1 5')) throw new Error(`Random bytes ${index}: ${text}`);
      }),
  },
  {
    name: 'random JSON',
    times: 200,
    refusals: undefined,
    act: (target, index) => expectStatus(post(target, {}, randomJson(index)), 200, 202, 400),
  },
];

/** Sends bytes and then one every 20 ms until the other side answers or ends. */
async function trickle(connection: RawConnection, bytes: string): Promise<void> {
  connection.send(bytes);
  const timer = setInterval(() => connection.send('x'), 20);
  try {
    await waitUntil(
      'the end of its patience',
      () => (connection.received.includes('408') ? true : undefined),
      patienceMs,
    );
  } finally {
    clearInterval(timer);
  }
}
