import type { Endpoint } from './endpoint.ts';

/** A timer that is later than this was not held up by work: the bridge itself stood still. */
const oversleptMs = 1000;

/** Why a watched browser counts as lost. */
export type BrowserLoss = 'sentinel_closed' | 'heartbeat_timeout' | 'mcp_context_gone';

/** What a browser is watched with. */
export interface WatchParts {
  readonly endpoint: Endpoint;
  /** The browser context that must stay; undefined for the default one, which cannot go. */
  readonly contextId: string | undefined;
  /** Between two heartbeats, in milliseconds. */
  readonly intervalMs: number;
  /** Time without an answer after which the browser counts as hung, in milliseconds. */
  readonly limitMs: number;
  /** Told once. */
  readonly onLost: (loss: BrowserLoss) => void;
}

/** Watches a browser by the bridge's own connection: its end tells at once, and heartbeats tell of one that hangs. */
export function watchBrowser(parts: WatchParts): { close(): void } {
  const { endpoint, contextId, intervalMs, limitMs, onLost } = parts;
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const close = (): void => {
    isOver = true;
    clearTimeout(timer);
  };
  const lose = (loss: BrowserLoss): void => {
    if (isOver) return;
    close();
    onLost(loss);
  };
  const beat = async (): Promise<void> => {
    const askedAt = performance.now();
    const ask = (method: string): Promise<Record<string, unknown>> =>
      endpoint.request(method, {}, { timeoutMs: limitMs });
    try {
      const [, contexts] = await Promise.all([
        ask('Browser.getVersion'),
        contextId === undefined ? undefined : ask('Target.getBrowserContexts'),
      ]);
      if (contexts === undefined) return;
      const { browserContextIds } = contexts;
      if (!Array.isArray(browserContextIds) || !browserContextIds.includes(contextId)) lose('mcp_context_gone');
    } catch {
      // Closed is told by the connection itself, so that what is left is silence.
      if (!endpoint.isOpen) return;
      // Up much later than it was set for, the timer tells that the bridge itself was stopped or asleep: no answer could
      // be read meanwhile, so that the next heartbeat has to tell.
      if (performance.now() - askedAt < limitMs + oversleptMs) lose('heartbeat_timeout');
    }
  };
  const schedule = (): void => {
    timer = setTimeout(() => {
      void beat().then(() => {
        if (!isOver) schedule();
      });
    }, intervalMs);
  };
  schedule();
  void endpoint.closed.then(() => {
    lose('sentinel_closed');
  });
  return { close };
}
