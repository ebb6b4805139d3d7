import { createRequire } from 'node:module';
import type { Readable } from 'node:stream';

import { Bridge } from './bridge.ts';
import { type Profile, resolveProfile } from './browser/profile.ts';
import { Children, type Place } from './children.ts';
import type { Resolved } from './config/resolve.ts';
import { aborted } from './core/deadline.ts';
import { messageOf } from './core/errors.ts';
import type { Host } from './core/host.ts';
import type { Logger } from './core/logger.ts';
import { Foundation } from './foundation.ts';
import { singleStream } from './relay/client-port.ts';
import type { MakeSurfaces } from './load-surfaces.ts';
import { chooseWorkingFolder } from './session/working-folder.ts';
import { Reporter } from './reporter.ts';
import { openOutput } from './stdio/output.ts';
import { StdioTransport } from './stdio/transport.ts';

/** What a stdio program is made with. */
export interface AppParts {
  readonly resolved: Resolved;
  readonly host: Host;
  readonly nodeVersion: string;
  readonly input: Readable;
  /** Begins the ordered end. */
  readonly stop: (reason: string) => void;
  /** Makes managed CDP, where it is asked for: `loadSurfaces`. */
  readonly makeSurfaces: MakeSurfaces | undefined;
}

/** The bridge over stdio: one client, from its first byte to its last. */
export class App {
  readonly logger: Logger;
  readonly #parts: AppParts;
  readonly #reporter: Reporter;
  readonly #transport: StdioTransport;
  readonly #foundation: Foundation;
  readonly #bridge: Bridge;
  #profile: Profile | undefined;

  /** Takes over the descriptors of standard output and standard error. */
  constructor(parts: AppParts) {
    const { resolved, host, nodeVersion } = parts;
    const { settings } = resolved;
    this.#parts = parts;
    this.#reporter = new Reporter(settings.logLevel);
    this.logger = this.#reporter.logger;
    this.#transport = new StdioTransport(parts.input, openOutput(1));
    const tell = (text: string): void => {
      this.#reporter.tell(text);
    };
    this.#foundation = new Foundation({
      resolved,
      host,
      logger: this.logger,
      redactor: this.#reporter.redactor,
      nodeVersion,
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
    this.#bridge = this.#makeBridge();
    for (const line of [...resolved.problems.map((problem) => problem.message), ...resolved.warnings]) tell(line);
  }

  /** Prints on standard error what was meant for standard output. */
  print(text: string): void {
    this.#reporter.print(text);
  }

  /** Kills and removes everything at once. */
  force(): void {
    this.#foundation.factory.force();
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
    const isClean = await this.#close().then(
      () => true,
      (failure: unknown) => {
        this.logger.error('session not closed cleanly', { reason: messageOf(failure) });
        return false;
      },
    );
    await this.#transport.close();
    await this.#reporter.close();
    await this.#foundation.factory.settle();
    return isClean;
  }

  async #close(): Promise<void> {
    try {
      await this.#bridge.close();
    } finally {
      await this.#foundation.close();
    }
  }

  #makeBridge(): Bridge {
    const foundation = this.#foundation;
    const { planner, settings } = foundation.setup;
    const { factory } = foundation;
    const surfaces = this.#parts.makeSurfaces?.(settings, this.logger);
    const children = new Children({
      foundation,
      logger: this.logger,
      planner,
      headless: settings.headless,
      factory,
      place: (folder) => this.#place(folder),
      hasOwnSeed: false,
      debugging:
        surfaces === undefined
          ? undefined
          : {
              hasThrowAwayProfile: false,
              forget: (userDataDir) => {
                surfaces.forget(userDataDir);
              },
            },
    });
    return new Bridge({
      foundation,
      client: singleStream((parts) => {
        this.#transport.send(parts);
      }),
      logger: this.logger,
      isEager: true,
      headless: settings.headless,
      lodge: () => ({ children }),
      surfaces,
    });
  }

  #place(sessionFolder: string): Place {
    const { host } = this.#parts;
    const { settings } = this.#foundation.setup;
    const working = chooseWorkingFolder(host, sessionFolder);
    const place = { env: host.env, platform: host.platform, home: host.homeDir, sessionFolder };
    this.#profile ??= resolveProfile({ ...settings, ...place });
    const { userDataDir, note } = this.#profile;
    const profile = settings.isolated ? 'in memory' : (userDataDir ?? "upstream's default");
    return { cwd: working.path, userDataDir, profile, notes: [working.note, note] };
  }
}
