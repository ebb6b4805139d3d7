import type { BridgeError } from '../core/errors.ts';

/** What `cloakbrowser_bridge_info` tells, before it is put into its public form. */
export interface BridgeFacts {
  readonly version: string;
  readonly transport: string;
  readonly nodeVersion: string;
  readonly upstream: {
    readonly name: string;
    readonly version: string;
    readonly coreVersion: string | undefined;
    readonly cliPath: string;
    readonly isOverridden: boolean;
  };
  readonly tools: { readonly upstream: number; readonly local: number; readonly hidden: number };
  readonly localTools: readonly string[];
  readonly session: {
    readonly state: string;
    readonly uptimeMs: number;
    readonly forwardedCalls: number;
    readonly workingFolder: string;
    readonly profile: string;
  };
  /** The session's place on an HTTP server; undefined over stdio. */
  readonly http: Readonly<Record<string, unknown>> | undefined;
  readonly generation: { readonly number: number; readonly state: string; readonly pid: number | undefined };
  readonly lastLoss:
    { readonly generation: number; readonly code: string; readonly reason: string; readonly at: string } | undefined;
  readonly startFailure: BridgeError | undefined;
  readonly sandbox: string;
  readonly settings: readonly unknown[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** The structured content of `cloakbrowser_bridge_info`. */
export function describeBridge(facts: BridgeFacts): Readonly<Record<string, unknown>> {
  const { upstream, startFailure, nodeVersion, ...same } = facts;
  return {
    name: 'cloakbrowser-mcp',
    title: 'CloakBrowser MCP',
    ...same,
    node: nodeVersion,
    upstream: {
      package: upstream.name,
      version: upstream.version,
      core: upstream.coreVersion ?? null,
      cliPath: upstream.cliPath,
      overridden: upstream.isOverridden,
    },
    http: facts.http ?? null,
    generation: { ...facts.generation, pid: facts.generation.pid ?? null },
    lastLoss: facts.lastLoss ?? null,
    startFailure:
      startFailure === undefined
        ? null
        : { code: startFailure.code, message: startFailure.message, hint: startFailure.hint ?? null },
    // Of a session that has it, its own description stands here.
    cdp: { enabled: false },
  };
}

/** The structured content of `cloakbrowser_binary_info`; `info` is undefined where upstream chooses the browser. */
export function describeBinary(
  info: { readonly path: string | undefined } | undefined,
  known: { readonly platform: string; readonly releaseChannel: string; readonly binaryPath: string | undefined },
): Readonly<Record<string, unknown>> {
  if (info !== undefined) return { ...info, path: info.path ?? null };
  const { platform, releaseChannel, binaryPath } = known;
  return {
    engine: 'playwright',
    wrapperVersion: null,
    platform,
    tier: null,
    version: null,
    path: binaryPath ?? null,
    installed: binaryPath !== undefined,
    source: binaryPath === undefined ? 'upstream' : 'binary-path',
    releaseChannel,
    updatePolicy: 'off',
    cacheDir: null,
    download: { state: 'idle' },
  };
}
