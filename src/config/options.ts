import * as z from 'zod/mini';
import { cdpFields } from './cdp-options.ts';
import { httpAccessFields } from './http-access-options.ts';
import { httpSessionFields } from './http-session-options.ts';
import { choice, integer, list, type Field, option, type OptionMeta, path, text, toggle } from './option.ts';

/** Shorter waits make every ordinary start fail. */
const shortestWaitMs = 100;
/** No client waits longer than an hour for one call. */
const longestWaitMs = 3_600_000;
/** A longer text does not fit into one string of Node's (2^29 - 24 characters). */
const largestMessageBytes = 536_870_000;

const wait = integer(shortestWaitMs, longestWaitMs);

function isProxy(value: string): boolean {
  if (/\s/.test(value)) return false;
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(value)?.[1]?.toLowerCase();
  if (scheme !== undefined && !['http', 'https', 'socks4', 'socks5'].includes(scheme)) return false;
  try {
    const url = new URL(scheme === undefined ? `http://${value}` : value);
    // The browser gets user name and password decoded, so they must decode.
    decodeURIComponent(url.username + url.password);
    return url.hostname !== '';
  } catch {
    return false; // Not a URL: the one answer that a check can give.
  }
}

const fields = {
  transport: option(choice(['stdio', 'streamable-http']), {
    group: 'Bridge',
    default: 'stdio',
    description:
      "How clients talk to the bridge: one over stdio, or many over Streamable HTTP. Without it upstream's flags `--port` and `--host` choose Streamable HTTP; their variables never do.",
  }),
  configFile: option(path(), {
    group: 'Bridge',
    unset: 'none',
    notInFile: true,
    description:
      'A JSON file with any of these settings, by the names of this list; an absolute path is safest, since clients choose the working folder.',
  }),
  cacheDir: option(path(), {
    group: 'Bridge',
    unset: "`cloakbrowser-mcp` in the user's cache folder",
    description: 'Where the tool list of each upstream version is kept between starts.',
  }),
  logLevel: option(choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']), {
    group: 'Bridge',
    default: 'info',
    description: 'The least important events that are written to stderr.',
  }),
  upstreamCli: option(path(), {
    group: 'Bridge',
    unset: 'the packaged one',
    environment: [{ name: 'PLAYWRIGHT_MCP_CLI_PATH' }],
    description: 'The program of another @playwright/mcp version to run in place of the packaged one.',
  }),
  childEnv: option(list('variable names', /^[^\s=,]+$/, ','), {
    group: 'Bridge',
    value: 'names',
    default: [],
    description:
      'Further environment variables of the host that upstream and its browser may see; others than the documented ones are kept from them.',
  }),
  hideTools: option(list('tool names', /^[^\s,]+$/, ','), {
    group: 'Bridge',
    value: 'names',
    default: [],
    description: 'Tools to leave out of the list and to refuse when called.',
  }),

  startTimeoutMs: option(wait, {
    group: 'Limits',
    default: 45_000,
    description:
      'How long a browser call waits for a browser to be ready, a download included; below the 60 s that clients commonly allow.',
  }),
  restartTimeoutMs: option(wait, {
    group: 'Limits',
    default: 60_000,
    description: 'How long a replacement of a lost upstream process or browser may take.',
  }),
  restartMax: option(integer(1, 1000), {
    group: 'Limits',
    default: 5,
    description: 'Failed starts within 60 s after which calls are refused until the minute has passed.',
  }),
  rootsTimeoutMs: option(wait, {
    group: 'Limits',
    default: 10_000,
    description: 'How long the client may take to tell its roots before upstream gets an error instead.',
  }),
  maxMessageBytes: option(integer(1024, largestMessageBytes), {
    group: 'Limits',
    default: 268_435_456,
    description: 'The longest message that is passed on in either direction; a longer answer fails that one call.',
  }),
  closeGraceMs: option(wait, {
    group: 'Limits',
    default: 5000,
    description:
      'How long upstream may take to close its browser at the end, before its input is closed and it is killed.',
  }),
  stallTimeoutMs: option(wait, {
    group: 'Limits',
    default: 30_000,
    description: 'How long a browser download may go on without a byte.',
  }),

  browserEngine: option(choice(['cloak', 'playwright']), {
    group: 'Browser',
    default: 'cloak',
    environment: [{ name: 'PLAYWRIGHT_MCP_BROWSER_ENGINE' }],
    description: '`cloak` runs CloakBrowser; `playwright` leaves the choice of the browser to upstream.',
  }),
  binaryPath: option(path(), {
    group: 'Browser',
    unset: 'CloakBrowser, downloaded when missing',
    flag: 'executable-path',
    environment: [{ name: 'CLOAKBROWSER_BINARY_PATH' }],
    description: 'The browser program to run; nothing is downloaded then.',
  }),
  headless: option(toggle(), {
    group: 'Browser',
    default: true,
    environment: [{ name: 'PLAYWRIGHT_MCP_HEADLESS' }],
    description: 'Run the browser without a window.',
  }),
  sandbox: option(toggle(), {
    group: 'Browser',
    unset: 'on, unless run by root or not possible here',
    environment: [{ name: 'CLOAK_PLAYWRIGHT_MCP_NO_SANDBOX', isInverse: true }, { name: 'PLAYWRIGHT_MCP_SANDBOX' }],
    description: "Use Chromium's sandbox.",
  }),
  isolated: option(toggle(), {
    group: 'Browser',
    default: false,
    environment: [{ name: 'PLAYWRIGHT_MCP_ISOLATED' }],
    description: 'Keep the browser profile in memory only. Cannot be combined with a user data folder.',
  }),
  userDataDir: option(path(), {
    group: 'Browser',
    unset: "upstream's default",
    environment: [{ name: 'PLAYWRIGHT_MCP_USER_DATA_DIR' }],
    description: 'The folder of the browser profile.',
  }),
  outputDir: option(path(), {
    group: 'Browser',
    unset: "upstream's default",
    environment: [{ name: 'PLAYWRIGHT_MCP_OUTPUT_DIR' }],
    description: 'Where screenshots, traces and other files go.',
  }),
  proxyServer: option(
    text(
      'a proxy such as http://host:3128 or socks5://host:1080, with user:password@ before the host if it asks for them',
      isProxy,
    ),
    {
      group: 'Browser',
      value: 'url',
      unset: 'none',
      secret: 'credentials',
      environment: [{ name: 'PLAYWRIGHT_MCP_PROXY_SERVER' }],
      description:
        'The proxy of the browser. A password is better given by the environment, since other users can see flags.',
    },
  ),
  proxyBypass: option(
    text('a list of domains such as .com,example.org', (value) => /^\S(.*\S)?$/.test(value)),
    {
      group: 'Browser',
      value: 'domains',
      unset: 'none',
      environment: [{ name: 'PLAYWRIGHT_MCP_PROXY_BYPASS' }],
      description: 'Domains that are reached without the proxy, separated by commas.',
    },
  ),
  config: option(path(), {
    group: 'Browser',
    unset: 'none',
    environment: [{ name: 'PLAYWRIGHT_MCP_CONFIG' }],
    description: "A configuration file of upstream's own format; the bridge's settings are merged over it.",
  }),

  releaseChannel: option(choice(['stable', 'preview']), {
    group: 'CloakBrowser',
    default: 'stable',
    environment: [{ name: 'CLOAKBROWSER_RELEASE_CHANNEL' }],
    description: 'Which CloakBrowser releases are used.',
  }),
  browserVersion: option(
    text('a full version number such as 148.0.7778.215.2', (value) => /^[0-9]+(?:\.[0-9]+){3,4}$/.test(value)),
    {
      group: 'CloakBrowser',
      value: 'version',
      unset: "the channel's",
      environment: [{ name: 'CLOAKBROWSER_VERSION' }],
      description: 'One CloakBrowser version to stay with.',
    },
  ),
  autoUpdate: option(toggle(), {
    group: 'CloakBrowser',
    default: false,
    environment: [{ name: 'CLOAKBROWSER_AUTO_UPDATE' }],
    description: 'Let CloakBrowser look for newer versions by itself.',
  }),
  stealthArgs: option(toggle(), {
    group: 'CloakBrowser',
    default: true,
    description: "Start the browser with CloakBrowser's own arguments.",
  }),
  extraArgs: option(list('Chromium arguments that start with "-"', /^-\S/, ',(?=\\s*-)'), {
    group: 'CloakBrowser',
    value: 'args',
    default: [],
    description:
      'Further Chromium arguments. Commas within an argument are kept; the next one starts at a comma before a dash.',
  }),

  ...httpAccessFields,
  ...httpSessionFields,
  ...cdpFields,
};

