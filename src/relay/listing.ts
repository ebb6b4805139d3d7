import { type Catalog, type ListedTool, type ToolList, readToolPage } from '../core/catalog.ts';
import { within, timedOut } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { isRecord } from '../core/record.ts';
import type { Link } from './link.ts';
import type { LocalTool } from './local-tools.ts';

/** A list with more pages than this is taken for an endless one. */
const maxPages = 1000;
/** Time for the child to answer its own list; it is then busy, and the last known list is the better answer. */
const refreshMs = 5000;

const newestVersion = '2025-11-25';
/** Protocol versions that we and upstream speak, newest first (facts: MCP revisions of the 2025 era). */
export const knownVersions: readonly string[] = [newestVersion, '2025-06-18', '2025-03-26', '2024-11-05'];

/** The version that both sides speak: the asked one if we know it, else our newest. */
export function negotiateVersion(asked: unknown): string {
  return knownVersions.find((version) => version === asked) ?? newestVersion;
}

/** Reads the whole tool list of a child, following its pages. Throws `internal` when it is not one. */
export async function fetchToolList(link: Link): Promise<ToolList> {
  const tools: ListedTool[] = [];
  let members: Readonly<Record<string, unknown>> | undefined;
  let cursor: string | undefined;
  for (let count = 0; count < maxPages; count += 1) {
    const page = readToolPage(await link.request('tools/list', cursor === undefined ? {} : { cursor }));
    if (page === undefined) throw new BridgeError('internal', 'Upstream answered tools/list with something else.');
    tools.push(...page.tools);
    members ??= page.members;
    cursor = page.nextCursor;
    if (cursor === undefined) return { tools, members };
  }
  throw new BridgeError('internal', `Upstream's tool list has more than ${maxPages} pages.`);
}

/** Which capability the methods before the slash belong to (MCP 2025-11-25). */
const capabilityOf: ReadonlyMap<string, string> = new Map([
  ['resources', 'resources'],
  ['prompts', 'prompts'],
  ['completion', 'completions'],
  ['logging', 'logging'],
]);

/** What a listing is made with. */
export interface ListingParts {
  readonly logger: Logger;
  readonly localTools: readonly LocalTool[];
  /** Names of tools that the operator hides. */
  readonly hidden: readonly string[];
  readonly serverInfo: Readonly<Record<string, unknown>>;
  readonly instructions: string;
  /** True where the bridge has log messages of its own for the client. */
  readonly hasLog?: boolean;
}

/** What the client is told of upstream: the answer to `initialize` and the tool list with the local tools after it. */
export class Listing {
  readonly #parts: ListingParts;
  #catalog: Catalog = { initialize: {}, tools: [], members: {} };
  #live: ToolList | undefined;
  #local: { readonly list: ToolList; readonly tools: readonly LocalTool[] } | undefined;
  #isStale = false;
  #refreshing: Promise<void> | undefined;

  constructor(parts: ListingParts) {
    this.#parts = parts;
  }

  /** The catalog in use. */
  get catalog(): Catalog {
    return this.#catalog;
  }

  /** Takes a learned or stored catalog. */
  use(catalog: Catalog): void {
    this.#catalog = catalog;
    this.#live = undefined;
  }

  /** The child said that its list changed: the next reader gets a new one. */
  markStale(): void {
    this.#isStale = true;
  }

  /** The child is gone, and with it what pages had added to its list. */
  reset(): void {
    this.#isStale = false;
    this.#live = undefined;
  }

  /** The result of `initialize` as JSON. */
  initializeText(asked: unknown): string {
    const { capabilities, instructions, serverInfo, ...others } = this.#catalog.initialize;
    const offered = isRecord(capabilities) ? capabilities : {};
    const tools = isRecord(offered['tools']) ? offered['tools'] : {};
    const meta = isRecord(others['_meta']) ? others['_meta'] : {};
    return JSON.stringify({
      ...others,
      protocolVersion: negotiateVersion(asked),
      capabilities: {
        ...offered,
        ...(this.#parts.hasLog === true ? { logging: offered['logging'] ?? {} } : {}),
        tools: { ...tools, listChanged: true },
      },
      serverInfo: this.#parts.serverInfo,
      instructions: [instructions, this.#parts.instructions].filter((text) => typeof text === 'string').join('\n\n'),
      _meta: { ...meta, 'io.github.cloakbrowser-mcp/upstream': serverInfo ?? null },
    });
  }

  /** The result of `tools/list` as JSON: one page, upstream's tools byte for byte, then the local ones. */
  async listText(link: Link | undefined): Promise<string> {
    if (link !== undefined && (this.#isStale || this.#refreshing !== undefined)) {
      this.#refreshing ??= this.#refresh(link);
      await this.#refreshing;
    }
    const list = this.#live ?? this.#catalog;
    const shown = list.tools.filter((tool) => !this.isHidden(tool.name)).map((tool) => tool.text);
    const local = this.#shownLocalTools().map((tool) => JSON.stringify(tool.definition));
    const members = Object.entries(list.members).map(
      ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)},`,
    );
    return `{${members.join('')}"tools":[${[...shown, ...local].join(',')}]}`;
  }

  /** The local tool of this name; upstream's own tool of the same name goes before it. */
  localTool(name: string | undefined): LocalTool | undefined {
    return this.#shownLocalTools().find((tool) => tool.definition.name === name);
  }

  /** False for a method of a capability that upstream is known not to have. */
  offers(method: string): boolean {
    const { capabilities } = this.#catalog.initialize;
    if (this.hasOwnLog && method === 'logging/setLevel') return true;
    const needed = capabilityOf.get(method.split('/', 1)[0] ?? '');
    return needed === undefined || !isRecord(capabilities) || needed in capabilities;
  }

  /** True where log messages are the bridge's own only, so that it keeps the client's level for itself. */
  get hasOwnLog(): boolean {
    const { capabilities } = this.#catalog.initialize;
    return this.#parts.hasLog === true && !(isRecord(capabilities) && 'logging' in capabilities);
  }

  /** True for a tool that the operator hides. */
  isHidden(name: string | undefined): boolean {
    return name !== undefined && this.#parts.hidden.includes(name);
  }

  /** How many tools are shown, for the info tool. */
  counts(): { readonly upstream: number; readonly local: number; readonly hidden: number } {
    const { tools } = this.#live ?? this.#catalog;
    const hidden = tools.filter((tool) => this.isHidden(tool.name)).length;
    return { upstream: tools.length - hidden, local: this.#shownLocalTools().length, hidden };
  }

  /** Names of the local tools that are shown. */
  localNames(): readonly string[] {
    return this.#shownLocalTools().map((tool) => tool.definition.name);
  }

  /** Kept for each list, since every call of a tool asks for it. */
  #shownLocalTools(): readonly LocalTool[] {
    const list = this.#live ?? this.#catalog;
    if (this.#local?.list === list) return this.#local.tools;
    const isTaken = (name: string): boolean => list.tools.some((tool) => tool.name === name);
    const tools = this.#parts.localTools.filter(({ definition: { name } }) => !isTaken(name) && !this.isHidden(name));
    this.#local = { list, tools };
    return tools;
  }

  async #refresh(link: Link): Promise<void> {
    this.#isStale = false;
    try {
      const list = await within(fetchToolList(link), refreshMs);
      if (list === timedOut) this.#isStale = true;
      else this.#live = list;
    } catch (failure) {
      this.#parts.logger.debug('tool list not refreshed', { reason: String(failure) });
    } finally {
      this.#refreshing = undefined;
    }
  }
}
