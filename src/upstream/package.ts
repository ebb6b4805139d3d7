import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { BridgeError } from '../core/errors.ts';

/** Where the official Playwright MCP image keeps its program; used when the package is not installed beside us. */
const imageProgram = '/app/cli.js';

/** The upstream program and what is known of its versions. */
export interface UpstreamPackage {
  readonly name: string;
  readonly version: string;
  readonly cliPath: string;
  /** Version of the playwright-core that the program brings, if it can be found. */
  readonly coreVersion: string | undefined;
  /** True when `--upstream-cli` named the program. */
  readonly isOverridden: boolean;
}

/** What stands for the program while there is none. */
export const missingUpstream: UpstreamPackage = {
  name: '@playwright/mcp',
  version: 'not installed',
  cliPath: '',
  coreVersion: undefined,
  isOverridden: false,
};

interface Manifest {
  readonly name?: string;
  readonly version?: string;
}

function readManifest(path: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Manifest;
  } catch {
    // Absent or unreadable: a program without a manifest is allowed.
    return undefined;
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function describe(cliPath: string, isOverridden: boolean): UpstreamPackage {
  const folder = dirname(cliPath);
  const manifest = readManifest(join(folder, 'package.json'));
  const core =
    readManifest(join(folder, 'node_modules/playwright-core/package.json')) ??
    readManifest(join(folder, '../../playwright-core/package.json'));
  const coreVersion = core?.version;
  return {
    name: manifest?.name ?? cliPath,
    version: manifest?.version ?? 'unknown',
    cliPath,
    coreVersion,
    isOverridden,
  };
}

/**
 * Finds the upstream program: the given path, else the installed package, else the official image's program.
 * `locate` returns the path of the installed `@playwright/mcp/package.json` or throws. Throws `upstream_missing`.
 */
export function findUpstream(override: string | undefined, locate: () => string): UpstreamPackage {
  if (override !== undefined) {
    if (isFile(override)) return describe(override, true);
    throw new BridgeError('upstream_missing', `--upstream-cli: there is no file ${override}.`, {
      hint: 'Give the path of the cli.js of an installed @playwright/mcp, or leave the setting out to use the packaged one.',
    });
  }
  try {
    return describe(join(dirname(locate()), 'cli.js'), false);
  } catch (cause) {
    if (isFile(imageProgram)) return describe(imageProgram, false);
    throw new BridgeError('upstream_missing', 'The package @playwright/mcp is not installed beside cloakbrowser-mcp.', {
      hint: 'Install cloakbrowser-mcp again, or name a cli.js with --upstream-cli.',
      cause,
    });
  }
}