type Shape = { [Name in keyof typeof fields]: ReturnType<(typeof fields)[Name]['schema']> };

/** The schema of all settings together, as a config file may hold them; for the reference and for types. */
export function settingsSchema() {
  return z.strictObject(Object.fromEntries(options.map(({ name, schema }) => [name, schema()])) as Shape);
}

/** The settings as the bridge uses them. */
export type Settings = z.output<z.ZodMiniObject<Shape, z.core.$strict>>;

/** Name of a setting, as in the config file. */
export type SettingName = keyof typeof fields;

/** A setting with what is known of it. */
export interface Option extends OptionMeta {
  readonly name: SettingName;
  /** The flag and upstream's spelling of it, without dashes. */
  readonly flags: readonly string[];
  /** The variables that give it, the first one winning. */
  readonly variables: readonly { readonly name: string; readonly isInverse?: true }[];
  /** Of the value, optional or with its default. */
  readonly schema: () => z.ZodMiniType;
}

/** What all of the bridge's own variables start with. */
export const variablePrefix = 'CLOAK_PLAYWRIGHT_MCP_';

function spell(name: string, separator: string): string {
  return name.replace(/[A-Z]/g, (letter) => separator + letter.toLowerCase());
}

function describe(name: SettingName): Option {
  const meta: Field<z.ZodMiniType> = fields[name];
  return {
    ...meta,
    name,
    flags: [spell(name, '-'), ...(meta.flag === undefined ? [] : [meta.flag])],
    variables: [{ name: variablePrefix + spell(name, '_').toUpperCase() }, ...(meta.environment ?? [])],
  };
}

/** All options in the order in which they are shown. */
export const options: readonly Option[] = (Object.keys(fields) as SettingName[]).map(describe);
