import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { UpstreamConfig } from './config-file.ts';

/** What one session asks for in place of the operator's choice; already validated. */
export interface Overrides {
  /** Playwright's context options. */
  readonly contextOptions: Readonly<Record<string, unknown>>;
  /** Cookies and local storage to begin with, as Playwright's `storageState` holds them. */
  readonly storageState?: unknown;
}

const stateFlag = '--storage-state';
const viewportFlag = '--viewport-size';
const viewportVariable = 'PLAYWRIGHT_MCP_VIEWPORT_SIZE';

function isSize(value: unknown): value is { readonly width: number; readonly height: number } {
  return typeof value === 'object' && value !== null && 'width' in value && 'height' in value;
}

/** The configuration with the session's context options over the others. */
export function overrideConfig(config: UpstreamConfig, overrides: Overrides | undefined): UpstreamConfig {
  if (overrides === undefined) return config;
  const browser = config['browser'] as Readonly<Record<string, unknown>> | undefined;
  const known = browser?.['contextOptions'] as Readonly<Record<string, unknown>> | undefined;
  return { ...config, browser: { ...browser, contextOptions: { ...known, ...overrides.contextOptions } } };
}

/**
 * The operator's own flags and the session's behind them: where upstream has a flag it ranks above the configuration,
 * the operator's environment variable between the two. A state to begin with goes into a file that only its owner can read.
 */
export function overrideArguments(
  passedOn: readonly string[],
  overrides: Overrides | undefined,
  folder: string,
): readonly string[] {
  if (overrides === undefined) return passedOn;
  const { viewport, userAgent } = overrides.contextOptions;
  const args = viewport === null ? withoutViewport(passedOn) : [...passedOn];
  if (isSize(viewport)) args.push(viewportFlag, `${viewport.width}x${viewport.height}`);
  if (typeof userAgent === 'string') args.push('--user-agent', userAgent);
  if (overrides.storageState !== undefined) {
    const path = join(folder, 'state.json');
    writeFileSync(path, JSON.stringify(overrides.storageState), { mode: 0o600, flag: 'wx' });
    args.push(stateFlag, path);
  }
  return args;
}

/** Variables of the operator that would undo what the session asks for and that no flag can outrank. */
export function overriddenVariables(overrides: Overrides | undefined): readonly string[] {
  return overrides?.contextOptions['viewport'] === null ? [viewportVariable] : [];
}

/** Where a state to begin with may be asked for. */
export interface StateSources {
  readonly passedOn: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly config: UpstreamConfig;
  readonly overrides: Overrides | undefined;
}

/**
 * The state that a browser is to begin with, or the path of its file as upstream reads it: the session's, else by flag,
 * variable or configuration as upstream ranks them.
 */
export function askedStorageState({ passedOn, env, config, overrides }: StateSources): unknown {
  if (overrides?.storageState !== undefined) return overrides.storageState;
  const at = passedOn.findLastIndex((arg) => arg === stateFlag || arg.startsWith(`${stateFlag}=`));
  const given = passedOn[at];
  if (given !== undefined) return given === stateFlag ? passedOn[at + 1] : given.slice(stateFlag.length + 1);
  const variable = env['PLAYWRIGHT_MCP_STORAGE_STATE'];
  if (variable !== undefined && variable !== '') return variable;
  const browser = config['browser'] as Readonly<Record<string, unknown>> | undefined;
  const context = browser?.['contextOptions'] as Readonly<Record<string, unknown>> | undefined;
  return context?.['storageState'];
}

function withoutViewport(passedOn: readonly string[]): string[] {
  return passedOn.filter(
    (arg, index) => arg !== viewportFlag && !arg.startsWith(`${viewportFlag}=`) && passedOn[index - 1] !== viewportFlag,
  );
}
