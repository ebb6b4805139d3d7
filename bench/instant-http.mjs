// @ts-check
/**
 * An MCP server over Streamable HTTP that answers at once, all in one process and with nothing but node:http: what HTTP
 * itself costs. Its list of tools and its answers are as long as those of instant-upstream.mjs. `--port N` is its option.
 */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { echoResult, listResult } from './instant-answers.mjs';

const port = Number(process.argv[process.argv.indexOf('--port') + 1]);
/** @type {Set<string>} */
const sessions = new Set();

/** @param {{method: string, params: {protocolVersion: string}}} request */
function resultOf({ method, params }) {
  if (method === 'tools/call') return echoResult;
  if (method === 'tools/list') return listResult;
  if (method !== 'initialize') return '{}';
  return JSON.stringify({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'Instant', version: '1.0.0' },
  });
}

/**
 * @param {string} body
 * @param {string} session
 * @param {import('node:http').ServerResponse} response
 */
function answer(body, session, response) {
  const request = JSON.parse(body);
  const isFirst = request.method === 'initialize';
  if (isFirst === sessions.has(session)) {
    response.writeHead(404).end();
  } else if (request.id === undefined) {
    response.writeHead(202).end();
  } else {
    const id = isFirst ? randomUUID() : session;
    sessions.add(id);
    const text = `{"result":${resultOf(request)},"jsonrpc":"2.0","id":${JSON.stringify(request.id)}}`;
    const length = Buffer.byteLength(text);
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': length, 'mcp-session-id': id })
      .end(text);
  }
}

const server = createServer((request, response) => {
  const session = String(request.headers['mcp-session-id'] ?? '');
  if (request.method === 'DELETE') {
    response.writeHead(sessions.delete(session) ? 200 : 404).end();
  } else if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
  } else {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (/** @type {string} */ chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      answer(body, session, response);
    });
  }
});
server.listen(port, '127.0.0.1');
