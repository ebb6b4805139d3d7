import { isRecord } from '../core/record.ts';

/** What CDP clients may do: everything, everything that leaves the shared browser to the others, or only look. */
export type PolicyName = 'full' | 'guarded' | 'observe';

/** What becomes of a message of a client. */
export type Verdict =
  | { readonly kind: 'pass' }
  /** It is answered in the browser's place. */
  | { readonly kind: 'answer'; readonly text: string; readonly method: string }
  /** It is answered, and then its client is let go as if the browser had closed. */
  | { readonly kind: 'leave'; readonly text: string; readonly method: string };

/** What the operator says. */
export interface PolicySettings {
  readonly name: PolicyName;
  /** `Domain.method` or `Domain.*`. */
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/** CDP's code for errors of a server (JSON-RPC). */
const deniedCode = -32_000;
const parseErrorCode = -32_700;
const invalidRequestCode = -32_600;

/** A method of Chromium has at most 60 characters; a client may make up a name of any length. */
const methodShown = 100;
/** Those of Chromium have 32 characters. */
const longestSessionId = 100;

/** Methods that carry other messages out of sight of a policy: nested JSON, and a way to the browser for the page itself. */
const tunnels = ['Target.sendMessageToTarget', 'Target.exposeDevToolsProtocol'];

/**
 * What ends or takes over the browser that others use as well, by the protocol of Chromium 156. What only touches pages is
 * not here: closing, freezing or reloading them is what clients are for, and MCP gets over it. Nor is what libraries send
 * when they connect: `Browser.setDownloadBehavior`, with which Playwright leads the downloads of the default context to a
 * folder of its own, and `Target.setAutoAttach`.
 */
const hijacking = [
  'Browser.close',
  'Browser.crash',
  'Browser.crashGpuProcess',
  // A client crashes pages to test itself; on a page of MCP a call would be lost.
  'Page.crash',
  // Lets the browser dial out to debuggers elsewhere.
  'Target.setRemoteLocations',
  // Lets the browser listen on further ports, which no capability protects.
  'Tethering.bind',
  // Extensions run in all pages and stay when the client has gone.
  'Extensions.loadUnpacked',
  'Extensions.uninstall',
];

const observing = new Set([
  'Browser.getVersion',
  'Target.getTargets',
  'Target.getTargetInfo',
  'Target.setDiscoverTargets',
  'Target.attachToTarget',
  'Target.detachFromTarget',
  'Page.enable',
  'Page.startScreencast',
  'Page.stopScreencast',
  'Page.screencastFrameAck',
  'Page.captureScreenshot',
  'Log.enable',
  'Network.enable',
]);

const pass: Verdict = { kind: 'pass' };

function matches(list: readonly string[], method: string): boolean {
  const domain = `${method.split('.', 1)[0] ?? ''}.*`;
  return list.includes(method) || list.includes(domain);
}

interface Command {
  readonly id: number;
  readonly sessionId: unknown;
  readonly method: string;
  readonly params: unknown;
}

/** Decides by method what of a client's messages reaches the browser. Made by `makePolicy`. */
export class Policy {
  readonly #settings: PolicySettings;
  #ownContext: string | undefined;

  constructor(settings: PolicySettings) {
    this.#settings = settings;
  }

  get name(): PolicyName {
    return this.#settings.name;
  }

  /** False where every message passes unread. */
  get inspects(): boolean {
    return this.name !== 'full' || this.#settings.deny.length > 0;
  }

  /** The browser context that MCP works in and that others must not dispose of; undefined for the default one. */
  protectContext(id: string | undefined): void {
    this.#ownContext = id;
  }

  /** True if a route of the HTTP side that changes something may be used. */
  allowsRoute(route: 'new' | 'activate' | 'close'): boolean {
    const method = { new: 'Target.createTarget', activate: 'Target.activateTarget', close: 'Target.closeTarget' }[
      route
    ];
    return this.#isAllowed(method, {});
  }

  /**
   * Looks at a message as Chromium reads it: it honours escapes in names and refuses duplicate keys and trailing data
   * (facts/managed-cdp 5), so the last value of a duplicate key, which `JSON.parse` takes, is never executed.
   */
  check(text: Buffer): Verdict {
    if (!this.inspects) return pass;
    const command = read(text);
    if ('error' in command) return { kind: 'answer', text: command.error, method: 'unreadable' };
    const { method } = command;
    if (this.#isAllowed(method, command.params)) return pass;
    if (method === 'Browser.close' && this.name === 'guarded' && !matches(this.#settings.deny, method)) {
      return { kind: 'leave', text: answer(command, { result: {} }), method };
    }
    const message = `${method.slice(0, methodShown)} is denied by the policy of this bridge (${this.name})`;
    const error = { code: deniedCode, message };
    return { kind: 'answer', text: answer(command, { error }), method };
  }

  #isAllowed(method: string, params: unknown): boolean {
    const { name, allow, deny } = this.#settings;
    if (matches(deny, method)) return false;
    if (!this.inspects) return true;
    if (tunnels.includes(method)) return false;
    if (name === 'full' || matches(allow, method)) return true;
    if (name === 'observe') return observing.has(method) && isFlat(method, params);
    return !hijacking.includes(method) && !isTyped(method, params) && !this.#disposesOwnContext(method, params);
  }

  #disposesOwnContext(method: string, params: unknown): boolean {
    if (method !== 'Target.disposeBrowserContext' || this.#ownContext === undefined) return false;
    return !isRecord(params) || params['browserContextId'] === this.#ownContext;
  }
}

/** Without `flatten` an attached session is spoken to by a tunnel only. */
function isFlat(method: string, params: unknown): boolean {
  return method !== 'Target.attachToTarget' || (isRecord(params) && params['flatten'] === true);
}

/**
 * Chromium takes a navigation "from the address bar" for a person's own, and then runs the debug URLs that crash or hang
 * all of it, such as chrome://inducebrowsercrashforrealz (seen with 156); other navigations to them are refused.
 */
function isTyped(method: string, params: unknown): boolean {
  if (method !== 'Page.navigate' || !isRecord(params) || params['transitionType'] !== 'address_bar') return false;
  const { url } = params;
  return typeof url !== 'string' || !/^https?:\/\//i.test(url);
}

function read(text: Buffer): Command | { readonly error: string } {
  let message: unknown;
  try {
    message = JSON.parse(text.toString('utf8'));
  } catch {
    const error = { code: parseErrorCode, message: 'JSON: the message cannot be parsed' };
    return { error: JSON.stringify({ error }) };
  }
  if (!isRecord(message)) return { error: invalid('The message is not an object') };
  const { id, sessionId, method, params } = message;
  // As Chromium has it, and nothing else is repeated in an answer.
  if (!isInteger(id)) return { error: invalid("Message must have integer 'id' property") };
  if (typeof method !== 'string') return { error: invalid("Message must have string 'method' property", id) };
  return { id, sessionId, method, params };
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function invalid(message: string, id?: number): string {
  return JSON.stringify({ id, error: { code: invalidRequestCode, message } });
}

function answer({ id, sessionId }: Command, rest: Readonly<Record<string, unknown>>): string {
  const isSession = typeof sessionId === 'string' && sessionId.length <= longestSessionId;
  return JSON.stringify({ id, ...(isSession ? { sessionId } : {}), ...rest });
}

/** The policy of a session. */
export function makePolicy(settings: PolicySettings): Policy {
  return new Policy(settings);
}
