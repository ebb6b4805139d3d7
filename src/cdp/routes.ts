import { isCapability } from './capability.ts';

/** What a path under a capability asks for. */
export type Route =
  | { readonly kind: 'version' | 'list' | 'protocol' | 'new' }
  | { readonly kind: 'activate' | 'close'; readonly id: string }
  | { readonly kind: 'browser'; readonly id: string | undefined }
  | { readonly kind: 'page'; readonly id: string };

/** A request target taken apart; nothing in it is decoded. */
export interface Target {
  readonly capability: string;
  readonly route: Route | undefined;
  /** Without its question mark. */
  readonly query: string;
}

const prefix = '/cdp/';
/** Ids of targets are 32 hexadecimal digits, those of browsers UUIDs; a longer text is neither. */
const id = '[A-Za-z0-9_-]{1,64}';
const withId: readonly (readonly [RegExp, 'activate' | 'close' | 'page' | 'browser'])[] = [
  [new RegExp(`^/json/activate/(${id})$`), 'activate'],
  [new RegExp(`^/json/close/(${id})$`), 'close'],
  [new RegExp(`^/devtools/page/(${id})$`), 'page'],
  [new RegExp(`^/devtools/browser/(${id})/?$`), 'browser'],
];
const plain: ReadonlyMap<string, 'version' | 'list' | 'protocol' | 'new' | 'browser'> = new Map([
  ['/json/version', 'version'],
  ['/json/version/', 'version'],
  ['/json', 'list'],
  ['/json/', 'list'],
  ['/json/list', 'list'],
  ['/json/list/', 'list'],
  ['/json/protocol', 'protocol'],
  ['/json/protocol/', 'protocol'],
  ['/json/new', 'new'],
  ['', 'browser'],
  ['/', 'browser'],
  ['/devtools/browser', 'browser'],
]);

/** True for a path that is for the gateway. */
export function isGatewayPath(path: string): boolean {
  return path.startsWith(prefix);
}

/** Takes a request target apart; undefined when no capability stands in it. */
export function readTarget(url: string): Target | undefined {
  const mark = url.indexOf('?');
  const path = mark < 0 ? url : url.slice(0, mark);
  const query = mark < 0 ? '' : url.slice(mark + 1);
  if (!isGatewayPath(path)) return undefined;
  const end = path.indexOf('/', prefix.length);
  const capability = path.slice(prefix.length, end < 0 ? undefined : end);
  if (!isCapability(capability)) return undefined;
  return { capability, route: readRoute(end < 0 ? '' : path.slice(end)), query };
}

function readRoute(rest: string): Route | undefined {
  const kind = plain.get(rest);
  if (kind === 'browser') return { kind, id: undefined };
  if (kind !== undefined) return { kind };
  for (const [pattern, named] of withId) {
    const found = pattern.exec(rest)?.[1];
    if (found !== undefined) return { kind: named, id: found };
  }
  return undefined;
}
