import { parseSpan, scanArray, scanObject, stringOf } from './json-scan.ts';

/** One tool of a list, as the bytes it came in. */
export interface ListedTool {
  readonly name: string;
  readonly text: string;
}

/** A whole tool list: every page's tools, and the other members of the first page's result. */
export interface ToolList {
  readonly tools: readonly ListedTool[];
  readonly members: Readonly<Record<string, unknown>>;
}

/** Upstream's own answer to `initialize` and its tool list. */
export interface Catalog extends ToolList {
  readonly initialize: Readonly<Record<string, unknown>>;
}

/** One page of a tool list, read from the text of a `tools/list` result without touching the tools. */
export function readToolPage(result: Buffer): (ToolList & { readonly nextCursor: string | undefined }) | undefined {
  const page = scanObject(result);
  const span = page?.get('tools');
  const elements = span && scanArray(result, span.start);
  if (page === undefined || elements === undefined) return undefined;
  const tools: ListedTool[] = [];
  for (const element of elements) {
    const name = stringOf(result, scanObject(result, element.start)?.get('name'));
    if (name !== undefined) tools.push({ name, text: result.toString('utf8', element.start, element.end) });
  }
  const others = [...page].filter(([key]) => key !== 'tools' && key !== 'nextCursor');
  const members = Object.fromEntries(others.map(([key, value]) => [key, parseSpan(result, value)]));
  return { tools, members, nextCursor: stringOf(result, page.get('nextCursor')) };
}

/** True when both lists hold the same tools in the same order, byte for byte. */
export function isSameList(one: ToolList, other: ToolList): boolean {
  return (
    one.tools.length === other.tools.length && one.tools.every((tool, index) => tool.text === other.tools[index]?.text)
  );
}
