import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport, type EventStore } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ListToolsRequestSchema, type JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';

/** A server over the SDK's own Streamable HTTP. */
export interface ReferenceServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Events as the SDK wants them kept, of one session. */
class Events implements EventStore {
  readonly #kept: { id: string; streamId: string; message: JSONRPCMessage }[] = [];

  storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = `${streamId}_${this.#kept.length}`;
    this.#kept.push({ id, streamId, message });
    return Promise.resolve(id);
  }

  getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return Promise.resolve(this.#kept.find(({ id }) => id === eventId)?.streamId);
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const at = this.#kept.findIndex(({ id }) => id === lastEventId);
    const streamId = this.#kept[at]?.streamId ?? '';
    for (const { id, message, ...event } of this.#kept.slice(at + 1)) {
      if (event.streamId === streamId && 'jsonrpc' in message) await send(id, message);
    }
    return streamId;
  }
}

/** One transport a session, as the SDK's documentation has it. */
class Sessions {
  readonly #transports = new Map<string, StreamableHTTPServerTransport>();

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = request.headers['mcp-session-id'];
    const known = typeof id === 'string' ? this.#transports.get(id) : undefined;
    if (known !== undefined) return known.handleRequest(request, response);
    if (id !== undefined) {
      const error = { code: -32001, message: 'Session not found' };
      const body = JSON.stringify({ jsonrpc: '2.0', id: null, error });
      response.writeHead(404, { 'content-type': 'application/json' }).end(body);
      return;
    }
    const { port } = request.socket.address() as AddressInfo;
    await (await this.#open(port)).handleRequest(request, response);
  }

  async close(): Promise<void> {
    for (const transport of this.#transports.values()) await transport.close();
  }

  async #open(port: number): Promise<StreamableHTTPServerTransport> {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new Events(),
      retryInterval: 1000,
      enableDnsRebindingProtection: true,
      allowedHosts: [`127.0.0.1:${port}`, `localhost:${port}`],
      allowedOrigins: [`http://127.0.0.1:${port}`, `http://localhost:${port}`],
      onsessioninitialized: (id) => {
        this.#transports.set(id, transport);
      },
      onsessionclosed: (id) => {
        this.#transports.delete(id);
      },
    });
    const server = new Server({ name: 'reference', version: '1.0.0' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [] }));
    await server.connect(transport);
    return transport;
  }
}

/** Starts a server over the SDK's `StreamableHTTPServerTransport`, with the guards that the SDK has for a local one. */
export async function startReferenceServer(): Promise<ReferenceServer> {
  const sessions = new Sessions();
  const http = createServer((request, response) => {
    sessions.handle(request, response).catch((cause: unknown) => response.destroy(cause as Error));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async close() {
      await sessions.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}
