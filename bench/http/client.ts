import { Agent, type IncomingMessage, request } from 'node:http';

const protocolVersion = '2025-11-25';
const clientInfo = { name: 'bench', version: '1.0.0' };
const bodyHeaders = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** What came back to a request. */
interface Reply {
  readonly status: number;
  readonly sessionId: string | undefined;
  readonly text: string;
}

type Headers = Readonly<Record<string, string | number>>;

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** A client of one server that costs little: it keeps connections, and reads of an answer whether it is one. */
export class HttpClient {
  readonly #url: URL;
  readonly #host: string;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: URL) {
    this.#url = url;
    // Upstream's own server is asked by name, whatever address it listens on.
    this.#host = `localhost:${url.port}`;
  }

  /** Sends a request and reads all of what comes back. */
  async send(method: 'POST' | 'DELETE', headers: Headers, body = ''): Promise<Reply> {
    const response = await this.begin(method, headers, body);
    const sessionId = response.headers['mcp-session-id'];
    return {
      status: response.statusCode ?? 0,
      sessionId: typeof sessionId === 'string' ? sessionId : undefined,
      text: await textOf(response),
    };
  }

  /** Sends a request; resolves when the headers of the response are there. */
  begin(method: 'GET' | 'POST' | 'DELETE', headers: Headers, body = ''): Promise<IncomingMessage> {
    return this.#begin(this.#url, method, headers, body);
  }

  #begin(url: URL, method: string, headers: Headers, body: string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const always = { host: this.#host, 'content-length': Buffer.byteLength(body) };
      const options = { method, agent: this.#agent, headers: { ...headers, ...always } };
      request(url, options, resolve).on('error', reject).end(body);
    });
  }

  /** Reads a page beside the endpoint. */
  async read(path: string): Promise<string> {
    const response = await this.#begin(new URL(path, this.#url), 'GET', {}, '');
    return textOf(response);
  }

  /** Closes all connections. */
  close(): void {
    this.#agent.destroy();
  }
}

/** One MCP session over HTTP. */
export class HttpSession {
  readonly #client: HttpClient;
  readonly #headers: Headers;
  #lastId = 1;

  private constructor(client: HttpClient, sessionId: string) {
    this.#client = client;
    this.#headers = { ...bodyHeaders, 'mcp-session-id': sessionId, 'mcp-protocol-version': protocolVersion };
  }

  /** Opens a session as a client does: initialize, the notification, the list of tools. */
  static async open(client: HttpClient): Promise<HttpSession> {
    const params = { protocolVersion, capabilities: {}, clientInfo };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    const { status, sessionId, text } = await client.send('POST', bodyHeaders, body);
    if (status !== 200 || sessionId === undefined || !text.includes('"serverInfo"')) {
      throw new Error(`no session: ${status} ${text.slice(0, 500)}`);
    }
    const session = new HttpSession(client, sessionId);
    const told = await client.send('POST', session.#headers, '{"jsonrpc":"2.0","method":"notifications/initialized"}');
    if (told.status !== 202) throw new Error(`the notification was answered with ${told.status}`);
    const list = await session.request('tools/list', '{}');
    if (!list.includes('"tools":[')) throw new Error(`no tool list: ${list.slice(0, 500)}`);
    return session;
  }

  /** Sends a request and returns the text of its answer; throws when that is an error or no answer. */
  async request(method: string, params: string): Promise<string> {
    this.#lastId += 1;
    const body = `{"jsonrpc":"2.0","id":${this.#lastId},"method":"${method}","params":${params}}`;
    const { status, text } = await this.#client.send('POST', this.#headers, body);
    const isAnswer = status === 200 && text.includes(`"id":${this.#lastId}`) && text.includes('"result":');
    if (!isAnswer || text.includes('"isError":true')) throw new Error(`${method}: ${status} ${text.slice(0, 500)}`);
    return text;
  }

  /** Calls a tool. */
  call(name: string, given: Readonly<Record<string, unknown>> = {}): Promise<string> {
    return this.request('tools/call', JSON.stringify({ name, arguments: given }));
  }

  /** Opens the stream for what the server says by itself, and lets it be until the connection is closed. */
  async listen(): Promise<void> {
    const response = await this.#client.begin('GET', { ...this.#headers, accept: 'text/event-stream' });
    if (response.statusCode !== 200) throw new Error(`the stream was answered with ${response.statusCode}`);
    response.on('error', () => undefined); // The end of the server is told by whoever started it.
    response.resume();
  }

  /** Ends the session. */
  async end(): Promise<void> {
    const { status, text } = await this.#client.send('DELETE', this.#headers);
    if (status >= 300) throw new Error(`the end was answered with ${status} ${text.slice(0, 500)}`);
  }
}
