import { Agent, request, type RequestOptions } from 'node:https';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { balancerCertificate } from './balancers.ts';
import { plainInitialize, type JsonObject, type Message } from './client.ts';
import { withDeadline } from './waiting.ts';

/** An answer, read to its end. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The JSON-RPC message in it, from an event stream or a JSON body. */
  readonly message: Message | undefined;
}

/** An open event stream. */
export interface EventStream {
  /** Comments and events so far. */
  readonly frames: () => number;
  readonly closed: Promise<void>;
  readonly close: () => void;
}

/** Where a client connects, and how it shows itself. */
export interface BalancedClientOptions {
  readonly port: number;
  readonly host: string;
  readonly token: string;
}

/** A request of a client on its way that got no answer, since its connection broke. */
export class BrokenConnection extends Error {}

function messageIn(text: string, contentType: string | undefined): Message | undefined {
  if (contentType?.startsWith('application/json') === true) return JSON.parse(text) as Message;
  const data = /^data: (\{.*)$/m.exec(text)?.[1];
  return data === undefined ? undefined : (JSON.parse(data) as Message);
}

/** The name of the error in a refusal. */
export function reasonOf(reply: Reply): unknown {
  return reply.message?.error?.data?.['reason'];
}

async function readAll(response: IncomingMessage): Promise<string> {
  try {
    return (await response.setEncoding('utf8').toArray()).join('');
  } catch (cause) {
    throw new BrokenConnection('The answer broke off', { cause });
  }
}

/** An MCP client over HTTPS whose connections are kept and that shows every status, which those of the SDK do not. */
export class BalancedClient {
  readonly #options: BalancedClientOptions;
  readonly #agent = new Agent({ keepAlive: true, ca: balancerCertificate });
  #nextId = 1;
  sessionId: string | undefined;

  constructor(options: BalancedClientOptions) {
    this.#options = options;
  }

  /** Sends one request and reads its answer; `BrokenConnection` if there is none. */
  async send(method: string, body?: JsonObject, options: { path?: string; sessionId?: string } = {}): Promise<Reply> {
    const response = await this.#open(method, body, options);
    const text = await withDeadline('the end of an answer', readAll(response), 30_000);
    const { statusCode: status = 0, headers } = response;
    return { status, headers, text, message: messageIn(text, headers['content-type']) };
  }

  /** Opens a session; the client has it afterwards if the status is 200. */
  async initialize(): Promise<Reply> {
    this.sessionId = undefined;
    const reply = await this.#post('initialize', plainInitialize);
    const given = reply.headers['mcp-session-id'];
    if (reply.status === 200 && typeof given === 'string') {
      this.sessionId = given;
      await this.send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' });
    }
    return reply;
  }

  call(name: string, args: JsonObject = {}): Promise<Reply> {
    return this.#post('tools/call', { name, arguments: args });
  }

  /** Opens the event stream of the session and waits for its first bytes. */
  async openStream(): Promise<EventStream> {
    const response = await this.#open('GET', undefined, {});
    if (response.statusCode !== 200) throw new Error(`The stream was answered with ${response.statusCode ?? 0}`);
    let frames = 0;
    const closed = new Promise<void>((resolve) => {
      response.on('error', () => undefined).on('close', resolve);
    });
    const first = new Promise<void>((resolve) => {
      response.on('data', (chunk: Buffer) => {
        frames += chunk.toString().split('\n\n').length - 1;
        resolve();
      });
    });
    await withDeadline('the first bytes of a stream', first);
    return {
      frames: () => frames,
      closed,
      close: () => response.destroy(),
    };
  }

  /** Ends the session. */
  end(): Promise<Reply> {
    return this.send('DELETE');
  }

  /** Closes the connections. */
  close(): void {
    this.#agent.destroy();
  }

  #post(method: string, params: JsonObject): Promise<Reply> {
    return this.send('POST', { jsonrpc: '2.0', id: this.#nextId++, method, params });
  }

  #open(
    method: string,
    body: JsonObject | undefined,
    { path = '/mcp', sessionId = this.sessionId }: { path?: string; sessionId?: string },
  ): Promise<IncomingMessage> {
    const { port, host, token } = this.#options;
    const options: RequestOptions = {
      ...{ host: '127.0.0.1', port, path, method, agent: this.#agent, servername: 'localhost' },
      headers: {
        host,
        authorization: `Bearer ${token}`,
        accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(sessionId === undefined ? {} : { 'mcp-session-id': sessionId }),
      },
    };
    const opened = new Promise<IncomingMessage>((resolve, reject) => {
      const sent = request(options, resolve);
      sent.on('error', (cause) => {
        reject(new BrokenConnection(`No answer to ${method}`, { cause }));
      });
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
    return withDeadline(`the answer to ${method}`, opened, 30_000);
  }
}
