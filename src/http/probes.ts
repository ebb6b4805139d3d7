import type { IncomingMessage, ServerResponse } from 'node:http';

import type { ErrorCode } from '../core/errors.ts';
import type { ServerStatus } from '../core/server-status.ts';
import { replyJson } from './reply.ts';

const routes = { '/healthz': 'healthz', '/readyz': 'readyz', '/metrics': 'metrics', '/status': 'status' } as const;

/** Nobody without a token may hold connections for as long as a balancer does. */
const brief = { connection: 'close' };

/** A route that tells how the server is; also the name that it is counted by. */
export type ProbeRoute = (typeof routes)[keyof typeof routes];

/** The methods of every probe, as `Allow` lists them. */
export const probeMethods: readonly string[] = ['GET', 'HEAD'];

/** Sessions in numbers, as `/readyz` tells them. */
export interface SessionCounts {
  readonly active: number;
  /** Those of the active ones whose child is starting or waits to be started. */
  readonly pending: number;
  readonly max: number;
}

/** Where the probes get their answers; everything is asked for at the moment of a request. */
export interface ProbeFacts {
  readonly version: string;
  readonly uptimeMs: () => number;
  readonly sessions: () => SessionCounts;
  /** Why no new session would be taken now, if so. */
  readonly unready: () => ErrorCode | undefined;
  readonly metrics: { readonly contentType: string; readonly text: () => Promise<string> };
  readonly status: () => Promise<ServerStatus>;
}

/** The probe that a path names, without its query. */
export function probeOf(path: string): ProbeRoute | undefined {
  return Object.entries(routes).find(([known]) => known === path)?.[1];
}

/** Whether a probe tells so much that it needs the token; balancers and kubelets have none. */
export function needsToken(route: ProbeRoute): boolean {
  return route === 'metrics' || route === 'status';
}

function describeHealth({ version, uptimeMs }: ProbeFacts): Record<string, unknown> {
  return { version, transport: 'streamable-http', uptimeMs: Math.round(uptimeMs()) };
}

function replyReadiness(req: IncomingMessage, res: ServerResponse, facts: ProbeFacts): void {
  const reason = facts.unready();
  const counts = facts.sessions();
  const sessions = { ...counts, available: Math.max(0, counts.max - counts.active) };
  // HAProxy's `http-check disable-on-404` keeps sending existing sessions here then; after a 503 it would cut them off.
  const unreadyStatus = new URLSearchParams(req.url?.split('?', 2)[1]).get('unready') === '404' ? 404 : 503;
  const body = { ...describeHealth(facts), sessions };
  if (reason === undefined) replyJson(res, 200, { status: 'ready', ...body }, brief);
  else replyJson(res, unreadyStatus, { status: 'unready', reason, ...body }, brief);
}

async function replyMetrics(res: ServerResponse, { metrics }: ProbeFacts): Promise<void> {
  const text = Buffer.from(await metrics.text());
  res.writeHead(200, {
    'content-type': metrics.contentType,
    'content-length': text.length,
    'cache-control': 'no-store',
  });
  res.end(text);
}

/** Answers a GET or HEAD of a probe; host, origin, method and token were checked before. */
export async function handleProbe(
  route: ProbeRoute,
  req: IncomingMessage,
  res: ServerResponse,
  facts: ProbeFacts,
): Promise<void> {
  switch (route) {
    case 'healthz':
      replyJson(res, 200, { status: 'ok', ...describeHealth(facts) }, brief);
      return;
    case 'readyz':
      replyReadiness(req, res, facts);
      return;
    case 'metrics':
      await replyMetrics(res, facts);
      return;
    case 'status':
      replyJson(res, 200, await facts.status());
      return;
  }
}
