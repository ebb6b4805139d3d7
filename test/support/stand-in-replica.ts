import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Message } from './client.ts';

/** What a stand-in does with `initialize`; its health check says ready all the time. */
export type StandInMood = 'ready' | 'full' | 'breaks off';

/** A server that behaves like a replica in the few ways that a balancer can tell, well or badly. */
export class StandInReplica {
  readonly name: string;
  readonly #server: Server;
  mood: StandInMood = 'ready';
  /** The names of the tools that were called here, in order. */
  readonly calls: string[] = [];

  private constructor(name: string) {
    this.name = name;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(name: string): Promise<StandInReplica> {
    const replica = new StandInReplica(name);
    await new Promise<void>((resolve) => replica.#server.listen(0, '127.0.0.1', resolve));
    return replica;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks = (await request.toArray()) as Buffer[];
    if (request.method !== 'POST') {
      response.end('{}');
      return;
    }
    const text = Buffer.concat(chunks).toString();
    const message = JSON.parse(text) as Message;
    if (message.method === 'initialize') this.#initialize(message, request, response);
    else if (message.id === undefined) response.writeHead(202).end();
    else this.#call(message, { request, response, size: text.length });
  }

  #initialize({ id }: Message, request: IncomingMessage, response: ServerResponse): void {
    if (this.mood === 'breaks off') request.socket.destroy();
    else if (this.mood === 'full') refuse(response, 'sessions_full');
    else {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': `${this.name}.session` });
      response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: {} })}\n\n`);
    }
  }

  #call(
    { id, params }: Message,
    { request, response, size }: { request: IncomingMessage; response: ServerResponse; size: number },
  ): void {
    const tool = String(params?.['name']);
    this.calls.push(tool);
    if (tool === 'break') request.socket.destroy();
    else if (tool === 'refused') refuse(response, 'closing');
    else {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { name: this.name, size } }));
    }
  }
}

function refuse(response: ServerResponse, reason: string): void {
  response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '7' });
  response.end(
    JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32016, message: reason, data: { reason } } }),
  );
}
