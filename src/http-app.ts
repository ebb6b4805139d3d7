import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { BinarySource } from './browser/binary.ts';
import type { Resolved } from './config/resolve.ts';
import { aborted, pause } from './core/deadline.ts';
import { BridgeError, describeError, errorTable, messageOf, toBridgeError } from './core/errors.ts';
import { isWritableFolder } from './core/folder.ts';
import type { Host } from './core/host.ts';
import type { Logger } from './core/logger.ts';
import { Foundation } from './foundation.ts';
import { Tokens } from './http/tokens.ts';
import { makeOutputFolder } from './http-lodgings.ts';
import { type HttpServer, makeHttpServer } from './http-server.ts';
import type { MakeSurfaces } from './load-surfaces.ts';
import { Reporter } from './reporter.ts';

/** How often a drain looks whether it is done. */
const drainCheckMs = 50;
/** How often a missing browser is looked for: without one the server is not ready, gets no new sessions, and no call would look. */
const browserCheckMs = 30_000;

/** What an HTTP program is made with. */
export interface HttpAppParts {
  readonly resolved: Resolved;
  readonly host: Host;
  readonly nodeVersion: string;
  /** Memory and processor time of the program, as metrics show them. */
  readonly self: () => { readonly memoryBytes: number; readonly cpuSeconds: number; readonly startedAt: number };
  /** Makes managed CDP, where it is asked for: `loadSurfaces`. */
  readonly makeSurfaces: MakeSurfaces | undefined;
}

/** The bridge over Streamable HTTP: many clients, each with a session of its own. */
export class HttpApp {
  readonly logger: Logger;
  readonly #parts: HttpAppParts;
  readonly #reporter: Reporter;
  readonly #tokens: Tokens;
  readonly #foundation: Foundation;
  readonly #server: HttpServer;
  #url = '';

