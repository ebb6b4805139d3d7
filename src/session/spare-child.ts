import { randomBytes } from 'node:crypto';

import { timedOut, within } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { Link } from '../relay/link.ts';
import type { Child } from '../upstream/child.ts';
import { describeExit, lastWords } from './generation.ts';

/** Newest protocol revision that upstream speaks. */
const protocolVersion = '2025-11-25';

/** What a spare child is booted with. */
export interface BootParts {
  readonly logger: Logger;
  readonly version: string;
  /** True to have its browser running as well. */
  readonly isWarm: boolean;
  readonly timeoutMs: number;
}

/**
 * Waits until a new child has loaded its program, and if wanted until its browser runs with a page that nobody used.
 * Its owner says `initialize` to it later; upstream 0.0.83 takes a second one. Throws `child_start_failed`,
 * `child_start_timeout` or `closing`; the child is left to the caller.
 */
export async function bootSpare(child: Child, parts: BootParts, signal: AbortSignal): Promise<void> {
  const link = new Link({
    port: child,
    logger: parts.logger,
    ownPrefix: `spare/${randomBytes(9).toString('base64url')}/`,
    rootsTimeoutMs: parts.timeoutMs,
    nextOuterId: () => 0,
  });
  child.listen({
    onLine: (line) => {
      link.accept(line);
    },
    onChunks: (chunks, bytes) => {
      link.acceptChunks(chunks, bytes);
    },
    onOversize: (head, tail, bytes) => {
      link.acceptOversize(head, tail, bytes);
    },
  });
  const ended = child.ended.then((exit) => {
    throw new BridgeError(
      'child_start_failed',
      `A spare upstream process ended (${describeExit(exit)}).${lastWords(child)}`,
    );
  });
  ended.catch(() => undefined);
  const abort = (): void => {
    link.break('The server is ending.');
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    const done = await within(
      Promise.race([parts.isWarm ? openBrowser(link, parts) : ping(link), ended]),
      parts.timeoutMs,
    );
    if (done === timedOut) {
      throw new BridgeError('child_start_timeout', `A spare upstream process took longer than ${parts.timeoutMs} ms.`);
    }
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener('abort', abort);
    child.mute();
  }
}

async function ping(link: Link): Promise<void> {
  await link.request('ping', {});
}

/** Listing the tabs makes upstream start its browser and leaves no trace in it. */
async function openBrowser(link: Link, { version }: BootParts): Promise<void> {
  await link.request('initialize', {
    protocolVersion,
    capabilities: {},
    clientInfo: { name: 'cloakbrowser-mcp', version },
  });
  link.notify('notifications/initialized');
  const answer = await link.request('tools/call', { name: 'browser_tabs', arguments: { action: 'list' } });
  const result = JSON.parse(answer.toString('utf8')) as { readonly isError?: boolean };
  if (result.isError === true) {
    throw new BridgeError(
      'child_start_failed',
      `The browser of a spare did not start: ${answer.toString('utf8', 0, 500)}`,
    );
  }
}
