import type { Door } from './door.ts';

/** How often within the limit the use of a browser is looked at. */
const looksPerLimit = 4;
/** A limit of days is still looked at often enough to be kept. */
const longestPauseMs = 60_000;

/** What is needed to tell that nobody uses a browser. */
export interface IdleParts {
  /** Milliseconds without use after which the browser is closed; 0 never closes it. */
  readonly idleTtlMs: number;
  /** Calls that were sent over MCP so far, and whether one is running. */
  readonly calls: () => { readonly count: number; readonly isRunning: boolean };
  readonly door: Pick<Door, 'messages'>;
  readonly onIdle: () => void;
}

/** Tells when a browser was used neither over MCP nor over CDP for too long. Upstream's own timer knows MCP only. */
export function watchIdle(parts: IdleParts): { close(): void } {
  const { idleTtlMs, calls, door, onIdle } = parts;
  if (idleTtlMs === 0) return { close: () => undefined };
  let usedAt = performance.now();
  let seen = { calls: calls().count, messages: door.messages };
  const timer = setInterval(
    () => {
      const { count, isRunning } = calls();
      const { messages } = door;
      const now = performance.now();
      if (isRunning || count !== seen.calls || messages !== seen.messages) usedAt = now;
      seen = { calls: count, messages };
      if (now - usedAt >= idleTtlMs) onIdle();
    },
    Math.min(Math.ceil(idleTtlMs / looksPerLimit), longestPauseMs),
  );
  timer.unref();
  return {
    close: () => {
      clearInterval(timer);
    },
  };
}
