/** A tool that the bridge answers itself, without a child. */
export interface LocalTool {
  readonly definition: {
    readonly name: string;
    readonly description: string;
    readonly [member: string]: unknown;
  };
  /** The structured content; the text content is the same as JSON. */
  run(): Promise<Readonly<Record<string, unknown>>>;
}

type Schema = Readonly<Record<string, unknown>>;

const text: Schema = { type: 'string' };
const optionalText: Schema = { type: ['string', 'null'] };
const flag: Schema = { type: 'boolean' };
const whole: Schema = { type: 'integer' };

function object(properties: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', properties, required: Object.keys(properties) };
}

function nullable(schema: Schema): Schema {
  return { anyOf: [schema, { type: 'null' }] };
}

const annotations = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
const noArguments = { type: 'object', properties: {}, additionalProperties: false };

const download = {
  type: 'object',
  properties: {
    state: text,
    code: text,
    message: text,
    host: text,
    version: text,
    receivedBytes: whole,
    totalBytes: whole,
  },
  required: ['state'],
};

const failure = object({ code: text, message: text, hint: optionalText });

const binarySchema = object({
  engine: text,
  wrapperVersion: optionalText,
  platform: text,
  tier: optionalText,
  version: optionalText,
  path: optionalText,
  installed: flag,
  source: text,
  releaseChannel: text,
  updatePolicy: text,
  cacheDir: optionalText,
  download,
});

/** Only `enabled` is always there; addresses are null while no browser is published. */
const cdpSchema = {
  type: 'object',
  properties: {
    enabled: flag,
    state: text,
    generation: whole,
    port: { type: ['integer', 'null'] },
    discoveryUrl: optionalText,
    webSocketDebuggerUrl: optionalText,
    browser: nullable(object({ product: text, protocolVersion: text, id: text })),
    browserContextId: optionalText,
    policy: text,
    activeConnections: whole,
    limits: object({ maxConnections: whole, maxRequestBytes: whole, maxAnswerBytes: whole, idleMs: whole }),
    lastLoss: nullable(object({ reason: text, at: text, generation: whole })),
    lastError: nullable(object({ code: text, message: text })),
  },
  required: ['enabled'],
};

const bridgeSchema = object({
  name: text,
  title: text,
  version: text,
  transport: text,
  node: text,
  upstream: object({ package: text, version: text, core: optionalText, cliPath: text, overridden: flag }),
  tools: object({ upstream: whole, local: whole, hidden: whole }),
  localTools: { type: 'array', items: text },
  session: object({ state: text, uptimeMs: whole, forwardedCalls: whole, workingFolder: text, profile: text }),
  http: nullable(
    object({
      session: text,
      replica: optionalText,
      idleTtlMs: whole,
      unusedTtlMs: whole,
      maxAgeMs: { type: ['integer', 'null'] },
      sessionSettings: { type: 'array', items: text },
      rootsPassed: flag,
      files: optionalText,
    }),
  ),
  generation: object({ number: whole, state: text, pid: { type: ['integer', 'null'] } }),
  lastLoss: nullable(object({ generation: whole, code: text, reason: text, at: text })),
  startFailure: nullable(failure),
  sandbox: text,
  settings: { type: 'array', items: object({ name: text, value: {}, source: text }) },
  problems: { type: 'array', items: text },
  warnings: { type: 'array', items: text },
  cdp: cdpSchema,
});

/** The tool that tells which browser program is used and where it came from. */
export function binaryInfoTool(run: LocalTool['run']): LocalTool {
  return {
    definition: {
      name: 'cloakbrowser_binary_info',
      title: 'CloakBrowser binary',
      description:
        'Tells which browser program this server uses: version, platform, path, whether it is installed or being downloaded, and the update policy. Starts nothing.',
      inputSchema: noArguments,
      outputSchema: binarySchema,
      annotations: { title: 'CloakBrowser binary', ...annotations },
    },
    run,
  };
}

/** The tool that tells the state of the bridge itself. */
export function bridgeInfoTool(run: LocalTool['run']): LocalTool {
  return {
    definition: {
      name: 'cloakbrowser_bridge_info',
      title: 'CloakBrowser bridge',
      description:
        'Tells the state of this server: versions, session and browser generation, why the last browser process was lost or did not start, and the effective settings with their source. Starts nothing and shows no secrets.',
      inputSchema: noArguments,
      outputSchema: bridgeSchema,
      annotations: { title: 'CloakBrowser bridge', ...annotations },
    },
    run,
  };
}

/** Runs a tool; the result as JSON, with the structured content repeated as text for clients that only show text. */
export async function runTool(tool: LocalTool): Promise<string> {
  const structured = await tool.run();
  const text = JSON.stringify(structured, null, 2);
  return JSON.stringify({ content: [{ type: 'text', text }], structuredContent: structured, isError: false });
}
