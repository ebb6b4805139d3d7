import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';

/** One page or worker of a fake browser. */
export interface FakeTarget {
  readonly targetId: string;
  readonly type: string;
  readonly url: string;
  readonly title: string;
  readonly browserContextId: string;
}

/** A request over CDP as it came. */
export interface CdpMessage {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly sessionId?: string;
}

/** A connection of a client to a fake browser. */
export interface FakeConnection {
  readonly path: string;
  readonly webSocket: WebSocket;
  /** What is below it, for what no WebSocket would send. */
  readonly socket: Socket;
  readonly received: CdpMessage[];
}

/** A request for discovery or for a WebSocket as it came. */
export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** What Chromium takes of one message; more ends the connection. */
const maxMessageBytes = 104_857_600;
/** The context that is always there. */
const defaultContext = 'DEFAULT';
const notAllowed = Symbol('method not allowed');
const jsonHeaders = { 'content-type': 'application/json; charset=UTF-8' };

/**
 * A CDP server in place of a browser, within the test: discovery over HTTP and WebSockets as in Chromium 156 (which
 * hosts and origins it takes, which verbs, what is no page), and a handful of methods. It can be told to misbehave.
 */
export class FakeBrowser {
  readonly browserId: string = randomUUID();
  readonly targets = new Map<string, FakeTarget>();
  /** Contexts besides the default one. */
  readonly contexts = new Set<string>();
  readonly requests: SeenRequest[] = [];
  readonly upgrades: SeenRequest[] = [];
  readonly connections = new Set<FakeConnection>();
  /** True for a browser that hangs: it takes connections and messages, and says nothing. */
  isSilent = false;
  /** Answers a message in place of the browser; false leaves it to the browser. */
  intercept: (connection: FakeConnection, message: CdpMessage) => boolean = () => false;
  readonly #server = createServer((req, res) => {
    this.#serve(req, res);
  });
  readonly #webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: maxMessageBytes });
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined); // a client that was cut
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('upgrade', (req, socket, head) => {
      this.#upgrade(req, socket, head);
    });
  }

  /** Starts one with an empty page in its default context; the system chooses the port unless it is told. */
  static async start(port = 0): Promise<FakeBrowser> {
    const browser = new FakeBrowser();
    await new Promise<void>((resolve, reject) => {
      browser.#server.once('error', reject);
      browser.#server.listen(port, '127.0.0.1', resolve);
    });
    browser.openPage('about:blank');
    return browser;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many TCP connections are open, WebSockets and others. */
  get openSockets(): number {
    return this.#sockets.size;
  }

  /** Everything that was asked over CDP, from all connections. */
  get messages(): CdpMessage[] {
    return [...this.connections].flatMap(({ received }) => received);
  }

  /** Opens a page; a context that is not known is made. Returns the id of its target. */
  openPage(url: string, browserContextId = defaultContext, type = 'page'): string {
    if (browserContextId !== defaultContext) this.contexts.add(browserContextId);
    const targetId = randomUUID().replaceAll('-', '').toUpperCase();
    this.targets.set(targetId, { targetId, type, url, title: url, browserContextId });
    return targetId;
  }

  /** Writes the port file of this browser into a profile. */
  writePortFile(userDataDir: string): void {
    mkdirSync(userDataDir, { recursive: true });
    const text = `${this.port}\n/devtools/browser/${this.browserId}`;
    writeFileSync(join(userDataDir, 'DevToolsActivePort'), text);
  }

  /** Sends a message to all clients. */
  tell(message: unknown): void {
    for (const { webSocket } of this.connections) webSocket.send(JSON.stringify(message));
  }

  /** Ends as a browser that is killed: all connections break. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => {
        resolve();
      });
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  #serve(req: IncomingMessage, res: ServerResponse): void {
    const { method = '', url = '', headers } = req;
    this.requests.push({ method, url, headers });
    if (this.isSilent) return;
    const host = headers.host ?? '';
    if (!isNumericOrLocal(host)) {
      res.writeHead(500).end('Host header is specified and is not an IP address or localhost.');
      return;
    }
    const answer = this.#discover(method, url, host);
    if (answer === undefined) res.writeHead(404).end('Unknown command');
    else if (answer === notAllowed) res.writeHead(405).end('Using unsafe HTTP verb');
    else if (typeof answer === 'string') res.writeHead(200, { 'content-type': 'text/html' }).end(answer);
    else res.writeHead(200, jsonHeaders).end(JSON.stringify(answer, undefined, 3));
  }

  #discover(method: string, url: string, host: string): unknown {
    const [, word, id = '', query = 'about:blank'] = /^\/json(?:\/(\w+))?\/?([^?]*)(?:\?(.+))?$/.exec(url) ?? [];
    if (word === 'activate' || word === 'close') return this.#touch(word, id);
    if (word === 'new') return method === 'PUT' ? this.#describe(this.openPage(query), host) : notAllowed;
    if (word === 'protocol') return { version: { major: '1', minor: '3' }, domains: [] };
    if (word === 'version') return this.#version(host);
    // Chromium knows `/json`, and not `/json/`.
    return word === 'list' || /^\/json(?:\?|$)/.test(url)
      ? [...this.targets.keys()].map((targetId) => this.#describe(targetId, host))
      : undefined;
  }

  #version(host: string): Readonly<Record<string, string>> {
    const webSocketDebuggerUrl = `ws://${host}/devtools/browser/${this.browserId}`;
    return { Browser: 'Fake/1.0', 'Protocol-Version': '1.3', 'User-Agent': 'Fake', webSocketDebuggerUrl };
  }

  #touch(word: 'activate' | 'close', id: string): string | undefined {
    if (!this.targets.has(id)) return undefined;
    if (word === 'activate') return 'Target activated';
    this.targets.delete(id);
    return 'Target is closing';
  }

  #describe(targetId: string, host: string): Readonly<Record<string, unknown>> {
    const { type, url, title } = this.targets.get(targetId) ?? { type: '', url: '', title: '' };
    return {
      description: '',
      devtoolsFrontendUrl: `https://chrome-devtools-frontend.appspot.com/serve_rev/@0/inspector.html?ws=${host}/devtools/page/${targetId}`,
      id: targetId,
      title,
      type,
      url,
      webSocketDebuggerUrl: `ws://${host}/devtools/page/${targetId}`,
    };
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { method = '', url = '', headers } = req;
    this.upgrades.push({ method, url, headers });
    if (this.isSilent) return;
    const status = this.#statusOf(url, headers);
    if (status !== 101) {
      socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      return;
    }
    this.#webSockets.handleUpgrade(req, socket, head, (webSocket) => {
      const connection = { path: url, webSocket, socket: req.socket, received: [] };
      this.connections.add(connection);
      webSocket.on('error', () => undefined);
      webSocket.once('close', () => this.connections.delete(connection));
      webSocket.on('message', (data: Buffer, isBinary) => {
        if (isBinary) req.socket.destroy();
        else this.#accept(connection, data.toString('utf8'));
      });
    });
  }

  #statusOf(url: string, headers: IncomingHttpHeaders): number {
    if (!isNumericOrLocal(headers.host ?? '')) return 500;
    if (headers.origin !== undefined && headers.origin !== `http://127.0.0.1:${this.port}`) return 403;
    const [, kind, id = ''] = /^\/devtools\/(browser|page)\/([^/?]*)\/?(?:\?.*)?$/.exec(url) ?? [];
    if (kind === 'browser') return id === this.browserId ? 101 : 404;
    if (kind === 'page') return this.targets.has(id) ? 101 : 500;
    return 404;
  }

  #accept(connection: FakeConnection, text: string): void {
    let message: CdpMessage;
    try {
      message = JSON.parse(text) as CdpMessage;
    } catch {
      connection.webSocket.send(JSON.stringify({ error: { code: -32700, message: 'JSON: parse error' } }));
      return;
    }
    connection.received.push(message);
    if (this.isSilent || this.intercept(connection, message)) return;
    const { id, method = '', params = {}, sessionId } = message;
    const answer = this.#answer(method, params) ?? {
      error: { code: -32601, message: `'${method}' wasn't found` },
    };
    connection.webSocket.send(JSON.stringify({ id, ...answer, ...(sessionId === undefined ? {} : { sessionId }) }));
    if (method === 'Browser.close') void this.close();
  }

  #answer(method: string, params: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> | undefined {
    const named = (name: string): string => (typeof params[name] === 'string' ? params[name] : '');
    const answers: Readonly<Record<string, () => unknown>> = {
      'Browser.getVersion': () => ({ product: 'Fake/1.0', protocolVersion: '1.3', userAgent: 'Fake' }),
      'Browser.close': () => ({}),
      'Target.getTargets': () => ({ targetInfos: [...this.targets.values()] }),
      'Target.getBrowserContexts': () => ({ browserContextIds: [...this.contexts] }),
      'Target.createTarget': () => ({ targetId: this.openPage(named('url')) }),
      'Target.closeTarget': () => ({ success: this.targets.delete(named('targetId')) }),
      'Target.disposeBrowserContext': () => {
        this.contexts.delete(named('browserContextId'));
        return {};
      },
    };
    const answer = answers[method];
    return answer === undefined ? undefined : { result: answer() };
  }
}

/** As Chromium: names are refused, so that no web page can come by a name of its own. */
function isNumericOrLocal(host: string): boolean {
  return host === '' || /^(?:[\d.]+|\[[\da-f:]+\]|(?:[\w-]+\.)*localhost)(?::\d+)?$/i.test(host);
}
