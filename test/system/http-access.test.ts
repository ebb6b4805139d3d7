import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../support/client.ts';
import { initializeBody, postHeaders, send, type Answer, type Sent } from '../support/http-exchange.ts';
import { type HttpClient, HttpServer } from '../support/http-server.ts';
import { isRunning } from '../support/processes.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

const [first, second, filed, added] = [
  'first-token-0123456789',
  'second-token-012345678',
  'filed-token-0123456789',
  'added-token-0123456789',
];

let testbed: Testbed;
let server: HttpServer;
let tokenFile: string;

beforeAll(async () => {
  testbed = await Testbed.make();
  tokenFile = join(testbed.folders.root, 'tokens');
  writeFileSync(tokenFile, `# those of the file\n${filed}\n`);
  server = await HttpServer.start(testbed, {
    settings: { 'http-auth-token-file': tokenFile, 'http-files': 'true' },
    env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: `${first},${second}` },
  });
});

afterAll(async () => {
  await testbed.close();
});

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

function openAs(token: string): Promise<HttpClient> {
  return server.open({ headers: bearer(token) });
}

async function reasonOf(answer: Answer): Promise<unknown> {
  const { error } = JSON.parse(await answer.ended()) as Message;
  return error?.data?.['reason'];
}

type Route = readonly [path: string, sent: Sent];

const guarded: readonly Route[] = [
  ['/mcp', { method: 'POST', headers: postHeaders, body: initializeBody() }],
  ['/mcp', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'x' }],
  ['/mcp', { method: 'GET', headers: { accept: 'text/event-stream' } }],
  ['/mcp', { method: 'DELETE' }],
  ['/mcp/files/page.png', { method: 'GET' }],
  ['/metrics', { method: 'GET' }],
  ['/status', { method: 'GET' }],
];
const wrongWays: readonly [string, Sent['headers'], string][] = [
  ['none', {}, ''],
  ['one that is not known', bearer('other-token-0123456789'), ''],
  ['the beginning of a known one', bearer(first.slice(0, -1)), ''],
  ['a known one and more', bearer(`${first}0`), ''],
  ['a known one in capitals', bearer(first.toUpperCase()), ''],
  ['two known ones in one', bearer(`${first},${second}`), ''],
  ['a comment of the file', bearer('#'), ''],
  ['no token after the scheme', { authorization: 'Bearer ' }, ''],
  ['another scheme', { authorization: `Basic ${first}` }, ''],
  ['no scheme', { authorization: first }, ''],
  ['two headers', { authorization: [`Bearer ${first}`, `Bearer ${first}`] as unknown as string }, ''],
  ['one in the query', {}, `?token=${first}&access_token=${first}`],
  ['one in another header', { 'x-api-key': first, cookie: `token=${first}` }, ''],
];

describe('a server with tokens', () => {
  test.each(wrongWays)(
    'refuses on every route what has %s: 401 with the way to mend it',
    async (_what, headers, query) => {
      const opened = await server.metric('sessions_opened_total', '', bearer(first));
      for (const [path, sent] of guarded) {
        const answer = await server.ask(`${path}${query}`, { ...sent, headers: { ...sent.headers, ...headers } });
        const { error } = JSON.parse(await answer.ended()) as Message;
        expect([path, answer.status, answer.contentType]).toEqual([path, 401, 'application/json']);
        expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
        expect(error?.data).toMatchObject({
          reason: 'unauthorized',
          hint: expect.stringContaining('--http-auth-token'),
        });
      }
      expect(await server.metric('sessions_opened_total', '', bearer(first))).toBe(opened);
    },
  );

  test.each(['Bearer', 'bearer', 'BEARER'])(
    'takes each of its tokens, with the scheme written "%s"',
    async (scheme) => {
      for (const token of [first, second, filed]) {
        for (const path of ['/metrics', '/status']) {
          const answer = await server.ask(path, { headers: { authorization: `${scheme} ${token}` } });
          expect(answer.status).toBe(200);
          await answer.ended();
        }
        const client = await server.open({ headers: { authorization: `${scheme} ${token}` } });
        expect(await client.end()).toBe(200);
      }
    },
  );

  test('answers the probes of balancers without one', async () => {
    for (const path of ['/healthz', '/readyz', '/readyz?unready=404']) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await server.ask(path, { method });
        expect([path, answer.status]).toEqual([path, 200]);
        expect(await answer.ended()).toMatch(method === 'HEAD' ? /^$/ : /"status":"(ok|ready)"/);
      }
    }
  });

  test('a session belongs to its token: for another one it does not exist, and it is not harmed', async () => {
    const client = await openAs(first);
    const { pid } = structuredOf(await client.call('inspect'));
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    for (const token of [second, filed]) {
      for (const sent of [{ body: list }, { method: 'GET' }, { method: 'DELETE' }]) {
        const answer = await client.send({ ...sent, headers: bearer(token) });
        expect([answer.status, await reasonOf(answer)]).toEqual([404, 'session_unknown']);
      }
      const file = await server.ask('/mcp/files/x', { headers: { ...client.headers, ...bearer(token) } });
      expect([file.status, await reasonOf(file)]).toEqual([404, 'session_unknown']);
    }
    expect(structuredOf(await client.call('inspect'))).toMatchObject({ pid, calls: 2 });
    await client.end();
  });
});

