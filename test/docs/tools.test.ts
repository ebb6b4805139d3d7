import { describe, expect, it } from 'vitest';
import { binaryInfoTool, bridgeInfoTool, type LocalTool } from '../../src/relay/local-tools.ts';

/** What each field of the structured answers means; an object's own fields follow its name and a dot. */
const meanings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  cloakbrowser_binary_info: {
    engine: '`cloak`, or `playwright` when upstream chooses the browser',
    wrapperVersion: 'version of the package `cloakbrowser`',
    platform: 'operating system and processor',
    tier: '`free` or `pro` build of CloakBrowser, `unknown` for a browser of your own',
    version: 'version of the browser, as far as it is known without starting it',
    path: 'the program',
    installed: 'whether the program is there',
    source: 'where it came from: `binary-path`, `cache`, `downloaded` in this run, `none` yet, or `upstream`',
    releaseChannel: 'which CloakBrowser releases are used',
    updatePolicy: '`background` when CloakBrowser looks for newer versions, else `off`',
    cacheDir: 'where CloakBrowser keeps its downloads; null with the engine `playwright`',
    download: 'how far the search for the program is',
    'download.state': '`idle`, `checking`, `downloading`, `extracting`, `ready` or `failed`',
    'download.code': 'name of the error, when it failed',
    'download.message': 'the error in words, when it failed',
    'download.host': 'while downloading: the server',
    'download.version': 'while downloading: the version',
    'download.receivedBytes': 'while downloading',
    'download.totalBytes': 'while downloading, if the server told it',
  },
  cloakbrowser_bridge_info: {
    name: '`cloakbrowser-mcp`',
    title: 'the name for people',
    version: 'version of this server',
    transport: 'how the client talks to it',
    node: 'version of Node',
    upstream: 'the program that has the browser tools',
    'upstream.package': 'its name',
    'upstream.version': 'its version',
    'upstream.core': 'version of its playwright-core',
    'upstream.cliPath': 'its file',
    'upstream.overridden': 'whether `--upstream-cli` chose it',
    tools: 'how many tools are listed',
    'tools.upstream': "upstream's",
    'tools.local': "the server's own",
    'tools.hidden': 'left out by `--hide-tools`',
    localTools: "names of the server's own tools",
    session: 'the stay of this client',
    'session.state': '`open` or `closing`',
    'session.uptimeMs': 'time since the start of the server',
    'session.forwardedCalls': 'requests that were sent to upstream',
    'session.workingFolder': 'where upstream works and puts files without a path',
    'session.profile': 'folder of the browser profile, `in memory`, or that upstream chooses it',
    http: "the session's place on an HTTP server; null over stdio",
    'http.session': 'the short hash that stands for the session in logs and in the status',
    'http.replica': 'name of the replica (`--replica-id`)',
    'http.idleTtlMs': 'the session ends after so long without a request',
    'http.unusedTtlMs': 'the same, as long as no call was sent to upstream',
    'http.maxAgeMs': 'the session ends at this age; null without such a limit',
    'http.sessionSettings': 'what a client may set with `initialize`',
    'http.rootsPassed': "whether upstream learns of the client's roots (`--http-pass-roots`)",
    'http.files':
      "path below which the session's files can be fetched, with its `Mcp-Session-Id`; null without `--http-files`",
    generation: 'the current process of upstream with its browser',
    'generation.number': 'counts from 1; 0 before the first start',
    'generation.state': '`none`, `starting`, `ready` or `lost`',
    'generation.pid': 'its process id, while it runs',
    lastLoss: 'the last one that ended by itself',
    'lastLoss.generation': 'its number',
    'lastLoss.code':
      '`child_exit`, or with managed CDP `browser_close_tool`, `sentinel_closed`, `heartbeat_timeout`, `mcp_context_gone` or `idle_timeout`',
    'lastLoss.reason': 'how it ended',
    'lastLoss.at': 'when',
    startFailure: 'why there is no browser, if the last start failed',
    'startFailure.code': 'name of the [error](errors.md)',
    'startFailure.message': 'what happened',
    'startFailure.hint': 'how to mend it',
    sandbox: "Chromium's sandbox: `on`, `off`, or who decides it",
    settings: 'every setting, without passwords',
    'settings[].name': 'its name in the config file, see [options](options.md)',
    'settings[].value': 'its value; `null` when it has none',
    'settings[].source': 'the flag, variable or file that gave it, or `default`',
    problems: 'settings that are not valid; while there are any, no browser is started',
    warnings: 'settings that have no effect',
    cdp: 'the address at which CDP clients join the browser, see [managed CDP](../managed-cdp.md)',
    'cdp.enabled': 'whether this session has one; nothing else is told without',
    'cdp.state': '`idle` before the first browser, `starting`, `ready`, `lost`, `restarting`, `failed` or `closed`',
    'cdp.generation': 'the generation that the address belongs to, or the last one that had one',
    'cdp.port': 'the port that is listened on; null, as all of the address, while no browser is published',
    'cdp.discoveryUrl': 'for clients that ask over HTTP first; a secret',
    'cdp.webSocketDebuggerUrl': 'complete, for every client; a secret',
    'cdp.browser': 'the browser itself',
    'cdp.browser.product': 'its name and version',
    'cdp.browser.protocolVersion': 'of CDP',
    'cdp.browser.id': 'changes with each browser',
    'cdp.browserContextId': 'the browser context that MCP works in',
    'cdp.policy': '`full`, `guarded` or `observe`',
    'cdp.activeConnections': 'WebSockets of CDP clients',
    'cdp.limits': 'what clients may take',
    'cdp.limits.maxConnections': 'WebSockets at once',
    'cdp.limits.maxRequestBytes': 'of a message of a client',
    'cdp.limits.maxAnswerBytes': 'of a message of the browser',
    'cdp.limits.idleMs': 'an unused browser is closed after so long; 0 never',
    'cdp.lastLoss': 'why the last address died',
    'cdp.lastLoss.reason': 'a word of a closed list, as `lastLoss.code`',
    'cdp.lastLoss.at': 'when',
    'cdp.lastLoss.generation': 'of which generation it was',
    'cdp.lastError': 'why no browser is published, if the last start failed',
    'cdp.lastError.code': 'name of the [error](errors.md)',
    'cdp.lastError.message': 'what happened',
  },
};

