import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runCommand, type CommandResult } from '../support/command.ts';
import { listEntries } from '../support/folders.ts';
import { HttpServer, serverArgs, type ServerSettings } from '../support/http-server.ts';
import { processesOf, waitForNoProcess } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

const tlsFolder = join(import.meta.dirname, '../fixtures/tls');
const token = 'token-of-the-start-0123';
const passphrase = 'fixture-passphrase';

let testbed: Testbed;
let blocker: Server | undefined;

beforeEach(async () => {
  testbed = await Testbed.make();
});

afterEach(async () => {
  blocker?.close();
  blocker = undefined;
  await testbed.close();
});

/** Starts a server that is to end by itself. */
async function failing(settings: ServerSettings, env: Record<string, string> = {}): Promise<CommandResult> {
  const { args } = testbed.command();
  const all = [...args, ...serverArgs(settings)];
  const result = await runCommand(all, { env: { ...testbed.env, ...env }, cwd: testbed.folders.cwd });
  expect(result.stdout).toBe('');
  expect(result.stderr).not.toContain('Listening on');
  expect(result.stderr).not.toMatch(/^\s+at /m);
  expect(processesOf(testbed.folders.root)).toEqual([]);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
  return result;
}

function startWith(settings: ServerSettings, env: Record<string, string> = {}): Promise<HttpServer> {
  return HttpServer.start(testbed, { settings, env });
}

describe('an address that others can reach', () => {
  test.each(['0.0.0.0', '::', '192.0.2.1', 'mcp.example.org'])(
    '%s without a token: refused before anything is opened, with the settings that mend it',
    async (host) => {
      const { code, stderr } = await failing({ host });
      expect(code).toBe(2);
      for (const setting of ['--http-auth-token', '--http-auth-token-file', '--http-allow-unauthenticated']) {
        expect(stderr).toContain(setting);
      }
    },
  );

  test('is served with a token, and to the IP address that the request was sent to', async () => {
    const server = await startWith({ host: '0.0.0.0' }, { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: token });
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    const client = await server.open({ headers: { authorization: `Bearer ${token}` } });
    expect((await client.call('echo')).result).toBeDefined();
    expect((await server.ask('/healthz', { headers: { host: 'localhost' } })).status).toBe(403);
    expect((await server.ask('/metrics')).status).toBe(401);
  });

  test('is served without a token where that is said', async () => {
    const server = await startWith({ host: '0.0.0.0', 'http-allow-unauthenticated': 'true' });
    expect((await (await server.open()).call('echo')).result).toBeDefined();
  });
});

describe('a start that cannot succeed', () => {
  test('a port that is taken: exit 1, with address and setting', async () => {
    const taken = createServer();
    blocker = taken;
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port));
    });
    const { code, stderr } = await failing({ 'http-port': port });
    expect(code).toBe(1);
    expect(stderr).toContain(`127.0.0.1 port ${port}`);
    expect(stderr).toContain('--http-port');
  });

  test.each<[string, ServerSettings, number, RegExp]>([
    ['an address that is not of this computer', { host: '192.0.2.1', 'http-auth-token': token }, 1, /--http-host/],
    ['a token file that does not exist', { 'http-auth-token-file': '/nowhere/tokens' }, 2, /\/nowhere\/tokens/],
    ['https without a certificate', { 'http-protocol': 'https' }, 2, /--https-cert/],
    ['a certificate over plain HTTP', { 'https-cert': 'x.pem', 'https-key': 'y.pem' }, 2, /--http-protocol https/],
    [
      'a certificate that does not exist',
      tls({ 'https-cert': '/nowhere/c.pem', 'https-key': '/nowhere/k.pem' }),
      2,
      /\/nowhere\//,
    ],
    ['a certificate without its key', tls({ 'https-cert': fixture('first-cert.pem') }), 2, /--https-key/],
    [
      'a pair that does not fit',
      tls({ 'https-cert': fixture('first-cert.pem'), 'https-key': fixture('second-key.pem') }),
      2,
      /--https-cert.*--https-key/,
    ],
    [
      'a wrong passphrase',
      tls({ 'https-pfx': fixture('second.pfx'), 'https-passphrase': 'not-the-passphrase' }),
      2,
      /--https-passphrase/,
    ],
    ['an endpoint that is no path', { 'http-endpoint': 'mcp' }, 2, /--http-endpoint/],
    ['an endpoint that a probe has', { 'http-endpoint': '/healthz' }, 2, /--http-endpoint/],
    ['a short token', { 'http-auth-token': 'short' }, 2, /--http-auth-token.*16/],
    ['a replica id with a dot', { 'replica-id': 'a.b' }, 2, /--replica-id/],
    ['a session setting that does not exist', { 'session-settings': 'locale,proxy' }, 2, /--session-settings/],
    ['a port out of range', { 'http-port': 65_536 }, 2, /--http-port/],
  ])('%s', async (_what, settings, exit, told) => {
    const { code, stderr } = await failing(settings);
    expect([code, stderr]).toEqual([exit, expect.stringMatching(told)]);
    for (const secret of [token, 'not-the-passphrase']) expect(stderr).not.toContain(secret);
    expect(stderr).not.toContain('got "short"');
  });

  test('a variable that is wrong is one too, since a service must not begin half configured', async () => {
    const { code, stderr } = await failing({}, { CLOAK_PLAYWRIGHT_MCP_HTTP_SESSION_MAX: 'many' });
    expect([code, stderr]).toEqual([2, expect.stringContaining('CLOAK_PLAYWRIGHT_MCP_HTTP_SESSION_MAX')]);
  });

  function tls(settings: ServerSettings): ServerSettings {
    return { 'http-protocol': 'https', ...settings };
  }

  function fixture(name: string): string {
    return join(tlsFolder, name);
  }
});

