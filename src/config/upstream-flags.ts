import { options, type Settings } from './options.ts';
import { type Problem, problem } from './problem.ts';

/** How many values a flag takes. */
export type Arity = 'none' | 'value' | 'variadic';

/**
 * What the bridge does with a flag of upstream: pass it on, use it as its own setting, pass it on only where upstream
 * chooses the browser, refuse it since it names another browser, or drop it with a warning since sessions share none.
 */
type Role = 'pass' | 'own' | 'browser' | 'otherBrowser' | 'sharedBrowser';

/** A flag of upstream's command line. */
export interface UpstreamFlag {
  readonly name: string;
  readonly arity: Arity;
  readonly role: Role;
}

/** A flag of upstream as the user gave it. */
export interface GivenUpstreamFlag {
  readonly flag: UpstreamFlag;
  /** The arguments, flag first, in the user's own form. */
  readonly args: readonly string[];
}

function flags(role: Role, arity: Arity, names: string): UpstreamFlag[] {
  return names.split(/\s+/).map((name) => ({ name, arity, role }));
}

/** The flags of @playwright/mcp 0.0.83, the hidden ones included; a test compares them with the program's own help. */
export const upstreamFlags: readonly UpstreamFlag[] = [
  ...flags(
    'pass',
    'none',
    `allow-unrestricted-file-access block-service-workers mobile ignore-https-errors no-webmcp save-session snapshot-boxes vision`,
  ),
  ...flags(
    'pass',
    'value',
    `allowed-origins blocked-origins caps codegen console-level device file-paths idle-timeout image-responses
    output-max-size secrets snapshot-mode storage-state test-id-attribute timeout-action timeout-navigation timeout-settle
    user-agent viewport-size`,
  ),
  ...flags('pass', 'variadic', 'grant-permissions init-page init-script'),
  ...flags('own', 'none', 'headless isolated no-sandbox sandbox'),
  ...flags('own', 'value', 'config executable-path host output-dir port proxy-bypass proxy-server user-data-dir'),
  ...flags('own', 'variadic', 'allowed-hosts'),
  ...flags('browser', 'value', 'browser'),
  ...flags('otherBrowser', 'none', 'extension'),
  ...flags('otherBrowser', 'value', 'cdp-endpoint cdp-timeout endpoint profile-dir-name'),
  ...flags('otherBrowser', 'variadic', 'cdp-header remote-header'),
  ...flags('sharedBrowser', 'none', 'shared-browser-context'),
];

const otherBrowser = "drives another browser than the bridge's; remove it, or run @playwright/mcp directly";
const chooseEngine =
  'has no effect with CloakBrowser; --browser-engine playwright leaves the choice of the browser to upstream';
const sharedBrowser = 'has no effect, each session has a browser of its own';

/** Variables of upstream that are no settings of ours and yet must not reach the child, with what is said of each. */
const keptVariables: Readonly<Record<string, string>> = {
  PLAYWRIGHT_MCP_SHARED_BROWSER_CONTEXT: sharedBrowser,
  PLAYWRIGHT_MCP_CDP_ENDPOINT: otherBrowser,
  PLAYWRIGHT_MCP_CDP_HEADERS: otherBrowser,
  PLAYWRIGHT_MCP_CDP_TIMEOUT: otherBrowser,
  PLAYWRIGHT_MCP_REMOTE_HEADERS: otherBrowser,
  PLAYWRIGHT_MCP_EXTENSION: otherBrowser,
  PLAYWRIGHT_MCP_EXTENSION_TOKEN: otherBrowser,
  PLAYWRIGHT_MCP_PROFILE_DIR_NAME: otherBrowser,
};
/** With upstream's own choice of the browser these pass. */
const browserVariables: Readonly<Record<string, string>> = {
  PLAYWRIGHT_MCP_BROWSER: chooseEngine,
  PLAYWRIGHT_MCP_EXECUTABLE_PATH:
    'has no effect with CloakBrowser; name the program by --binary-path or CLOAKBROWSER_BINARY_PATH',
};

type Engine = Settings['browserEngine'];

function keptFor(engine: Engine): Readonly<Record<string, string>> {
  return engine === 'cloak' ? { ...keptVariables, ...browserVariables } : keptVariables;
}

/** The `PLAYWRIGHT_MCP_*` variables that must not reach the child, since the bridge decides what they say. */
export function ownedVariables(engine: Engine): string[] {
  const aliases = options.flatMap((option) => option.variables.map(({ name }) => name));
  return [...Object.keys(keptFor(engine)), ...aliases.filter((name) => name.startsWith('PLAYWRIGHT_MCP_'))];
}

/** One warning for each variable of upstream that is set and kept from the child. */
export function variableWarnings(engine: Engine, env: Readonly<Record<string, string | undefined>>): string[] {
  // Upstream takes an empty variable for an unset one.
  const set = Object.entries(keptFor(engine)).filter(([name]) => env[name] !== undefined && env[name] !== '');
  return set.map(([name, reason]) => `${name}: ignored, ${reason}`);
}

/** What becomes of upstream's flags. */
export interface PassedOn {
  readonly args: readonly string[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
}

function flagNamed(argument: string): UpstreamFlag | undefined {
  const name = /^--([^=]+)/.exec(argument)?.[1];
  return name === undefined ? undefined : upstreamFlags.find((flag) => flag.name === name);
}

/** Sorts upstream's flags into those to pass on, problems and warnings; `rest` is what the user wrote after `--`. */
export function passOn(given: readonly GivenUpstreamFlag[], rest: readonly string[], engine: Engine): PassedOn {
  const args: string[] = [];
  const problems: Problem[] = [];
  const warnings: string[] = [];
  for (const { flag, args: own } of given) {
    const source = { kind: 'flag', name: `--${flag.name}` } as const;
    if (flag.role === 'otherBrowser') problems.push(problem(source, otherBrowser));
    else if (flag.role === 'sharedBrowser') warnings.push(`${source.name}: ignored, ${sharedBrowser}`);
    else if (flag.role === 'browser' && engine === 'cloak') warnings.push(`${source.name}: ignored, ${chooseEngine}`);
    else args.push(...own);
  }
  for (const argument of rest) {
    const flag = flagNamed(argument);
    if (flag === undefined || flag.role === 'pass') continue;
    problems.push(
      problem({ kind: 'flag', name: `--${flag.name} after "--"` }, 'the bridge decides this; give it before "--"'),
    );
  }
  return { args: [...args, ...rest], problems, warnings };
}
