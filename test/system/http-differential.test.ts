import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import { initializeBody, openSession, postHeaders, send, type Answer, type Sent } from '../support/http-exchange.ts';
import { waitForListening } from '../support/listening.ts';
import { startReferenceServer, type ReferenceServer } from '../support/reference-server.ts';
import { Testbed } from '../support/testbed.ts';

/**
 * Our Streamable HTTP is not the SDK's. The same requests go to both, and status and content type must be the same but
 * for the differences below, each with its reason.
 */
const differences: Readonly<Record<string, { ours: string; reason: string }>> = {
  'initialize alone in a batch': {
    ours: '400 application/json',
    reason: 'The revision that has batches says that initialize must not be part of one.',
  },
  'an empty batch': {
    ours: '400 application/json',
    reason: 'JSON-RPC calls it an invalid request; the SDK accepts it without a word.',
  },
  'a request whose id is a fraction': {
    ours: '200 text/event-stream',
    reason: 'JSON-RPC advises against it but allows it, and ids pass through the bridge as they are written.',
  },
  'a request whose params are a list': {
    ours: '200 text/event-stream',
    reason: 'JSON-RPC allows it; whether the method takes it is for upstream to say.',
  },
  'a request with a member that JSON-RPC does not have': {
    ours: '200 text/event-stream',
    reason: 'The bridge passes on what it does not know; the SDK refuses the whole message.',
  },
  'Accept of everything': {
    ours: '200 text/event-stream',
    reason: 'HTTP says that a wildcard accepts every type; the SDK looks for the names alone.',
  },
  'the version header "2024-10-07"': {
    ours: '400 application/json',
    reason: 'A draft from before the first release that only the SDK still lists.',
  },
  'Host localhost with another port': {
    ours: '200 text/event-stream',
    reason: 'The name decides, because a forwarded port is another one for the client; the SDK compares the port too.',
  },
  'a second GET': {
    ours: '200 text/event-stream',
    reason:
      'The newest stream wins: behind a balancer the older one may be dead for minutes without anybody seeing it.',
  },
};

type Stage = 'none' | 'open' | 'unknown' | 'ended';

/** What is sent, and to a session in which state. An `undefined` header is left out. */
interface Row extends Omit<Sent, 'headers'> {
  readonly name: string;
  readonly session: Stage;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** The same request is made before, and its stream stays open. */
  readonly isSecond?: boolean;
}

function rpc(method: string, more: object = {}): object {
  return { jsonrpc: '2.0', id: 1, method, ...more };
}

function notification(method: string): object {
  return { jsonrpc: '2.0', method };
}

const list = rpc('tools/list');
const listText = JSON.stringify(list);
const bodyLimit = 4 * 1024 * 1024;

function open(name: string, headers: Row['headers'], body: unknown = list): Row {
  return { name, session: 'open', headers: headers ?? {}, body };
}

