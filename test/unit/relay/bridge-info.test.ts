import { describe, expect, it } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import { type BridgeFacts, describeBinary, describeBridge } from '../../../src/relay/bridge-info.ts';
import { binaryInfoTool, bridgeInfoTool } from '../../../src/relay/local-tools.ts';

const facts: BridgeFacts = {
  version: '1',
  transport: 'stdio',
  nodeVersion: '20.19.0',
  upstream: { name: '@playwright/mcp', version: '9', coreVersion: undefined, cliPath: '/cli.js', isOverridden: true },
  tools: { upstream: 3, local: 2, hidden: 1 },
  localTools: ['a'],
  session: { state: 'open', uptimeMs: 1, forwardedCalls: 2, workingFolder: '/w', profile: 'in memory' },
  http: undefined,
  generation: { number: 0, state: 'none', pid: undefined },
  lastLoss: undefined,
  startFailure: undefined,
  sandbox: 'on',
  settings: [{ name: 'headless', value: true, source: 'default' }],
  problems: [],
  warnings: [],
};

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function isOfType({ type }: Schema, value: unknown): boolean {
  return type === undefined || [type].flat().includes(typeOf(value));
}

/** Where a value does not fit the schema of a tool, as far as our schemas go. */
function misfits(schema: Schema, value: unknown, path = '$'): string[] {
  if (schema.anyOf !== undefined) return schema.anyOf.some((one) => misfits(one, value).length === 0) ? [] : [path];
  if (!isOfType(schema, value)) return [path];
  if (Array.isArray(value)) return value.flatMap((one, at) => misfits(schema.items ?? {}, one, `${path}[${at}]`));
  if (typeof value !== 'object' || value === null) return [];
  const members = value as Record<string, unknown>;
  const missing = (schema.required ?? []).filter((key) => !(key in members)).map((key) => `${path}.${key}`);
  const known = Object.entries(schema.properties ?? {}).filter(([key]) => key in members);
  return [...missing, ...known.flatMap(([key, inner]) => misfits(inner, members[key], `${path}.${key}`))];
}

function schemaOf(tool: ReturnType<typeof bridgeInfoTool>): Schema {
  return tool.definition['outputSchema'] as Schema;
}

describe('cloakbrowser_bridge_info', () => {
  const tool = bridgeInfoTool(() => Promise.resolve({}));
  const loss = { code: 'child_exit', generation: 1, reason: 'crashed', at: '2025-01-01T00:00:00Z' };
  const full: BridgeFacts = {
    ...facts,
    upstream: { ...facts.upstream, coreVersion: '1.2' },
    generation: { number: 2, state: 'ready', pid: 7 },
    lastLoss: loss,
    startFailure: new BridgeError('config', 'bad', { hint: 'mend' }),
  };

  it.each([
    ['nothing has happened yet', facts],
    ['much has happened', full],
    ['a failure has no hint', { ...facts, startFailure: new BridgeError('config', 'bad') }],
  ])('fits its own schema when %s', (_when, some) => {
    expect(misfits(schemaOf(tool), describeBridge(some))).toEqual([]);
  });

  it('tells what is known, in its public form', () => {
    expect(describeBridge(full)).toMatchObject({
      name: 'cloakbrowser-mcp',
      node: '20.19.0',
      upstream: { package: '@playwright/mcp', version: '9', core: '1.2', cliPath: '/cli.js', overridden: true },
      generation: { number: 2, state: 'ready', pid: 7 },
      lastLoss: loss,
      startFailure: { code: 'config', message: 'bad', hint: 'mend' },
      cdp: { enabled: false },
    });
  });

  it('says null for what there is not', () => {
    expect(describeBridge(facts)).toMatchObject({
      upstream: { core: null },
      generation: { pid: null },
      lastLoss: null,
      startFailure: null,
    });
    expect(Object.keys(describeBridge(facts))).not.toContain('nodeVersion');
  });

  it('is a tool that changes nothing', () => {
    expect(tool.definition['annotations']).toMatchObject({ readOnlyHint: true, destructiveHint: false });
  });
});

describe('cloakbrowser_binary_info', () => {
  const tool = binaryInfoTool(() => Promise.resolve({}));
  const known = { platform: 'linux', releaseChannel: 'stable', binaryPath: undefined };

  it.each([
    ['upstream chooses the browser', known, { source: 'upstream', installed: false, path: null }],
    [
      'a path is given',
      { ...known, binaryPath: '/chrome' },
      { source: 'binary-path', installed: true, path: '/chrome' },
    ],
  ])('fits its own schema when %s', (_when, given, expected) => {
    const content = describeBinary(undefined, given);
    expect(misfits(schemaOf(tool), content)).toEqual([]);
    expect(content).toMatchObject({ engine: 'playwright', ...expected });
  });

  it('tells what the browser source knows, with null for a path that is not known', () => {
    expect(describeBinary({ path: undefined, ...{ engine: 'cloak' } }, known)).toEqual({ engine: 'cloak', path: null });
    expect(describeBinary({ path: '/x' }, known)).toEqual({ path: '/x' });
  });
});
