import type { IncomingMessage, ServerResponse } from 'node:http';

import { BridgeError } from '../core/errors.ts';
import { isRecord } from '../core/record.ts';
import { knownVersions } from '../relay/listing.ts';
import type { Registry } from '../session/registry.ts';
import { readBody } from './body.ts';
import { type ClientBody, firstIdOf, readClientBody } from './client-message.ts';
import type { HttpSession } from './http-session.ts';
import { acceptsEvents, acceptsJson, isJson } from './media-types.ts';
import { refuse } from './reply.ts';
import { knowsPriming } from './sse-frame.ts';

/** Bytes of one session that may wait for its child; as much as stdio lets wait (`stdio/transport.ts`). */
const maxUnreadBytes = 67_108_864;
/** Longer than any id of ours. */
const longestId = 256;

/** Methods of the endpoint, as `Allow` lists them. */
export const endpointMethods: readonly string[] = ['POST', 'GET', 'DELETE'];

/** What the endpoint is served with. */
export interface McpRouteParts {
  readonly registry: Registry<HttpSession>;
  readonly maxBodyBytes: number;
  /** Requests of one session without an answer. */
  readonly maxCalls: number;
  /** Opens a session for a client that said `initialize`; throws when it is not admitted. Adds it to the registry. */
  readonly open: (owner: string, params: Readonly<Record<string, unknown>>) => HttpSession;
  /** The client's `initialize` as the session gets it. */
  readonly prepare: (body: ClientBody) => ClientBody;
  readonly onReceived: (bytes: number) => void;
  readonly onRefused: (error: BridgeError) => void;
}

/** The MCP endpoint: POST with messages, GET to listen, DELETE to end. Host, origin, method and token were checked before. */
export class McpRoute {
  readonly #parts: McpRouteParts;

  constructor(parts: McpRouteParts) {
    this.#parts = parts;
  }

  /** Serves one request of this owner. Throws what it refuses before it has read the request. */
  async handle(req: IncomingMessage, res: ServerResponse, owner: string): Promise<void> {
    if (req.method === 'POST') {
      await this.#post(req, res, owner);
      return;
    }
    const session = this.find(req, owner);
    checkVersion(req);
    if (req.method === 'GET') this.#listen(req, res, session);
    else await this.#delete(res, session);
  }

  /** The session that a request names, if it is this owner's. Throws `session_missing` or `session_unknown`. */
  find(req: IncomingMessage, owner: string): HttpSession {
    const id = idOf(req);
    if (id === undefined) throw missingError();
    const session = this.#find(id, owner);
    this.#parts.registry.touch(session);
    return session;
  }

