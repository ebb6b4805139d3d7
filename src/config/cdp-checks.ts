import { debuggingConflict } from '../core/debugging-arguments.ts';
import { isLoopbackHost } from '../core/loopback.ts';
import { Finder, type Findings, type SettingSources } from './findings.ts';
import { cdpGroup } from './option.ts';
import { options, type SettingName, type Settings } from './options.ts';
import type { Environment } from './layers.ts';

/** What of upstream's own settings matters to managed CDP. */
export interface UpstreamGiven {
  readonly env: Environment;
  /** Upstream's flags that are passed on. */
  readonly passed: readonly string[];
}

/** True when a session has managed CDP, or may switch it on. */
export function mayHaveCdp({ cdp, transport, sessionSettings }: Settings): boolean {
  return cdp || (transport !== 'stdio' && sessionSettings.includes('cdp'));
}

function checkArguments(found: Finder, { extraArgs }: Settings): void {
  const name = debuggingConflict(extraArgs);
  if (name !== undefined)
    found.refuse('extraArgs', `${name} cannot be combined with --cdp, which decides it; remove the argument`);
}

function checkBrowser(found: Finder, { browserEngine }: Settings, { env, passed }: UpstreamGiven): void {
  if (browserEngine !== 'playwright') return;
  const at = passed.lastIndexOf('--browser');
  const joined = passed.findLast((arg) => arg.startsWith('--browser='))?.slice('--browser='.length);
  const browser = (at < 0 ? joined : passed[at + 1]) ?? env['PLAYWRIGHT_MCP_BROWSER'];
  if (browser === 'firefox' || browser === 'webkit')
    found.refuse('cdp', `${browser} has no CDP; choose a Chromium by --browser, or leave --cdp away`);
}

function checkReach(found: Finder, settings: Settings): void {
  const { transport, cdpPortRange, cdpHost, httpHost, cdpAllowRemote, cdpAdvertisedHost } = settings;
  const isShared = transport !== 'stdio' && cdpPortRange === undefined;
  const name: SettingName = isShared ? 'httpHost' : 'cdpHost';
  const host = isShared ? httpHost : cdpHost;
  if (isLoopbackHost(host)) return;
  const shown = JSON.stringify(host);
  if (!cdpAllowRemote)
    found.refuse(
      name,
      `others can reach ${shown}, and with it the browser of --cdp by its address alone; give --cdp-allow-remote if that is meant`,
    );
  else if (cdpAdvertisedHost === undefined)
    found.refuse(name, `with ${shown} --cdp needs --cdp-advertised-host: the host that clients reach it by`);
}

function checkIdle(found: Finder, { env, passed }: UpstreamGiven): void {
  const text =
    'has no effect with --cdp: upstream would not see that CDP clients use the browser; --cdp-idle-ttl-ms does';
  if ((env['PLAYWRIGHT_MCP_IDLE_TIMEOUT'] ?? '') !== '') found.warnings.push(`PLAYWRIGHT_MCP_IDLE_TIMEOUT: ${text}`);
  if (passed.some((arg) => /^--idle-timeout(?:=|$)/.test(arg))) found.warnings.push(`--idle-timeout: ${text}`);
}

/** What is given for managed CDP while there is none. */
function checkUnused(found: Finder): void {
  const unused = options
    .filter(({ group, name }) => group === cdpGroup && name !== 'cdp')
    .flatMap(({ name }) => found.given(name)?.name ?? []);
  const [first, ...others] = unused;
  if (first === undefined) return;
  const also = others.length === 0 ? '' : ` (also ${others.join(', ')})`;
  found.warnings.push(`${first}: has no effect without --cdp${also}`);
}

/** What contradicts managed CDP, and doors that would be open to others without anybody having said so. */
export function checkCdp(settings: Settings, sources: SettingSources, upstream: UpstreamGiven): Findings {
  const found = new Finder(sources);
  if (!mayHaveCdp(settings)) {
    checkUnused(found);
    return found;
  }
  checkArguments(found, settings);
  checkBrowser(found, settings, upstream);
  checkReach(found, settings);
  checkIdle(found, upstream);
  return found;
}