describe('tokens that are read again on SIGHUP', () => {
  async function reload(text: string): Promise<void> {
    writeFileSync(tokenFile, text);
    const count = server.logged('tokens and certificate reloaded').length;
    server.program.kill('SIGHUP');
    await server.waitForLog('tokens and certificate reloaded', {}, { count: count + 1 });
  }

  async function statusFor(token: string): Promise<number> {
    const answer = await server.ask('/status', { headers: bearer(token) });
    await answer.ended();
    return answer.status;
  }

  test('one that was added works; sessions of one that is gone end, those of the others go on', async () => {
    const [leaving, staying] = await Promise.all([openAs(filed), openAs(first)]);
    const gonePid = Number(structuredOf(await leaving.call('inspect'))['pid']);
    const { pid } = structuredOf(await staying.call('inspect'));
    const call = await leaving.start('never', {}, { id: 'cut' });
    expect(await statusFor(added)).toBe(401);

    await reload(`${added}\n`);
    await server.waitForLog('session ended', { sessionId: leaving.hash, reason: 'revoked' });
    await call.ended();
    expect(call.soFar).toMatchObject([{ id: 'cut', result: { isError: true } }]);
    expect(isRunning(gonePid)).toBe(false);
    expect([await statusFor(filed), await statusFor(added), await statusFor(second)]).toEqual([401, 200, 200]);
    expect((await leaving.send({ method: 'GET' })).status).toBe(401);
    expect(structuredOf(await staying.call('inspect'))).toMatchObject({ pid, calls: 2 });
    await staying.end();
  });

  test.each([
    ['is empty', ''],
    ['has only comments', '# none\n'],
    ['has one that is too short', `${added}\nshort\n`],
    ['has one with a blank', `${added}\nwith blank-0123456789\n`],
  ])('a file that %s changes nothing, and is told with its name and without its content', async (_what, text) => {
    const client = await openAs(added);
    const count = server.logged('settings not reloaded').length;
    writeFileSync(tokenFile, text);
    server.program.kill('SIGHUP');
    const { reason } = await server.waitForLog('settings not reloaded', { code: 'config' }, { count: count + 1 });
    expect(reason).toContain(tokenFile);
    expect(reason).not.toMatch(/short|with blank/);
    expect((await client.call('echo')).result).toBeDefined();
    expect(await statusFor(added)).toBe(200);
    await client.end();
  });

  test('leave a call alone, and the program does not end', async () => {
    const client = await openAs(first);
    const call = await client.start('hold', { key: 'k' }, { id: 'held' });
    await testbed.waitForEvent('received', { tool: 'hold' });
    await reload(`${added}\n`);
    await client.call('release', { key: 'k' });
    await call.ended();
    expect(call.soFar.at(-1)).toMatchObject({ id: 'held', result: { content: [{ text: 'x' }] } });
    await client.end();
  });
});

test('no token is in anything that the server wrote or told', async () => {
  const told = [
    server.program.stderr,
    JSON.stringify(server.program.messages),
    await (await server.ask('/metrics', { headers: bearer(first) })).ended(),
    await (await server.ask('/status', { headers: bearer(first) })).ended(),
    JSON.stringify(await (await openAs(first)).call('cloakbrowser_bridge_info')),
  ];
  for (const token of [first, second, filed, added]) {
    for (const text of told) expect(text).not.toContain(token);
  }
  await waitUntil('the log', () => (server.program.stderr.includes('request done') ? true : undefined));
});

test('without a token everybody is let in on a loopback address, and a token that is shown does no harm', async () => {
  const other = await Testbed.make();
  try {
    const open = await HttpServer.start(other);
    const [one, two] = await Promise.all([open.open(), open.open({ headers: bearer(first) })]);
    const answer = await send(open.url, {
      headers: { ...one.headers, ...bearer(second) },
      body: { jsonrpc: '2.0', id: 1, method: 'ping' },
    });
    expect(answer.status).toBe(200);
    expect((await open.ask('/status')).status).toBe(200);
    await Promise.all([one.end(), two.end()]);
  } finally {
    await other.close();
  }
});
