import { createRequire } from 'node:module';
import type { Readable } from 'node:stream';

import { Bridge } from './bridge.ts';
import type { Resolved } from './config/resolve.ts';
import { messageOf } from './core/errors.ts';
import type { Host } from './core/host.ts';
import { Redactor } from './core/redact.ts';
import { DeferredLogger } from './log/deferred.ts';
import { ErrorOutput, openOutput } from './stdio/output.ts';
import { StdioTransport } from './stdio/transport.ts';

/** What a stdio program is made with. */
export interface AppParts {
  readonly resolved: Resolved;
  readonly host: Host;
  readonly nodeVersion: string;
  readonly input: Readable;
  /** Begins the ordered end. */
  readonly stop: (reason: string) => void;
}

/** The bridge over stdio: one client, from its first byte to its last. */
export class App {
  readonly logger: DeferredLogger;
  readonly #parts: AppParts;
  readonly #errors: ErrorOutput;
  readonly #transport: StdioTransport;
  readonly #bridge: Bridge;

  /** Takes over the descriptors of standard output and standard error. */
  constructor(parts: AppParts) {
    const { resolved, host, nodeVersion } = parts;
    const { settings } = resolved;
    const redactor = new Redactor();
    this.#parts = parts;
    this.#errors = new ErrorOutput(openOutput(2));
    this.#transport = new StdioTransport(parts.input, openOutput(1));
    this.logger = new DeferredLogger({
      level: settings.logLevel,
      redactor,
      write: (line) => {
        this.#errors.print(line);
      },
    });
    const tell = (text: string): void => {
      this.#errors.print(`cloakbrowser-mcp: ${redactor.clean(text)}\n`);
    };
    this.#bridge = new Bridge({
      resolved,
      host,
      logger: this.logger,
      redactor,
      nodeVersion,
      send: (line) => {
        this.#transport.send(line);
      },
      onChild: (child) => {
        const hold = (): void => {
          this.#transport.holdInput(child.stdin);
        };
        parts.input.on('data', hold);
        void child.gone.then(() => parts.input.off('data', hold));
        child.stdout.on('data', () => {
          this.#transport.throttle(child.stdout);
        });
      },
      tell,
      locateUpstream: () => createRequire(import.meta.url).resolve('@playwright/mcp/package.json'),
      binaryWorkerUrl: new URL('./binary-worker.js', import.meta.url),
    });
    for (const line of [...resolved.problems.map((problem) => problem.message), ...resolved.warnings]) tell(line);
  }

  /** Prints on standard error what was meant for standard output. */
  print(text: string): void {
    this.#errors.print(text);
  }

  /** Kills and removes everything at once. */
  force(): void {
    this.#bridge.force();
  }

  /** Serves the client until the signal is aborted, then ends everything. False when something did not end cleanly. */
  async serve(signal: AbortSignal): Promise<boolean> {
    const { session } = this.#bridge;
    this.#transport.listen(
      this.#parts.resolved.settings.maxMessageBytes,
      {
        onLine: (line) => {
          session.accept(line);
        },
        onOversize: (head, tail, bytes) => {
          session.acceptOversize(head, tail, bytes);
        },
      },
      (reason) => {
        this.#parts.stop(reason);
      },
    );
    await aborted(signal);
    this.logger.info('session ending', { reason: String(signal.reason) });
    const isClean = await this.#bridge.close().then(
      () => true,
      (failure: unknown) => {
        this.logger.error('session not closed cleanly', { reason: messageOf(failure) });
        return false;
      },
    );
    await this.#transport.close();
    await this.logger.close();
    await this.#errors.close();
    await this.#bridge.settle();
    return isClean;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      resolve();
    };
    if (signal.aborted) finish();
    else signal.addEventListener('abort', finish, { once: true });
  });
}
