import { randomBytes } from 'node:crypto';

import { pause } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import { isRecord } from '../core/record.ts';
import type { Endpoint } from './endpoint.ts';

/** 128 bits: no page can have it by chance or by guessing. */
const markBytes = 16;
/** Between two looks whether a closed page is gone. */
const pollMs = 20;

/** Where the marked page was. */
export interface Marked {
  /** The browser context that MCP works in. */
  readonly browserContextId: string | undefined;
  /** False for a context of its own, which can be disposed of while the browser lives. */
  readonly isDefaultContext: boolean;
}

/** The address of a page by which a browser is proven, to be opened over MCP and used once. */
export function makeMark(): string {
  return `about:blank#${randomBytes(markBytes).toString('base64url')}`;
}

/**
 * Finds the page that was opened over MCP and closes it: then the browser behind the endpoint is the one that the child
 * drives. Exactly one page must have the mark. Throws `cdp_start_failed`, after about `timeoutMs` at the latest.
 */
export async function findMarked(endpoint: Endpoint, mark: string, timeoutMs: number): Promise<Marked> {
  const endsAt = performance.now() + timeoutMs;
  const ask = (method: string, params: Readonly<Record<string, unknown>> = {}): Promise<Record<string, unknown>> =>
    endpoint.request(method, params, { timeoutMs: Math.max(1, Math.ceil(endsAt - performance.now())) });
  const pages = pagesAt(await ask('Target.getTargets'), mark);
  const [page] = pages;
  if (page === undefined || pages.length > 1) throw unproven(pages.length);
  const contextId = textOf(page['browserContextId']);
  const { browserContextIds } = await ask('Target.getBrowserContexts');
  await ask('Target.closeTarget', { targetId: page['targetId'] });
  while (pagesAt(await ask('Target.getTargets'), mark).length > 0) {
    if (performance.now() > endsAt) throw new BridgeError('cdp_start_failed', 'The page of the proof does not close.');
    await pause(pollMs);
  }
  const own = Array.isArray(browserContextIds) ? (browserContextIds as unknown[]) : [];
  return { browserContextId: contextId, isDefaultContext: !own.includes(contextId) };
}

function unproven(count: number): BridgeError {
  const text =
    count === 0
      ? 'The browser behind the debugging port is not the one that upstream drives: the page by which it is proven is not in it.'
      : `The browser behind the debugging port has ${count} pages with the mark by which it is proven.`;
  return new BridgeError('cdp_start_failed', text);
}

function pagesAt({ targetInfos }: Record<string, unknown>, url: string): readonly Record<string, unknown>[] {
  const targets = Array.isArray(targetInfos) ? (targetInfos as unknown[]) : [];
  return targets.filter(isRecord).filter((target) => target['type'] === 'page' && target['url'] === url);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