const rows: Row[] = [
  { name: 'initialize', session: 'none', body: initializeBody() },
  { name: 'initialize for 2024-11-05', session: 'none', body: initializeBody('2024-11-05') },
  { name: 'initialize for a version that nobody knows', session: 'none', body: initializeBody('1999-01-01') },
  { name: 'initialize for 2026-07-28', session: 'none', body: initializeBody('2026-07-28') },
  { name: 'initialize without params', session: 'none', body: rpc('initialize') },
  { name: 'initialize alone in a batch', session: 'none', body: [initializeBody()] },
  { name: 'initialize in a batch with a request', session: 'none', body: [initializeBody(), list] },
  { name: 'initialize as a notification', session: 'none', body: notification('initialize') },
  { name: 'initialize in a session', session: 'open', body: initializeBody() },
  { name: 'initialize with an unknown session id', session: 'unknown', body: initializeBody() },

  { name: 'a request without a session', session: 'none', body: list },
  { name: 'a probe of a 2026-07-28 client', session: 'none', body: rpc('server/discover') },
  { name: 'a notification without a session', session: 'none', body: notification('notifications/initialized') },
  { name: 'a batch without a session', session: 'none', body: [list] },
  { name: 'GET without a session', session: 'none', method: 'GET' },
  { name: 'DELETE without a session', session: 'none', method: 'DELETE' },
  ...(['unknown', 'ended'] as const).flatMap((session): Row[] => [
    { name: `a request to a session that is ${session}`, session, body: list },
    { name: `a notification to a session that is ${session}`, session, body: notification('notifications/x') },
    { name: `GET of a session that is ${session}`, session, method: 'GET' },
    { name: `DELETE of a session that is ${session}`, session, method: 'DELETE' },
  ]),

  open('a request', {}),
  open('ping', {}, rpc('ping')),
  open('a method that the server does not have', {}, rpc('x-no-such-method')),
  open('a notification', {}, notification('notifications/progress')),
  open('an answer that nobody waits for', {}, { jsonrpc: '2.0', id: 99, result: {} }),
  open('a batch of requests', {}, [list, rpc('ping', { id: 2 })]),
  open('a batch of a request and a notification', {}, [list, notification('notifications/progress')]),
  open('a batch of notifications', {}, [notification('notifications/progress'), notification('notifications/x')]),
  open('an empty batch', {}, []),
  open(
    'a batch of 100 messages',
    {},
    Array.from({ length: 100 }, () => notification('notifications/x')),
  ),
  open(
    'a batch of 101 messages',
    {},
    Array.from({ length: 101 }, () => notification('notifications/x')),
  ),
  open('a batch with something that is no message', {}, [list, 42]),
  open('a body that is no JSON', {}, '{"jsonrpc":'),
  open('an empty body', {}, ''),
  open('a number', {}, '42'),
  open('null', {}, 'null'),
  open('an object that is no JSON-RPC', {}, { hello: 1 }),
  open('JSON-RPC 1.0', {}, { ...list, jsonrpc: '1.0' }),
  open('a request whose id is null', {}, { ...list, id: null }),
  open('a request whose id is a fraction', {}, { ...list, id: 1.5 }),
  open('a request whose id is an object', {}, { ...list, id: {} }),
  open('a request whose method is a number', {}, { ...list, method: 5 }),
  open('a request whose params are a list', {}, { ...list, params: [] }),
  open('a request with a member that JSON-RPC does not have', {}, { ...list, 'x-trace': 1 }),
  open('a body of exactly the limit', {}, listText.padEnd(bodyLimit)),
  open('a body of one byte over the limit', {}, listText.padEnd(bodyLimit + 1)),

  open('no Accept', { accept: undefined }),
  open('Accept of JSON only', { accept: 'application/json' }),
  open('Accept of event streams only', { accept: 'text/event-stream' }),
  open('Accept of everything', { accept: '*/*' }),
  open('Accept of both with weights', { accept: 'text/event-stream;q=0.9, application/json;q=0.8' }),
  open('no Content-Type', { 'content-type': undefined }),
  open('Content-Type text/plain', { 'content-type': 'text/plain' }),
  open('Content-Type application/json-seq', { 'content-type': 'application/json-seq' }),
  open('Content-Type with a charset', { 'content-type': 'application/json; charset=utf-8' }),
  open('Content-Type in capitals', { 'content-type': 'APPLICATION/JSON' }),
  open('Content-Type that has JSON as a parameter', { 'content-type': 'text/plain; x=application/json' }),
  ...['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07', '2026-07-28', '1.0', ''].map((version) =>
    open(`the version header "${version}"`, { 'mcp-protocol-version': version }),
  ),
  open('no version header', { 'mcp-protocol-version': undefined }),

  open('a foreign Host', { host: 'evil.example.com' }),
  open('Host localhost', { host: 'localhost:{port}' }),
  open('Host localhost with another port', { host: 'localhost:1' }),
  open('a foreign Origin', { origin: 'http://evil.example.com' }),
  open('the own Origin', { origin: 'http://127.0.0.1:{port}' }),
  open('Origin null', { origin: 'null' }),

  { name: 'GET', session: 'open', method: 'GET' },
  { name: 'a second GET', session: 'open', method: 'GET', isSecond: true },
  { name: 'GET with Accept of JSON', session: 'open', method: 'GET', headers: { accept: 'application/json' } },
  { name: 'GET with an event id of nobody', session: 'open', method: 'GET', headers: { 'last-event-id': 'x' } },
  { name: 'GET with an unknown version', session: 'open', method: 'GET', headers: { 'mcp-protocol-version': '1.0' } },
  { name: 'DELETE', session: 'open', method: 'DELETE' },
  {
    name: 'DELETE with an unknown version',
    session: 'open',
    method: 'DELETE',
    headers: { 'mcp-protocol-version': '1' },
  },
  ...['PUT', 'PATCH', 'HEAD', 'OPTIONS'].map((method): Row => ({ name: method, session: 'open', method })),
];

