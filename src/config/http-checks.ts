import { isLoopbackHost } from '../core/loopback.ts';
import { httpGroup } from './option.ts';
import { Finder, type Findings, type SettingSources } from './findings.ts';
import { type Option, options, type Settings } from './options.ts';

const certificateSettings = ['httpsCert', 'httpsKey', 'httpsPfx', 'httpsPassphrase'] as const;

function checkCertificate(found: Finder, settings: Settings): void {
  const { httpProtocol, httpsCert, httpsKey, httpsPfx } = settings;
  if (httpProtocol === 'http') {
    for (const name of certificateSettings)
      found.refuse(name, 'needs --http-protocol https; plain HTTP would be served');
    return;
  }
  if (httpsPfx !== undefined) {
    for (const name of ['httpsCert', 'httpsKey'] as const)
      found.refuse(name, 'cannot be combined with --https-pfx, which holds certificate and key');
  } else if (httpsCert === undefined && httpsKey === undefined) {
    found.refuse('httpProtocol', 'https needs --https-cert with --https-key, or --https-pfx');
  } else if (httpsKey === undefined) found.refuse('httpsCert', 'needs --https-key beside it');
  else if (httpsCert === undefined) found.refuse('httpsKey', 'needs --https-cert beside it');
}

function checkAccess(found: Finder, settings: Settings): void {
  const { httpHost, httpAuthToken, httpAuthTokenFile, httpAllowUnauthenticated } = settings;
  const hasTokens = httpAuthToken.length > 0 || httpAuthTokenFile !== undefined;
  if (hasTokens && httpAllowUnauthenticated)
    found.warn('httpAllowUnauthenticated', 'has no effect, a token is given and asked for');
  if (hasTokens || httpAllowUnauthenticated || isLoopbackHost(httpHost)) return;
  const text = `${JSON.stringify(httpHost)} can be reached by others, who could then use the browser without a token; give --http-auth-token or --http-auth-token-file, or --http-allow-unauthenticated if that is meant`;
  found.refuse('httpHost', text);
}

function checkProfile(found: Finder, settings: Settings): void {
  const text = 'ignored: over HTTP each session has a temporary profile of its own';
  found.warn('userDataDir', text);
  if (!settings.isolated) found.warn('isolated', text);
}

function checkDrain(found: Finder, { drainDelayMs, drainTimeoutMs }: Settings): void {
  if (drainDelayMs > drainTimeoutMs)
    found.warn('drainDelayMs', `ends after ${String(drainTimeoutMs)} ms already, since --drain-timeout-ms is shorter`);
}

/** What over stdio has no effect, in one warning: somebody probably expects a server that there is not. */
function idleSettings(found: Finder): string[] {
  const idle = options
    .filter(({ group }: Option) => group === httpGroup)
    .flatMap(({ name }) => found.given(name) ?? []);
  const [first, ...others] = idle.map(({ name }) => name);
  if (first === undefined) return [];
  const also = others.length === 0 ? '' : ` (also ${others.join(', ')})`;
  return [`${first}: has no effect over stdio${also}; --transport streamable-http serves HTTP`];
}

/** What concerns the transport: contradictions and open doors over HTTP, settings without effect over stdio. */
export function checkTransport(settings: Settings, sources: SettingSources): Findings {
  const found = new Finder(sources);
  if (settings.transport === 'stdio') return { problems: [], warnings: idleSettings(found) };
  checkCertificate(found, settings);
  checkAccess(found, settings);
  checkProfile(found, settings);
  checkDrain(found, settings);
  return found;
}
