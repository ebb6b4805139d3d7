import { readFileSync } from 'node:fs';
import { request as requestPlain } from 'node:http';
import { Agent, createServer, request } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { callText, startBrowserBridge } from '../support/browser-bed.ts';
import { startBrowserServer, stopBrowserServer } from '../support/browser-server.ts';
import { cdpArgs, cdpOf, connectRaw, type CdpInfo, visitors } from '../support/cdp-bed.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;
let pages: PageServer;

// The libraries have no setting of their own for a certificate that nobody has signed.
beforeAll(() => {
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
});

afterAll(() => {
  delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
});

beforeEach(async () => {
  testbed = await Testbed.make();
  pages = await startPageServer();
});

afterEach(async () => {
  await testbed.close();
  await pages.close();
});

const tlsFolder = join(import.meta.dirname, '../fixtures/tls');
const certificate = (): { cert: Buffer; key: Buffer } => ({
  cert: readFileSync(join(tlsFolder, 'first-cert.pem')),
  key: readFileSync(join(tlsFolder, 'first-key.pem')),
});

/** A proxy that ends TLS on a port of its own and cuts a path off; `inner` tells the port behind it. */
async function startProxy(path: string, inner: () => number): Promise<{ readonly port: number; close(): void }> {
  const server = createServer(certificate());
  const cut = (url = ''): string => (url.startsWith(`${path}/`) ? url.slice(path.length) : '/outside');
  server.on('request', (req, res) => {
    const forward = { port: inner(), path: cut(req.url), method: req.method, headers: req.headers };
    const behind = requestPlain(forward, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    behind.once('error', () => res.destroy());
    req.pipe(behind);
  });
  server.on('upgrade', (req, socket, head) => {
    const behind = connect(inner(), '127.0.0.1');
    const lines = req.rawHeaders.flatMap((name, index) =>
      index % 2 === 0 ? [`${name}: ${req.rawHeaders[index + 1] ?? ''}`] : [],
    );
    behind.write(`GET ${cut(req.url)} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    behind.write(head);
    behind.pipe(socket).pipe(behind);
    behind.on('error', () => socket.destroy());
    socket.on('error', () => behind.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

describe('behind a proxy that ends TLS, on another port and below a path (R72)', () => {
  it('the told addresses are those of the proxy, and lead through it', async () => {
    let inner = 0;
    const proxy = await startProxy('/agents/one', () => inner);
    const client = startBrowserBridge(testbed, {
      args: [
        ...[...cdpArgs, '--cdp-advertised-host', `localhost:${proxy.port}/agents/one`],
        ...['--cdp-advertised-scheme', 'https'],
      ],
    });
    await client.initialize();
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    const info = await cdpOf(client);
    inner = info.port;
    expect(info.discoveryUrl).toMatch(new RegExp(`^https://localhost:${proxy.port}/agents/one/cdp/[\\w-]{43}$`));
    expect(info.webSocketDebuggerUrl).toMatch(
      new RegExp(`^wss://localhost:${proxy.port}/agents/one/cdp/[\\w-]{43}/devtools/browser/`),
    );
    const list = JSON.parse(await fetchInsecurely(`${info.discoveryUrl}/json/list`)) as Listed[];
    const home = list.find(({ url }) => url === `${pages.url}/home`)?.webSocketDebuggerUrl ?? '';
    expect(home.startsWith(`wss://localhost:${proxy.port}/agents/one/cdp/`)).toBe(true);
    const raw = await connectRaw(home);
    const expression = 'document.title';
    expect(await raw.ask('Runtime.evaluate', { expression })).toMatchObject({ result: { result: { value: 'Home' } } });
    raw.webSocket.close();
    await expectVisits(info);
    proxy.close();
  });
});

describe.each([
  ['on the port of the server, with its certificate', [], 'wss:'],
  // A port of the session speaks no TLS: --cdp-advertised-scheme tells that something in front does.
  ['on a port of its own, without', ['--cdp-port-range', '24000-24100'], 'ws:'],
])('over HTTP with TLS: %s', (_, args, protocol) => {
  it('every client comes in, and is told of the end of the session', async () => {
    const cert = ['--https-cert', join(tlsFolder, 'first-cert.pem'), '--https-key', join(tlsFolder, 'first-key.pem')];
    const server = await startBrowserServer(testbed, {
      args: [...cdpArgs, '--http-protocol', 'https', ...cert, ...args],
    });
    const client = await server.open({ agent: new Agent({ rejectUnauthorized: false }) });
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    const info = await cdpOf(client);
    expect(new URL(info.webSocketDebuggerUrl).protocol).toBe(protocol);
    expect(new URL(info.webSocketDebuggerUrl).port === new URL(server.url).port).toBe(args.length === 0);
    await expectVisits(info);
    const raw = await connectRaw(info.webSocketDebuggerUrl);
    await client.end();
    expect(await raw.closed).toEqual({ code: 1001, reason: 'the session ended' });
    await stopBrowserServer(testbed, server);
  });
});

interface Listed {
  readonly url: string;
  readonly webSocketDebuggerUrl: string;
}

/** Each library finds its way by what it is told, and sees the page of MCP. */
async function expectVisits(info: CdpInfo): Promise<void> {
  for (const [name, visit] of Object.entries(visitors)) {
    const visitor = await visit(info);
    expect([name, await visitor.urls()]).toEqual([name, expect.arrayContaining([`${pages.url}/home`])]);
    await visitor.disconnect();
  }
}

function fetchInsecurely(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const req = request(url, { rejectUnauthorized: false }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      res.once('end', () => {
        resolve(text);
      });
    });
    req.once('error', reject).end();
  });
}