let testbed: Testbed;
let reference: ReferenceServer;
let url: string;

beforeAll(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
  reference = await startReferenceServer();
  url = await waitForListening(testbed.start({ args: ['--transport', 'streamable-http', '--http-port', '0'] }));
});

afterAll(async () => {
  await reference.close();
  await testbed.close();
});

/** The headers that a well-behaved client would send in this state. */
async function usualHeaders(to: string, session: Stage): Promise<Record<string, string>> {
  if (session === 'none') return { ...postHeaders };
  if (session === 'unknown') return { ...postHeaders, 'mcp-session-id': 'there-is-no-such-session' };
  const { headers } = await openSession(to);
  if (session === 'ended') await (await send(to, { method: 'DELETE', headers })).text();
  return headers;
}

function override(usual: Record<string, string>, given: Row['headers'], port: string): Record<string, string> {
  const all = Object.entries({ ...usual, ...given });
  return Object.fromEntries(
    all.flatMap(([name, value]) => (value === undefined ? [] : [[name, value.replace('{port}', port)]])),
  );
}

/** Makes the request in a session of its own. An open stream is not waited for, unless it is a POST's. */
async function make(to: string, row: Row): Promise<Answer> {
  const usual = await usualHeaders(to, row.session);
  const headers = override(usual, row.headers, new URL(to).port);
  const first = row.isSecond === true ? await send(to, { ...row, headers }) : undefined;
  const answer = await send(to, { ...row, headers });
  first?.close();
  if (row.method === 'GET' && answer.status === 200) answer.close();
  await answer.text();
  await (await send(to, { method: 'DELETE', headers: usual })).text();
  return answer;
}

function verdictOf({ status, contentType }: Answer): string {
  return `${status} ${contentType ?? '-'}`;
}

/** True unless a refusal with a body is anything else than a JSON-RPC error. */
async function isReadable(answer: Answer): Promise<boolean> {
  const text = await answer.text();
  if (answer.status < 400 || text === '') return true;
  const { jsonrpc, error } = JSON.parse(text) as Message;
  return jsonrpc === '2.0' && typeof error?.code === 'number' && error.message !== '';
}

test.each(rows)('the answer to $name is that of the SDK', async (row) => {
  const theirs = await make(reference.url, row);
  const ours = await make(url, row);
  const difference = differences[row.name];
  expect(verdictOf(ours)).toBe(difference?.ours ?? verdictOf(theirs));
  expect(await isReadable(ours)).toBe(true);
  // A difference that is none any more must leave the table.
  expect(verdictOf(ours) !== verdictOf(theirs)).toBe(difference !== undefined);
});

test('every difference to the SDK belongs to a request of the table', () => {
  const names = rows.map(({ name }) => name);
  expect(Object.keys(differences).filter((name) => !names.includes(name))).toEqual([]);
});
