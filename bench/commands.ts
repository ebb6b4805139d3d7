import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Command } from './program.ts';

/** What the commands are made of. */
export interface CommandParts {
  /** The built program. */
  readonly bridge: string;
  /** A Chromium for the engine `cloak`, where the bridge looks for the browser itself. */
  readonly browser: string;
  /** Folder for the stored catalogs. */
  readonly folder: string;
}

/** How a bridge is started. */
export interface BridgeChoice {
  readonly engine: 'cloak' | 'playwright';
  readonly upstream: 'real' | 'instant';
  /** With a catalog of an earlier start, or without any. */
  readonly catalog: 'stored' | 'none';
}

const upstreams = { real: '@playwright/mcp/cli.js', instant: 'instant-upstream.mjs' } as const;

function pathOf(upstream: BridgeChoice['upstream']): string {
  return join(process.cwd(), upstream === 'real' ? 'node_modules' : 'bench', upstreams[upstream]);
}

/** Makes the command lines that are compared. */
export class Commands {
  readonly #parts: CommandParts;
  #freshCount = 0;

  constructor(parts: CommandParts) {
    this.#parts = parts;
  }

  /** Folder of the stored catalogs. */
  get folder(): string {
    return this.#parts.folder;
  }

  /** The upstream program alone. */
  direct(upstream: BridgeChoice['upstream'], more: readonly string[] = []): Command {
    return { args: [pathOf(upstream), '--headless', '--isolated', ...more], env: {} };
  }

  /** The upstream program with the browser that the bridge gets too. */
  directWithBrowser(): Command {
    return this.direct('real', ['--no-sandbox', '--executable-path', this.#parts.browser]);
  }

  /** The bridge in front of the upstream program. */
  bridge({ engine, upstream, catalog }: BridgeChoice): Command {
    const { bridge, browser, folder } = this.#parts;
    const instant = upstream === 'instant' ? ['--upstream-cli', pathOf('instant')] : [];
    const cache = join(folder, catalog === 'stored' ? 'stored' : `fresh-${(this.#freshCount += 1)}`);
    mkdirSync(cache, { recursive: true });
    return {
      args: [bridge, '--isolated', '--browser-engine', engine, '--cache-dir', cache, ...instant],
      env: engine === 'cloak' ? { CLOAKBROWSER_BINARY_PATH: browser, CLOAKBROWSER_CACHE_DIR: folder } : {},
    };
  }

  /** A program that only passes bytes on, in front of the instant upstream. */
  relay(): Command {
    return { args: [join(process.cwd(), 'bench', 'pipe-relay.mjs'), pathOf('instant')], env: {} };
  }

  /** Nothing but Node with an open stdin, for scale. */
  bareNode(): Command {
    return { args: ['--eval', 'process.stdin.resume()'], env: {} };
  }
}
