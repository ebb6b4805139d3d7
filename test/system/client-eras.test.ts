import { Client, SdkError, SdkErrorCode, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { dataOf, initializeBody, openSession, postHeaders, send } from '../support/http-exchange.ts';
import { waitForListening } from '../support/listening.ts';
import { waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';

/** Spare children would be started for nobody; without them every child belongs to a session. */
const args = ['--transport', 'streamable-http', '--http-port', '0', '--http-spare-children', '0'];

let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
});

afterEach(async () => {
  await testbed.close();
});

function startServer(): Promise<string> {
  return waitForListening(testbed.start({ args }));
}

type Mode = 'auto' | 'legacy' | { readonly pin: string };

function newClient(mode?: Mode): Client {
  const info = { name: 'new-client', version: '2.4.0' };
  return new Client(info, mode === undefined ? {} : { versionNegotiation: { mode } });
}

function overHttp(url: string): StreamableHTTPClientTransport {
  return new StreamableHTTPClientTransport(new URL(url));
}

function overStdio(): StdioClientTransport {
  const { program, args: flags, env } = testbed.command();
  const command = { command: process.execPath, args: [program, ...flags], env, cwd: testbed.folders.cwd };
  return new StdioClientTransport({ ...command, stderr: 'ignore' });
}

async function expectToWork(client: Client): Promise<void> {
  expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
  expect(client.getProtocolEra()).toBe('legacy');
  expect(client.getServerVersion()).toMatchObject({ name: 'cloakbrowser-mcp' });
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['echo', 'cloakbrowser_bridge_info']));
  expect(testbed.counts().started).toBe(0);
  const { content } = await client.callTool({ name: 'content', arguments: { kinds: ['text'] } });
  expect(content).toMatchObject([{ type: 'text', text: 'plain' }]);
}

const modes: [what: string, mode: Mode | undefined][] = [
  ['in its default mode', undefined],
  ['that looks for a newer server first', 'auto'],
];

describe('a client that knows revision 2026-07-28', () => {
  test.each(modes)('%s works over HTTP and starts one child, with its first call', async (_what, mode) => {
    const client = newClient(mode);
    const transport = overHttp(await startServer());
    await client.connect(transport);
    await expectToWork(client);
    expect(testbed.counts()).toEqual({ started: 1, calls: 1, answered: 1 });
    await transport.terminateSession();
    await client.close();
    await testbed.waitForEvent('end');
  });

  test.each(modes)('%s works over stdio and starts one child, with its first call', async (_what, mode) => {
    const client = newClient(mode);
    await client.connect(overStdio());
    await expectToWork(client);
    expect(testbed.counts()).toEqual({ started: 1, calls: 1, answered: 1 });
    await client.close();
    await waitForNoProcess(testbed.folders.root);
  });

  test('and wants nothing else is told so at once over HTTP, without a child', async () => {
    const failed = newClient({ pin: '2026-07-28' }).connect(overHttp(await startServer()));
    await expect(failed).rejects.toSatisfy(isNegotiationFailure);
    expect(testbed.counts().started).toBe(0);
  });

  test('and wants nothing else is told so at once over stdio, without a child', async () => {
    const failed = newClient({ pin: '2026-07-28' }).connect(overStdio());
    await expect(failed).rejects.toSatisfy(isNegotiationFailure);
    expect(testbed.counts().started).toBe(0);
    await waitForNoProcess(testbed.folders.root);
  });

  test('finds with its probe a refusal that is a JSON-RPC error, a session is not opened by it', async () => {
    const url = await startServer();
    const headers = { ...postHeaders, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' };
    const answer = await send(url, { headers, body: { jsonrpc: '2.0', id: 1, method: 'server/discover' } });
    expect(answer.status).toBe(400);
    expect(answer.headers).not.toHaveProperty('mcp-session-id');
    expect(await answer.messages()).toMatchObject([{ jsonrpc: '2.0', error: { message: expect.any(String) } }]);
    expect(testbed.counts().started).toBe(0);
  });
});

function isNegotiationFailure(cause: unknown): boolean {
  return cause instanceof SdkError && cause.code === SdkErrorCode.EraNegotiationFailed;
}

describe.each(['2024-11-05', '2025-03-26', '2025-06-18'])('a client of revision %s', (version) => {
  test('gets its own revision, answers without empty events, and the end of its session', async () => {
    const url = await startServer();
    const { headers, initialized } = await openSession(url, version);
    expect(initialized.result).toMatchObject({ protocolVersion: version });
    const body = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'progress', arguments: { steps: 2 } } };
    const answer = await send(url, { headers, body });
    const messages = await answer.messages();
    expect(answer.status).toBe(200);
    expect(messages.map(({ method, id }) => method ?? id)).toEqual([
      'notifications/progress',
      'notifications/progress',
      7,
    ]);
    expect(dataOf(await answer.text())).not.toContain('');
    expect((await send(url, { method: 'DELETE', headers })).status).toBe(200);
    expect((await send(url, { headers, body })).status).toBe(404);
    await testbed.waitForEvent('end');
  });
});

describe('a batch', () => {
  test('of a 2025-03-26 client gets all its answers on one stream', async () => {
    const url = await startServer();
    const { headers } = await openSession(url, '2025-03-26');
    const body = [
      { jsonrpc: '2.0', id: 'a', method: 'tools/list' },
      { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'content', arguments: { kinds: ['text'] } } },
      { jsonrpc: '2.0', method: 'notifications/x/seen', params: { 'x-note': 1 } },
      { jsonrpc: '2.0', id: 'c', method: 'x/unheard' },
    ];
    const messages = await (await send(url, { headers, body })).messages();
    const answered = messages.filter(({ method }) => method === undefined).map(({ id }) => String(id));
    expect(answered.toSorted()).toEqual(['2', 'a', 'c']);
    await testbed.waitForEvent('received', { method: 'notifications/x/seen' });
  });

  test('of notifications alone is accepted without a body', async () => {
    const url = await startServer();
    const { headers } = await openSession(url, '2025-03-26');
    const body = [1, 2].map((step) => ({ jsonrpc: '2.0', method: 'notifications/x/seen', params: { step } }));
    const answer = await send(url, { headers, body });
    expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 202, text: '' });
  });

  test('of initialize and a call is refused, and opens no session', async () => {
    const url = await startServer();
    const body = [initializeBody('2025-03-26'), { jsonrpc: '2.0', id: 2, method: 'tools/list' }];
    const answer = await send(url, { headers: postHeaders, body });
    expect(answer.status).toBe(400);
    expect(answer.headers).not.toHaveProperty('mcp-session-id');
    expect(testbed.counts().started).toBe(0);
  });
});
