import { join } from 'node:path';

import type { BridgeChoice, Commands } from '../commands.ts';
import type { Command } from '../program.ts';
import type { Competitors } from './competitors.ts';
import type { HttpCommand, Spares } from './server.ts';

/** What the bridge has ahead by default. */
const usualSpares = { children: 1, browsers: 0 };
/** More sessions at once than any section opens. */
const sessionMax = 400;

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Makes the command lines that are compared over HTTP. */
export class HttpCommands {
  readonly #commands: Commands;
  readonly #competitors: Competitors | undefined;

  constructor(commands: Commands, competitors: Competitors | undefined) {
    this.#commands = commands;
    this.#competitors = competitors;
  }

  /** Where the measured programs keep files, beside their temporary folders. */
  get folders(): readonly string[] {
    return [this.#commands.folder];
  }

  /** Upstream's own HTTP server, or a bare node:http server that answers at once. */
  direct(upstream: BridgeChoice['upstream'], name = 'direct'): HttpCommand {
    const bare = join(process.cwd(), 'bench', 'instant-http.mjs');
    const alone = upstream === 'real' ? this.#commands.directWithBrowser() : { args: [bare], env: {} };
    return {
      name,
      on: (port) => {
        // The host by number: as a name it may be resolved to ::1 alone.
        return { ...alone, args: [...alone.args, '--host', '127.0.0.1', '--port', String(port)] };
      },
    };
  }

  /** The bridge; with the spares that it has by itself, if not told otherwise. */
  bridge(upstream: BridgeChoice['upstream'], name = 'bridge', spares: Spares = usualSpares): HttpCommand {
    const engine = upstream === 'real' ? 'cloak' : 'playwright';
    const { args, env } = this.#commands.bridge({ engine, upstream, catalog: 'stored' });
    const ahead = [
      ...['--http-spare-children', String(spares.children)],
      ...['--http-spare-browsers', String(spares.browsers)],
    ];
    const http = ['--transport', 'streamable-http', '--http-session-max', String(sessionMax), ...ahead];
    // Its profiles are temporary ones over HTTP, whatever is asked for.
    const own = args.filter((argument) => argument !== '--isolated');
    return { name, on: (port) => ({ args: [...own, ...http, '--http-port', String(port)], env }), spares };
  }

  /** The other bridges in front of the same upstream; none when they could not be installed. */
  others(upstream: BridgeChoice['upstream']): readonly HttpCommand[] {
    if (this.#competitors === undefined) return [];
    const child = upstream === 'real' ? this.#commands.directWithBrowser() : this.#commands.direct('instant');
    return [this.#supergateway(child, this.#competitors), this.#mcpProxy(child, this.#competitors)];
  }

  /** A session has a child of its own. Logs are off; it would write every message. */
  #supergateway(child: Command, { supergateway }: Competitors): HttpCommand {
    const line = [process.execPath, ...child.args].map(quoted).join(' ');
    const options = ['--outputTransport', 'streamableHttp', '--stateful', '--logLevel', 'none'];
    return {
      name: 'supergateway',
      on: (port) => ({ args: [supergateway, '--stdio', line, ...options, '--port', String(port)], env: child.env }),
    };
  }

  /** All sessions share one child. */
  #mcpProxy(child: Command, { 'mcp-proxy': program }: Competitors): HttpCommand {
    return {
      name: 'mcp-proxy',
      on: (port) => {
        const options = ['--host', '127.0.0.1', '--port', String(port), '--server', 'stream'];
        return { args: [program, ...options, '--', process.execPath, ...child.args], env: child.env };
      },
    };
  }
}
