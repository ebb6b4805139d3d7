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
    args.push('--storage-state', path);
  }
  return args;
}

/** Variables of the operator that would undo what the session asks for and that no flag can outrank. */
export function overriddenVariables(overrides: Overrides | undefined): readonly string[] {
  return overrides?.contextOptions['viewport'] === null ? [viewportVariable] : [];
}

function withoutViewport(passedOn: readonly string[]): string[] {
  return passedOn.filter(
    (arg, index) => arg !== viewportFlag && !arg.startsWith(`${viewportFlag}=`) && passedOn[index - 1] !== viewportFlag,
  );
}
