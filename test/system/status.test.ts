import { createServer, type Server } from 'node:net';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { BridgeError } from '../../src/core/errors.ts';
import type { ServerStatus } from '../../src/core/server-status.ts';
import { refuse, replyJson } from '../../src/http/reply.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { closeListeners, openListener } from '../support/listener-bed.ts';
import { Testbed } from '../support/testbed.ts';

const certificates = join(import.meta.dirname, '../fixtures/tls');
const firstPair = {
  protocol: 'https',
  tls: { cert: join(certificates, 'first-cert.pem'), key: join(certificates, 'first-key.pem') },
} as const;
const token = 'a-token-of-the-server';
const told: ServerStatus = {
  name: 'cloakbrowser-mcp',
  version: '1.2.3',
  uptimeMs: 7_500_000,
  url: 'http://127.0.0.1:3000/mcp',
  replica: 'a',
  draining: false,
  memoryBytes: 96_000_000,
  sessions: [],
  limits: { sessions: 32, starts: 4 },
  startQueue: { running: 0, waiting: 0 },
  spares: { children: 1, browsers: 0 },
};

let testbed: Testbed;
let silent: Server | undefined;

beforeEach(async () => {
  testbed = await Testbed.make();
});
afterEach(async () => {
  silent?.close();
  silent = undefined;
  await closeListeners();
  await testbed.close();
});

interface Asking {
  readonly env?: Readonly<Record<string, string>>;
  readonly onStart?: (pid: number) => void;
}

function ask(args: readonly string[], { env, onStart }: Asking = {}): Promise<CommandResult> {
  return runCommand(['status', ...args], {
    env: { ...testbed.env, ...env },
    cwd: testbed.folders.cwd,
    ...(onStart === undefined ? {} : { onStart }),
  });
}

function serve(req: IncomingMessage, res: ServerResponse): void {
  if (req.url !== '/status') refuse(res, new BridgeError('http_path', `No ${req.url} here.`));
  else if (req.headers.authorization !== `Bearer ${token}`) refuse(res, new BridgeError('unauthorized', 'Who?'));
  else replyJson(res, 200, told);
}

function serveOpenly(_req: IncomingMessage, res: ServerResponse): void {
  replyJson(res, 200, told);
}

describe('the status command', () => {
  it('prints what a running server tells, for people and for programs', async () => {
    const { url } = await openListener(serveOpenly);
    const text = await ask([url]);
    expect(text).toMatchObject({ code: 0, stderr: '' });
    expect(text.stdout).toMatch(/^cloakbrowser-mcp 1\.2\.3\n {2}state {5}ready\n/);
    expect(text.stdout).toContain('2 h 5 min');
    const json = await ask(['--json', `${url}/mcp`]);
    expect(json).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(json.stdout)).toEqual(told);
  });

  it('finds the server by the settings it was started with', async () => {
    const { port } = await openListener(serveOpenly);
    expect(await ask(['--http-port', String(port)])).toMatchObject({ code: 0, stderr: '' });
    const env = { CLOAK_PLAYWRIGHT_MCP_HTTP_PORT: String(port), CLOAK_PLAYWRIGHT_MCP_TRANSPORT: 'streamable-http' };
    expect(await ask([], { env })).toMatchObject({ code: 0, stderr: '' });
  });

  it('shows the token of the environment or of a file', async () => {
    const { url } = await openListener(serve);
    expect(await ask([url], { env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: token } })).toMatchObject({ code: 0 });
    const file = join(testbed.folders.cwd, 'tokens');
    await writeFile(file, `# ours\n${token}\n`);
    expect(await ask([url, '--http-auth-token-file', file])).toMatchObject({ code: 0, stderr: '' });
  });

  it('says that a token is asked for or not known, without showing it', async () => {
    const { url } = await openListener(serve);
    const without = await ask([url]);
    expect(without).toMatchObject({ code: 1, stdout: '' });
    expect(without.stderr).toContain(`cloakbrowser-mcp: ${url}/status: the server asks for a token.`);
    const wrong = await ask([url], { env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: 'not-the-token-of-it' } });
    expect(wrong.stderr).toContain('the server does not know the token');
    expect(wrong.stderr).toContain('--http-auth-token-file');
    expect(wrong.stderr).not.toContain('not-the-token');
  });

  it('says what was tried when nothing listens', async () => {
    const { listener, url } = await openListener();
    await listener.close();
    const { code, stdout, stderr } = await ask([url]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`${url}/status: no server is reached: connect ECONNREFUSED`);
    expect(stderr).toContain('--transport streamable-http');
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('says that another program answers', async () => {
    const { url } = await openListener();
    const { code, stderr } = await ask([url]);
    expect(code).toBe(1);
    expect(stderr).toContain('what answers there is no cloakbrowser-mcp server');
  });

  it('trusts the certificate of --https-cert, by whatever address the server is reached', async () => {
    // 127.0.0.2 is not in the certificate.
    const { port } = await openListener(serveOpenly, { ...firstPair, host: '127.0.0.2' });
    const url = `https://127.0.0.2:${port}`;
    expect(await ask([url, '--https-cert', firstPair.tls.cert])).toMatchObject({ code: 0, stderr: '' });
    const without = await ask([url]);
    expect(without.code).toBe(1);
    expect(without.stderr).toMatch(/the certificate of the server is not trusted.*\n.*--https-cert/);
    const other = await ask([url, '--https-cert', join(certificates, 'second-cert.pem')]);
    expect(other.code).toBe(1);
    expect(other.stderr).toMatch(/not trusted.*\n.*not the one of --https-cert/);
  });

  it('names the file when --https-cert is none', async () => {
    const { code, stderr } = await ask(['https://127.0.0.1:1', '--https-cert', join(certificates, 'README.md')]);
    expect(code).toBe(2);
    expect(stderr).toContain('The file of --https-cert holds no certificate');
  });

  it('says when the server speaks the other of HTTP and HTTPS', async () => {
    const plain = await openListener(serveOpenly);
    const { stderr: toPlain } = await ask([plain.url.replace('http:', 'https:')]);
    expect(toPlain).toMatch(/does not speak TLS.*\n.*http:\/\//);
    const secure = await openListener(serveOpenly, firstPair);
    const { stderr: toSecure } = await ask([secure.url.replace('https:', 'http:')]);
    expect(toSecure).toMatch(/does not answer HTTP.*\n.*https:\/\//);
  });

  it('stops waiting for a server that does not answer when it is interrupted', async () => {
    silent = createServer();
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    const connected = once(silent, 'connection');
    let pid = 0;
    const result = ask([`http://127.0.0.1:${port}`], { onStart: (started) => (pid = started) });
    await connected;
    process.kill(pid, 'SIGINT');
    expect(await result).toMatchObject({ code: 130, stdout: '' });
  });
});
