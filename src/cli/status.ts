import { readFileSync } from 'node:fs';

import type { Settings } from '../config/options.ts';
import { showValue } from '../config/problem.ts';
import type { Resolved } from '../config/resolve.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import { Redactor } from '../core/redact.ts';
import type { ServerStatus } from '../core/server-status.ts';
import { printText } from './print.ts';
import { queryStatus, type StatusAnswer, type StatusQuery, unreachable } from './status-query.ts';
import { statusAsJson, statusAsText } from './status-report.ts';
import { runStoppable } from './stoppable.ts';

type ReadFile = (path: string) => string;

type AddressSettings = Pick<Settings, 'httpProtocol' | 'httpHost' | 'httpPort'>;

/** Listening on every address is no address to ask; the loopback one is part of it. */
const reachableHosts: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** Where the status of a server is asked for: at the given address, else where the settings say that it listens. */
export function statusUrl(given: string | undefined, { httpProtocol, httpHost, httpPort }: AddressSettings): URL {
  if (given !== undefined) {
    const url = URL.canParse(given) ? new URL(given) : undefined;
    if (url === undefined) {
      const hint = 'Write it as in "cloakbrowser-mcp status http://127.0.0.1:3000".';
      throw new BridgeError('usage', `The address ${showValue(given)} is no URL.`, { hint });
    }
    // Without what may stand before and after the host: credentials and the path of the endpoint.
    return new URL('/status', url.origin);
  }
  if (httpPort === 0) {
    const hint = 'Give the address that the server printed, as in "cloakbrowser-mcp status http://127.0.0.1:41234".';
    throw new BridgeError('usage', 'With --http-port 0 the system chooses the port, so it is not known here.', {
      hint,
    });
  }
  const host = reachableHosts[httpHost] ?? httpHost;
  return new URL(`${httpProtocol}://${host.includes(':') ? `[${host}]` : host}:${httpPort}/status`);
}

function readGiven(readFile: ReadFile, path: string, flag: string): string {
  try {
    return readFile(path);
  } catch (cause) {
    throw new BridgeError('config', `The file of ${flag} cannot be read: ${messageOf(cause)}.`, { cause });
  }
}

/** A token that the server knows, if the settings have one: any of them will do. */
export function statusToken(settings: Settings, readFile: ReadFile): string | undefined {
  const { httpAuthToken, httpAuthTokenFile } = settings;
  if (httpAuthToken[0] !== undefined || httpAuthTokenFile === undefined) return httpAuthToken[0];
  const lines = readGiven(readFile, httpAuthTokenFile, '--http-auth-token-file').split('\n');
  const token = lines.map((line) => line.trim()).find((line) => line !== '' && !line.startsWith('#'));
  // It becomes a header, which takes nothing else.
  if (token !== undefined && /^[\u0021-\u007e]+$/.test(token)) return token;
  throw new BridgeError('config', 'The file of --http-auth-token-file holds no token on a line of its own.');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Whatever answers there is not ours.
    return undefined;
  }
}

function isServerStatus(told: unknown): told is ServerStatus {
  const status = told as Partial<ServerStatus> | null;
  return (
    status?.name === 'cloakbrowser-mcp' &&
    Array.isArray(status.sessions) &&
    [status.limits, status.startQueue, status.spares].every((part) => typeof part === 'object')
  );
}

function explainRefusal(query: StatusQuery, { status, text }: StatusAnswer): BridgeError {
  const { url, token } = query;
  if (status === 401) {
    return unreachable(
      url,
      token === undefined ? 'the server asks for a token' : 'the server does not know the token',
      'Give one of its tokens by --http-auth-token-file or by the environment variable CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN, or --http-auth-token.',
    );
  }
  const told = parse(text) as
    { error?: { message?: unknown; data?: { reason?: unknown; hint?: unknown } } } | undefined;
  const { message, data } = told?.error ?? {};
  if (typeof message === 'string' && typeof data?.reason === 'string' && data.reason !== 'http_path') {
    const hint = typeof data.hint === 'string' ? data.hint : 'The log of the server says more.';
    return unreachable(url, `the server refuses with ${status}: ${message}`, hint);
  }
  return unreachable(
    url,
    `what answers there is no cloakbrowser-mcp server (HTTP status ${status})`,
    'Give the address that the server printed at its start, or correct --http-host and --http-port.',
  );
}

/** What a server told, or the error that says why it is no status. */
export function readStatus(query: StatusQuery, answer: StatusAnswer): ServerStatus {
  const told = answer.status === 200 ? parse(answer.text) : undefined;
  if (isServerStatus(told)) return told;
  throw explainRefusal(query, answer);
}

/** Prints how a running server is. Returns the exit code; a server that cannot be asked is an error. */
export async function status(resolved: Resolved, url: string | undefined, json: boolean): Promise<number> {
  const { settings, problems } = resolved;
  const readFile: ReadFile = (path) => readFileSync(path, 'utf8');
  const redactor = new Redactor();
  for (const { message } of problems) process.stderr.write(`cloakbrowser-mcp: ${message}\n`);
  const token = statusToken(settings, readFile);
  redactor.add(...settings.httpAuthToken, token);
  const { httpsCert } = settings;
  const query: StatusQuery = {
    url: statusUrl(url, settings),
    token,
    certificate: httpsCert === undefined ? undefined : readGiven(readFile, httpsCert, '--https-cert'),
  };
  return runStoppable(async (signal) => {
    const answer = await queryStatus(query, signal).catch((failure: unknown) => {
      if (signal.aborted) return undefined;
      throw failure;
    });
    if (answer === undefined) return 1;
    const told = readStatus(query, answer);
    await printText(redactor.clean(json ? statusAsJson(told) : statusAsText(told)));
    return 0;
  });
}