  /** Takes over the descriptor of standard error. Throws `config` for tokens that cannot be read. */
  constructor(parts: HttpAppParts) {
    const { resolved, host, nodeVersion } = parts;
    const { settings } = resolved;
    this.#parts = parts;
    this.#reporter = new Reporter(settings.logLevel);
    this.logger = this.#reporter.logger;
    const { redactor } = this.#reporter;
    this.#tokens = new Tokens({
      tokens: settings.httpAuthToken,
      file: settings.httpAuthTokenFile,
      readFile: (path) => readFileSync(path, 'utf8'),
      redactor,
    });
    this.#tokens.load();
    this.#foundation = new Foundation({
      resolved,
      host,
      logger: this.logger,
      redactor,
      nodeVersion,
      onChild: () => undefined,
      tell: (text) => {
        this.#reporter.tell(text);
      },
      locateUpstream: () => createRequire(import.meta.url).resolve('@playwright/mcp/package.json'),
      binaryWorkerUrl: new URL('./binary-worker.js', import.meta.url),
    });
    const foundation = this.#foundation;
    const { self, makeSurfaces } = parts;
    this.#server = makeHttpServer({ foundation, tokens: this.#tokens, self, url: () => this.#url, makeSurfaces });
    for (const line of resolved.warnings) this.#reporter.tell(line);
  }

  /** Prints on standard error what was meant for standard output. */
  print(text: string): void {
    this.#reporter.print(text);
  }

  /** Kills and removes everything at once. */
  force(): void {
    this.#server.lodgings.force();
    this.#foundation.factory.force();
  }

  /** Reads tokens and certificates again; what cannot be used is told, and the old ones stay. */
  reload(): void {
    let isReloaded = true;
    for (const load of [() => this.#tokens.load(), () => this.#server.listener.reloadTls()]) {
      try {
        load();
      } catch (failure) {
        const error = toBridgeError(failure);
        this.#reporter.tell(`not reloaded: ${error.message}`);
        isReloaded = false;
        this.logger.error('settings not reloaded', { code: error.code, reason: error.message });
      }
    }
    if (isReloaded) this.logger.info('tokens and certificate reloaded');
    void this.#server.registry.revoke((owner) => this.#tokens.has(owner));
  }

  /** Serves until the signal is aborted, then drains and ends everything. Returns the exit code. */
  async serve(signal: AbortSignal): Promise<number> {
    let code = 0;
    try {
      await this.#open(signal);
      await aborted(signal);
      await this.#drain(String(signal.reason));
    } catch (failure) {
      // Told here: afterwards standard error is closed.
      const error = toBridgeError(failure);
      this.#reporter.tell(describeError(error));
      code = errorTable[error.code].exit;
    }
    const isClean = await this.#close();
    return isClean ? code : Math.max(code, 1);
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { error, settings } = this.#foundation.setup;
    if (error !== undefined) throw error;
    // Made now rather than for the first session: a server that cannot have folders must not take sessions.
    this.logger.debug('folder made', { path: this.#foundation.factory.folder });
    if (settings.outputDir !== undefined) checkOutputFolder(settings.outputDir, this.#parts.host.platform);
    const { url, port } = await this.#server.listener.open();
    this.#server.surfaces?.listen({ scheme: settings.httpProtocol, port });
    this.#url = `${url}${settings.httpEndpoint}`;
    this.#reporter.print(`Listening on ${this.#url}\n`);
    const hosts = settings.httpAllowedHosts.join(', ');
    this.logger.info('listening', { path: this.#url, host: hosts === '' ? undefined : hosts });
    this.#foundation.sweep();
    void this.#foundation.catalog();
    void this.#keepBrowser(signal);
  }

  /** Looks for the browser before the first session needs it, and again whenever it went missing; fills the spares. */
  async #keepBrowser(signal: AbortSignal): Promise<void> {
    const binary = this.#foundation.binary(this.#parts.resolved.settings.headless);
    while (!signal.aborted) {
      // One that is being looked for already is waited for.
      if (binary === undefined || (await this.#findBrowser(binary, signal))) this.#server.lodgings.spares.refill();
      await pause(browserCheckMs, signal);
    }
  }

  async #findBrowser(binary: BinarySource, signal: AbortSignal): Promise<boolean> {
    if (binary.download.state === 'ready') return true;
    try {
      await binary.resolve(signal);
      return true;
    } catch (failure) {
      if (!signal.aborted) this.logger.warn('browser not ready', { reason: messageOf(failure) });
      return false;
    }
  }

  async #drain(reason: string): Promise<void> {
    const { drainDelayMs, drainTimeoutMs } = this.#parts.resolved.settings;
    this.logger.info('draining', { reason, count: this.#server.registry.size });
    this.#server.registry.drain();
    // What is left of the sessions starts its own children.
    const spares = this.#server.lodgings.spares.close();
    const startedAt = performance.now();
    const isOver = (): boolean => {
      const elapsedMs = performance.now() - startedAt;
      if (this.#server.registry.size === 0 || elapsedMs >= drainTimeoutMs) return true;
      return elapsedMs >= drainDelayMs && ![...this.#server.registry.sessions()].some((session) => session.isBusy());
    };
    while (!isOver()) await pause(drainCheckMs);
    await spares;
  }

  async #close(): Promise<boolean> {
    const { logger } = this;
    const { registry, listener, lodgings } = this.#server;
    let isClean = true;
    // Each one also when the one before failed.
    for (const end of [
      () => registry.closeAll('shutdown'),
      () => listener.close(),
      () => lodgings.close(),
      () => this.#foundation.close(),
      () => this.#foundation.factory.settle(),
    ]) {
      await end().catch((failure: unknown) => {
        isClean = false;
        logger.error('not closed cleanly', { reason: messageOf(failure) });
      });
    }
    await this.#reporter.close();
    return isClean;
  }
}

function checkOutputFolder(path: string, platform: string): void {
  makeOutputFolder(path);
  if (isWritableFolder(path, platform)) return;
  throw new BridgeError('folder_unwritable', `The output folder ${path} cannot be written.`, {
    hint: 'Correct --output-dir, or make it writable.',
  });
}