  #find(id: string, owner: string): HttpSession {
    const session = id.length > longestId ? undefined : this.#parts.registry.find(id, owner);
    if (session !== undefined) return session;
    throw new BridgeError('session_unknown', 'There is no such session: it has ended, or was never on this server.', {
      hint: 'Start a new session with initialize, without the Mcp-Session-Id header.',
    });
  }

  #listen(req: IncomingMessage, res: ServerResponse, session: HttpSession): void {
    if (!acceptsEvents(req.headers.accept)) {
      throw new BridgeError('not_acceptable', 'A GET must accept text/event-stream.');
    }
    const lastEventId = req.headers['last-event-id'];
    if (typeof lastEventId === 'string' && lastEventId !== '')
      session.channel.resume(res, lastEventId, knowsPriming(versionOf(req)));
    else session.channel.openListener(res, knowsPriming(versionOf(req)));
  }

  async #delete(res: ServerResponse, session: HttpSession): Promise<void> {
    await this.#parts.registry.end(session, 'deleted');
    res.writeHead(200, { 'content-length': 0 }).end();
  }

  async #post(req: IncomingMessage, res: ServerResponse, owner: string): Promise<void> {
    const id = idOf(req);
    if (id !== undefined) this.#find(id, owner);
    checkMediaTypes(req);
    const bytes = await readBody(req, this.#parts.maxBodyBytes);
    this.#parts.onReceived(bytes.length);
    const body = readClientBody(bytes);
    try {
      if (id !== undefined) this.#serve(req, res, this.#find(id, owner), body);
      else this.#initialize(res, owner, body);
    } catch (failure) {
      if (!(failure instanceof BridgeError)) throw failure;
      this.#parts.onRefused(failure);
      refuse(res, failure, { idText: firstIdOf(body) });
    }
  }

  #serve(req: IncomingMessage, res: ServerResponse, session: HttpSession, body: ClientBody): void {
    checkVersion(req);
    if (body.messages.some(({ method }) => method === 'initialize')) {
      throw new BridgeError('invalid_request', 'This session is initialized already.', {
        hint: 'Send initialize without the Mcp-Session-Id header to start another one.',
      });
    }
    this.#checkIds(session, body);
    checkBacklog(session, body);
    this.#parts.registry.touch(session);
    if (!session.accept(body, res, versionOf(req))) res.writeHead(202, { 'content-length': 0 }).end();
  }

  #checkIds({ channel }: HttpSession, { messages }: ClientBody): void {
    const ids = messages.flatMap(({ idText }) => idText ?? []);
    const twice = ids.find((idText, index) => channel.has(idText) || ids.indexOf(idText) !== index);
    if (twice !== undefined) {
      throw new BridgeError('invalid_request', `The id ${twice} belongs to a request that is still running.`);
    }
    const { maxCalls } = this.#parts;
    if (channel.inFlight + ids.length <= maxCalls) return;
    throw new BridgeError('calls_full', `${channel.inFlight} requests of this session wait for their answers.`, {
      hint: `--http-session-max-calls allows ${maxCalls}. Wait for answers first.`,
      data: { retryAfterSeconds: 1 },
    });
  }

  #initialize(res: ServerResponse, owner: string, body: ClientBody): void {
    const [message] = body.messages;
    if (body.isBatch || message?.kind !== 'request' || message.method !== 'initialize') throw missingError();
    const { params } = message.fields;
    if (!isRecord(params)) throw new BridgeError('invalid_request', 'initialize has no params.');
    const prepared = this.#prepare(body);
    const session = this.#parts.open(owner, params);
    const version = typeof params['protocolVersion'] === 'string' ? params['protocolVersion'] : undefined;
    session.accept(prepared, res, version);
  }

  #prepare(body: ClientBody): ClientBody {
    try {
      return this.#parts.prepare(body);
    } catch (cause) {
      // JSON is read to any depth, and written to a few thousand levels.
      throw new BridgeError('invalid_request', 'The initialize message is nested too deeply.', { cause });
    }
  }
}

function idOf(req: IncomingMessage): string | undefined {
  const id = req.headers['mcp-session-id'];
  return typeof id === 'string' ? id : undefined;
}

function versionOf(req: IncomingMessage): string | undefined {
  const version = req.headers['mcp-protocol-version'];
  return typeof version === 'string' ? version : undefined;
}

/** Without the header 2025-03-26 is to be assumed (MCP 2025-11-25, transports), which we speak as well. */
function checkVersion(req: IncomingMessage): void {
  const version = versionOf(req);
  if (version === undefined || knownVersions.includes(version)) return;
  throw new BridgeError('protocol_version', `The MCP-Protocol-Version ${JSON.stringify(version)} is not spoken here.`, {
    hint: `Send one of ${knownVersions.join(', ')}, as initialize answered it.`,
  });
}

function checkMediaTypes({ headers }: IncomingMessage): void {
  if (!acceptsEvents(headers.accept) || !acceptsJson(headers.accept)) {
    throw new BridgeError('not_acceptable', 'A POST must accept both application/json and text/event-stream.');
  }
  if (!isJson(headers['content-type'])) {
    throw new BridgeError('media_type', 'The Content-Type of a POST must be application/json.');
  }
}

/** Over stdio a child that does not read holds its client back; here the client has to be told. */
function checkBacklog({ session }: HttpSession, { line }: ClientBody): void {
  const bytes = session.unreadBytes;
  // One message alone may always be sent, however large the operator lets it be.
  if (bytes === 0 || bytes + line.length <= maxUnreadBytes) return;
  throw new BridgeError('calls_full', `${bytes} bytes of this session wait for its browser server to read them.`, {
    hint: `At most ${maxUnreadBytes} may wait. Send less at once, or try again later.`,
    data: { retryAfterSeconds: 1 },
  });
}

function missingError(): BridgeError {
  return new BridgeError('session_missing', 'The request carries no Mcp-Session-Id header and is no initialize.', {
    hint: 'Start a session with initialize; its answer has the id.',
  });
}
