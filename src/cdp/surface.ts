import { pause } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { isRecord } from '../core/record.ts';
import { Scope } from '../core/scope.ts';
import { discoveryUrl, webSocketUrl } from './address.ts';
import type { Door } from './door.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { type IdleParts, watchIdle } from './idle.ts';
import { findAddress, type ProfilePlace } from './port-file.ts';
import { findMarked, type Marked, makeMark } from './proof.ts';
import { type BrowserLoss as WatchedLoss, watchBrowser } from './sentinel.ts';
import type { OpenVenue, Venue } from './venue.ts';

/** Time for the port file to be there once the browser has answered a call over MCP, and for a socket to it. */
const addressMs = 5000;
/** Time for one answer of a browser that has just started on a busy machine. */
const answerMs = 10_000;
/** Between two looks for something that comes within milliseconds. */
const pollMs = 25;

/** Why a watched browser counts as lost while its child lives. */
export type BrowserLoss = WatchedLoss | 'idle_timeout';

/** Where a child's browser tells its debugging port, and what it still has to be given. */
export interface DebuggedBrowser extends ProfilePlace {
  /** Cookies and local storage to begin with, where upstream itself does not take them. */
  readonly storageState?: unknown;
}

/** A generation as a surface sees it. */
export interface SurfaceGeneration {
  readonly number: number;
  readonly browser: DebuggedBrowser;
  /** Calls a tool of the child and returns its result as JSON. */
  readonly callTool: (name: string, parameters: Readonly<Record<string, unknown>>) => Promise<Buffer>;
  /** Told once, when the browser is lost after `open`. */
  readonly onLost: (loss: BrowserLoss) => void;
}

/** `idle -> starting -> ready -> lost -> restarting -> ready ...`; `failed` after a failed start, `closed` at the end. */
export type SurfaceState = 'idle' | 'starting' | 'ready' | 'lost' | 'restarting' | 'failed' | 'closed';

/** What a surface is made with. */
export interface SurfaceParts {
  readonly venue: Venue;
  readonly door: Door;
  readonly logger: Logger;
  readonly heartbeatMs: number;
  readonly lossTimeoutMs: number;
  /** When an unused browser is closed, and how it is told that it is used over MCP. */
  readonly idle: Omit<IdleParts, 'door' | 'onIdle'>;
  /** Tells the MCP client; never the address itself. */
  readonly tell: (level: 'notice' | 'warning', data: Readonly<Record<string, unknown>>) => void;
}

interface Shown {
  readonly generation: number;
  readonly opened: OpenVenue;
  readonly product: string;
  readonly protocolVersion: string;
  readonly browserId: string;
  readonly marked: Marked;
  readonly endpoint: Endpoint;
  readonly scope: Scope;
}

/** Managed CDP of one session: at most one browser is published, under an address of its own. */
export class Surface {
  readonly #parts: SurfaceParts;
  #state: SurfaceState = 'idle';
  #generation = 0;
  #shown: Shown | undefined;
  #lastLoss: { readonly reason: string; readonly at: string; readonly generation: number } | undefined;
  #lastError: { readonly code: string; readonly message: string } | undefined;

  constructor(parts: SurfaceParts) {
    this.#parts = parts;
  }