describe("upstream's own spelling", () => {
  test('--port alone chooses HTTP, and the line that upstream prints tells where', async () => {
    await testbed.learnCatalog();
    const server = await HttpServer.of(testbed.start({ args: ['--port', '0', '--http-spare-children', '0'] }));
    expect(server.program.stderr).toMatch(/^Listening on http:\/\/127\.0\.0\.1:\d+\/mcp$/m);
    expect((await (await server.open()).call('echo')).result).toBeDefined();
    expect(server.program.lines).toEqual([]);
  });

  test('another endpoint is the only one', async () => {
    const server = await startWith({ 'http-endpoint': '/browsers/v1' });
    expect(server.url).toMatch(/\/browsers\/v1$/);
    expect((await (await server.open()).call('echo')).result).toBeDefined();
    expect((await server.ask('/mcp')).status).toBe(404);
  });
});

describe('a server with TLS', () => {
  /** The name in the certificate that a new connection gets. */
  async function servedName(port: number): Promise<unknown> {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await withDeadline('a handshake', new Promise((resolve) => socket.once('secureConnect', resolve)));
    const { CN } = socket.getPeerCertificate().subject;
    socket.destroy();
    return CN;
  }

  function trusting(name: string): Agent {
    return new Agent({ ca: readFileSync(join(tlsFolder, name)), keepAlive: true });
  }

  test('serves sessions, and with SIGHUP a new certificate to new connections while the others go on', async () => {
    const [cert, key] = [join(testbed.folders.root, 'cert.pem'), join(testbed.folders.root, 'key.pem')];
    const use = (pair: string): void => {
      copyFileSync(join(tlsFolder, `${pair}-cert.pem`), cert);
      copyFileSync(join(tlsFolder, `${pair}-key.pem`), key);
    };
    use('first');
    const server = await startWith({ 'http-protocol': 'https', 'https-cert': cert, 'https-key': key });
    expect(server.url).toMatch(/^https:/);
    const [agent, later] = [trusting('first-cert.pem'), trusting('second-cert.pem')];
    const client = await server.open({ agent });
    const stream = await client.listen();
    await stream.sees('the first bytes', () => true);
    expect(await servedName(server.port)).toBe('first.test');

    use('second');
    server.program.kill('SIGHUP');
    await server.waitForLog('tokens and certificate reloaded');
    expect(await servedName(server.port)).toBe('second.test');
    const next = await server.open({ agent: later });
    expect((await next.call('echo')).result).toBeDefined();
    expect(stream.isEnded).toBe(false);

    writeFileSync(key, 'no key');
    server.program.kill('SIGHUP');
    const { reason } = await server.waitForLog('settings not reloaded', { code: 'tls' });
    expect(reason).toContain(key);
    expect(await servedName(server.port)).toBe('second.test');

    // As in the moment in which a renewal replaces the files.
    rmSync(cert);
    server.program.kill('SIGHUP');
    await waitUntil('the missing certificate', () => server.program.stderr.includes(`${cert}, cannot be read`));
    expect((await next.call('echo')).result).toBeDefined();
    expect(await servedName(server.port)).toBe('second.test');
    await next.end();
    agent.destroy();
    later.destroy();
  });

  test('takes a PFX file with its passphrase, which is shown nowhere', async () => {
    const server = await startWith(
      { 'http-protocol': 'https', 'https-pfx': join(tlsFolder, 'second.pfx'), 'log-level': 'trace' },
      { CLOAK_PLAYWRIGHT_MCP_HTTPS_PASSPHRASE: passphrase },
    );
    const agent = trusting('second-cert.pem');
    const client = await server.open({ agent });
    const info = JSON.stringify(await client.call('cloakbrowser_bridge_info'));
    expect(info).not.toContain(passphrase);
    expect(server.program.stderr).not.toContain(passphrase);
    await client.end();
    agent.destroy();
  });
});

test('what a client gives for its session alone is shown nowhere, at the most talkative level', async () => {
  const server = await startWith({ 'log-level': 'trace' }, { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: token });
  const secrets = ['Bearer header-secret-0123', 'cookie-secret-0123', 'storage-secret-0123'];
  const [header, cookie, stored] = secrets;
  const origin = 'https://example.org';
  const settings = {
    extraHTTPHeaders: { 'x-key': header },
    storageState: {
      cookies: [
        {
          name: 'c',
          value: cookie,
          domain: 'example.org',
          path: '/',
          expires: -1,
          httpOnly: true,
          secure: true,
          sameSite: 'Lax',
        },
      ],
      origins: [{ origin, localStorage: [{ name: 'k', value: stored }] }],
    },
  };
  const headers = { authorization: `Bearer ${token}` };
  const client = await server.open({ headers, params: { _meta: { 'io.github.cloakbrowser-mcp/session': settings } } });
  await client.call('stderr', { text: `the child says ${secrets.join(' and ')}` });
  await client.call('exit', { reason: `died of ${secrets.join(' and ')}` });
  const told = [
    JSON.stringify(await client.call('cloakbrowser_bridge_info')),
    await (await server.ask('/status', { headers })).ended(),
    await (await server.ask('/metrics', { headers })).ended(),
  ];
  await client.end();
  await server.waitForLog('session ended');
  for (const secret of [...secrets, token, client.id]) {
    for (const text of [...told, server.program.stderr]) expect(text).not.toContain(secret);
  }
  // The child did not get them from us as a message: they are in the file of its configuration.
  expect(testbed.received().find((line) => line.includes('"initialize"'))).not.toContain('secret-0123');
  server.program.kill('SIGTERM');
  await server.program.exited;
  await waitForNoProcess(testbed.folders.root);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
});