interface Field {
  readonly path: string;
  readonly type: string;
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

/** The schema without its "or null", and whether it had one. */
function core(schema: Schema): { readonly schema: Schema; readonly isNullable: boolean } {
  const [first, second] = schema.anyOf ?? [];
  if (first === undefined) return { schema, isNullable: Array.isArray(schema.type) && schema.type.includes('null') };
  return { schema: first, isNullable: second?.type === 'null' };
}

function typeName(schema: Schema): string {
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== 'null') : [schema.type ?? 'any'];
  if (schema.type === 'array')
    return `list of ${core(schema.items ?? {}).schema.type === 'object' ? 'objects' : 'strings'}`;
  return types.map((type) => (type === 'integer' ? 'whole number' : String(type))).join(' or ');
}

function fieldsOf(given: Schema, prefix: string): Field[] {
  return Object.entries(given.properties ?? {}).flatMap(([name, member]) => {
    const { schema, isNullable } = core(member);
    const path = `${prefix}${name}`;
    const type = `${typeName(schema)}${isNullable ? ' or null' : ''}`;
    const inner = schema.items === undefined ? fieldsOf(schema, `${path}.`) : fieldsOf(schema.items, `${path}[].`);
    return [{ path, type }, ...inner];
  });
}

const noRun = (): Promise<never> => Promise.reject(new Error('only the definition is looked at'));
const tools: readonly LocalTool[] = [binaryInfoTool(noRun), bridgeInfoTool(noRun)];

function outputFields(tool: LocalTool): Field[] {
  return fieldsOf(tool.definition['outputSchema'] as Schema, '');
}

function section(tool: LocalTool): string {
  const { name, description } = tool.definition;
  const rows = outputFields(tool).map(
    ({ path, type }) => `| \`${path}\` | ${type} | ${meanings[name]?.[path] ?? 'MEANING MISSING'} |`,
  );
  const table = ['| Field | Type | Meaning |', '| --- | --- | --- |', ...rows].join('\n');
  return [`## ${name}`, description, 'Takes no arguments.', table].join('\n\n');
}

function toolsPage(): string {
  return `${[
    '# Tools of the server',
    'Written from the code by `npm run docs`; do not edit.',
    'The browser tools are those of the installed `@playwright/mcp`, unchanged and not listed here: `tools/list` has them, and its own documentation describes them. After them the server lists two of its own. They start nothing, and their answer is the same as text (JSON) and as structured content.',
    ...tools.map(section),
  ].join('\n\n')}\n`;
}

describe('the page of the local tools', () => {
  it('is what the code says', async () => {
    await expect(toolsPage()).toMatchFileSnapshot('../../docs/reference/tools.md');
  });

  it.each(tools.map((tool) => [tool.definition.name, tool] as const))(
    'says what each field of %s means, and of no other',
    (name, tool) => {
      const paths = outputFields(tool).map(({ path }) => path);
      expect(Object.keys(meanings[name] ?? {}).toSorted()).toEqual(paths.toSorted());
    },
  );
});
