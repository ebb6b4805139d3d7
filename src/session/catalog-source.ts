import type { Catalog } from '../core/catalog.ts';
import { messageOf, toBridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { type StartedChild, learnCatalog } from './generation.ts';

/** Newest protocol revision that upstream speaks; a listing child is asked in it. */
const listingVersion = '2025-11-25';

/** What the catalog is found with. */
export interface CatalogParts {
  readonly logger: Logger;
  readonly store: { read(): Catalog | undefined; write(catalog: Catalog): void };
  readonly version: string;
  readonly timeoutMs: number;
  /** True when the user set something of upstream's, which may be what it refuses. */
  readonly hasSettings: boolean;
  /** Gets the end of each listing child, which nobody waits for before the session's end. */
  readonly onClosing: (closing: Promise<void>) => void;
  /** Starts a child that only lists its tools; `isPlain`: without any setting of the user. */
  readonly startListing: (isPlain: boolean) => StartedChild;
}

function learn(parts: CatalogParts, isPlain: boolean, timeoutMs: number, signal: AbortSignal): Promise<Catalog> {
  const { logger, version } = parts;
  return learnCatalog(
    {
      number: 0,
      logger,
      initialize: {
        protocolVersion: listingVersion,
        capabilities: {},
        clientInfo: { name: 'cloakbrowser-mcp', version },
      },
      logLevel: undefined,
      timeoutMs,
      closeGraceMs: 0,
      link: { ownPrefix: 'catalog/', rootsTimeoutMs: timeoutMs, nextOuterId: () => 0 },
      startChild: () => Promise.resolve(parts.startListing(isPlain)),
    },
    signal,
    parts.onClosing,
  );
}

/** The catalog: the stored one, else learned from a child and stored; undefined when it cannot be had. */
export async function findCatalog(parts: CatalogParts, signal: AbortSignal): Promise<Catalog | undefined> {
  const stored = parts.store.read();
  if (stored !== undefined) return stored;
  // One limit for both tries: the client waits for `initialize`.
  const endsAt = performance.now() + parts.timeoutMs;
  try {
    const learned = await learn(parts, false, parts.timeoutMs, signal);
    parts.store.write(learned);
    return learned;
  } catch (failure) {
    const error = toBridgeError(failure);
    parts.logger.warn('catalog not learned', { code: error.code, reason: error.message });
    // A setting that upstream refuses must not hide its tools; a child that does not answer will not answer the second time.
    if (signal.aborted || error.code !== 'child_start_failed' || !parts.hasSettings) return undefined;
  }
  const leftMs = Math.max(0, endsAt - performance.now());
  return learn(parts, true, leftMs, signal).catch((failure: unknown) => {
    parts.logger.warn('catalog not learned without settings', { reason: messageOf(failure) });
    return undefined;
  });
}