  /**
   * Starts the browser by a call over MCP, proves by a mark in a page that the endpoint belongs to it, and publishes it.
   * Throws `cdp_start_failed`, `cdp_ports_busy` or `closing`; then nothing is published and nothing watched.
   */
  async open(generation: SurfaceGeneration, signal: AbortSignal): Promise<void> {
    this.#check(signal);
    this.#state = this.#generation === 0 ? 'starting' : 'restarting';
    this.#generation = generation.number;
    const { logger, door } = this.#parts;
    const startedAt = performance.now();
    const scope = new Scope();
    try {
      this.#shown = await this.#publish(generation, scope, signal);
      this.#state = 'ready';
      this.#lastError = undefined;
      this.#watch(generation, this.#shown);
      const durationMs = Math.round(performance.now() - startedAt);
      logger.info('CDP published', { generation: generation.number, port: this.#shown.opened.port, durationMs });
      this.#parts.tell('notice', { event: 'cdp.ready', generation: generation.number });
    } catch (cause) {
      door.withdraw(4001, 'the browser was not published');
      await scope.close();
      const error = asStartError(cause);
      if (!this.#isClosed) this.#state = 'failed';
      this.#lastError = { code: error.code, message: error.message };
      throw error;
    }
  }

  /** Takes the browser of this generation off at once: its address is dead, its sockets are closed with the reason. */
  withdraw({ generation, code }: { readonly generation: number; readonly code: string }): void {
    const shown = this.#shown;
    if (shown?.generation !== generation || this.#isClosed) return;
    this.#shown = undefined;
    this.#state = 'lost';
    this.#lastLoss = { reason: code, at: new Date().toISOString(), generation };
    this.#parts.door.withdraw(4001, `browser generation ${generation} ended: ${code}`);
    this.#release(shown);
    this.#parts.logger.warn('CDP withdrawn', { generation, reason: code });
    this.#parts.tell('warning', { event: 'cdp.lost', generation, reason: code });
  }

  /** Closes all sockets and lets nobody in any more. */
  stop(): void {
    if (this.#isClosed) return;
    const shown = this.#shown;
    this.#state = 'closed';
    this.#shown = undefined;
    this.#parts.door.close();
    if (shown !== undefined) this.#release(shown);
  }

  /** Gives back the port. */
  async close(): Promise<void> {
    this.stop();
    await this.#parts.venue.close();
  }

  /** What `cloakbrowser_bridge_info` tells; holds the capability. */
  describe(): Readonly<Record<string, unknown>> {
    const { door } = this.#parts;
    const { policy, limits } = door.settings;
    const idleMs = this.#parts.idle.idleTtlMs;
    return {
      enabled: true,
      state: this.#state,
      generation: this.#generation,
      ...this.#describeShown(),
      policy: policy.name,
      activeConnections: door.connections,
      limits: {
        maxConnections: limits.maxConnections,
        maxRequestBytes: limits.maxRequestBytes,
        maxAnswerBytes: limits.maxAnswerBytes,
        idleMs,
      },
      lastLoss: this.#lastLoss ?? null,
      lastError: this.#lastError ?? null,
    };
  }

  get #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #describeShown(): Readonly<Record<string, unknown>> {
    const capability = this.#parts.door.capability;
    const shown = this.#shown;
    if (shown === undefined || capability === undefined) {
      const nothing = { port: null, discoveryUrl: null, webSocketDebuggerUrl: null };
      return { ...nothing, browser: null, browserContextId: null };
    }
    const { opened, product, protocolVersion, browserId, marked } = shown;
    return {
      port: opened.port,
      discoveryUrl: discoveryUrl(opened.address, capability),
      webSocketDebuggerUrl: webSocketUrl(opened.address, capability, `/devtools/browser/${browserId}`),
      browser: { product, protocolVersion, id: browserId },
      browserContextId: marked.browserContextId ?? null,
    };
  }

  #release(shown: Shown): void {
    shown.scope.close().catch((failure: unknown) => {
      this.#parts.logger.error('sentinel not closed', { reason: messageOf(failure) });
    });
  }

  #check(signal: AbortSignal): void {
    if (this.#isClosed || signal.aborted) throw new BridgeError('closing', 'The session is ending.');
  }

  async #publish(generation: SurfaceGeneration, scope: Scope, signal: AbortSignal): Promise<Shown> {
    const { venue, door } = this.#parts;
    // Before the browser: a port that is not to be had should cost no browser.
    const opened = await venue.open(door, signal);
    const mark = makeMark();
    const started = await call(generation, 'browser_tabs', { action: 'new', url: mark });
    if (started.isError)
      throw new BridgeError('cdp_start_failed', `Upstream could not start the browser: ${started.text}`);
    this.#check(signal);
    const { endpoint, port, browserId } = await this.#connect(generation.browser, signal);
    scope.defer(() => endpoint.close());
    const marked = await findMarked(endpoint, mark, answerMs);
    await untilForgotten(generation, mark, signal);
    const { product, protocolVersion } = await endpoint.request('Browser.getVersion', {}, { timeoutMs: answerMs });
    door.settings.policy.protectContext(marked.isDefaultContext ? undefined : marked.browserContextId);
    if (generation.browser.storageState !== undefined) await applyState(generation);
    this.#check(signal);
    const capability = door.stage({ generation: generation.number, port, browserId });
    await opened.verify(capability, signal);
    this.#check(signal);
    if (!endpoint.isOpen) throw new BridgeError('cdp_start_failed', 'The browser ended before it was published.');
    door.publish();
    const version = { product: String(product), protocolVersion: String(protocolVersion) };
    return { generation: generation.number, opened, ...version, browserId, marked, endpoint, scope };
  }

  /** A port file of an earlier browser may still lie there for a moment: then its port or its id is refused. */
  async #connect(
    place: ProfilePlace,
    signal: AbortSignal,
  ): Promise<{ readonly endpoint: Endpoint; readonly port: number; readonly browserId: string }> {
    const endsAt = performance.now() + addressMs;
    for (;;) {
      const address = await findAddress(place, addressMs, signal);
      try {
        return { endpoint: await openEndpoint(address, addressMs, signal), ...address };
      } catch (failure) {
        this.#check(signal);
        if (performance.now() > endsAt) throw failure;
        await pause(pollMs, signal);
      }
    }
  }

  #watch(generation: SurfaceGeneration, shown: Shown): void {
    let isTold = false;
    const onLost = (loss: BrowserLoss): void => {
      if (isTold || this.#shown !== shown) return;
      isTold = true;
      generation.onLost(loss);
    };
    const { marked, endpoint, scope } = shown;
    const { heartbeatMs: intervalMs, lossTimeoutMs: limitMs, idle, door } = this.#parts;
    const contextId = marked.isDefaultContext ? undefined : marked.browserContextId;
    scope.own(watchBrowser({ endpoint, contextId, intervalMs, limitMs, onLost }));
    scope.own(watchIdle({ ...idle, door, onIdle: () => onLost('idle_timeout') }));
  }
}

/** The text of a tool's result. */
async function call(
  generation: SurfaceGeneration,
  name: string,
  parameters: Readonly<Record<string, unknown>>,
): Promise<{ readonly text: string; readonly isError: boolean }> {
  const result: unknown = JSON.parse((await generation.callTool(name, parameters)).toString('utf8'));
  const content = isRecord(result) && Array.isArray(result['content']) ? (result['content'] as unknown[]) : [];
  const texts = content.map((item) => (isRecord(item) && typeof item['text'] === 'string' ? item['text'] : ''));
  return { text: texts.join('\n'), isError: !isRecord(result) || result['isError'] === true };
}

/** Upstream learns by its own pipe that the page is gone; a call before that would still run in it, or fail with it. */
async function untilForgotten(generation: SurfaceGeneration, mark: string, signal: AbortSignal): Promise<void> {
  const endsAt = performance.now() + answerMs;
  for (;;) {
    const { text, isError } = await call(generation, 'browser_tabs', { action: 'list' });
    if (!isError && !text.includes(mark)) return;
    if (signal.aborted) throw new BridgeError('closing', 'The session is ending.');
    if (performance.now() > endsAt)
      throw new BridgeError('cdp_start_failed', 'Upstream still lists the page by which its browser was proven.');
    await pause(pollMs, signal);
  }
}

async function applyState(generation: SurfaceGeneration): Promise<void> {
  const state = JSON.stringify(generation.browser.storageState);
  const code = `async (page) => { await page.context().setStorageState(${state}); }`;
  const { isError } = await call(generation, 'browser_run_code_unsafe', { code });
  // Without upstream's words: they may quote the cookies.
  if (isError)
    throw new BridgeError('cdp_start_failed', 'Upstream could not take the storage state that was asked for.');
}

function asStartError(cause: unknown): BridgeError {
  if (cause instanceof BridgeError && cause.code !== 'internal' && cause.code !== 'child_lost') return cause;
  return new BridgeError('cdp_start_failed', `The browser could not be opened for managed CDP: ${messageOf(cause)}`, {
    hint: 'Try the call again. --no-cdp does without managed CDP.',
    cause,
  });
}
