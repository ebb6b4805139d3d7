import { existsSync } from 'node:fs';
import { connect } from 'node:net';

import type { BrowserFinding } from '../inspection.ts';
import { type Check, type CheckParts, failedCheck } from './check.ts';
import { isInRange } from './node-range.ts';

/** A proxy that answers later than this is no use to a browser either. */
const connectLimitMs = 3000;

/** Node against the range that package.json asks for. */
export function checkNode(version: string, range: string): Check {
  const name = 'node';
  const details = { version, range };
  try {
    if (isInRange(version, range)) {
      return { name, status: 'ok', message: `Node ${version} is in the range ${range}`, details };
    }
  } catch (cause) {
    return { ...failedCheck(name, cause, 'Install cloakbrowser-mcp again: its package.json is damaged.'), details };
  }
  const mend = `Install a Node in the range ${range}, or name its full path as the command in the client's configuration.`;
  return { name, status: 'error', message: `Node ${version} is not in the range ${range}`, mend, details };
}

/** Every problem and warning of the settings, or one line that says there is none. */
export function checkSettings({ resolved, inspection }: CheckParts): Check[] {
  const name = 'settings';
  const mend =
    'Correct or remove it; until then browser calls are refused. `cloakbrowser-mcp --help` lists all settings.';
  const found: Check[] = resolved.problems.map(({ message }) => ({ name, status: 'error', message, mend }));
  if (inspection.configError !== undefined) found.push(failedCheck(name, inspection.configError, mend));
  for (const message of resolved.warnings) {
    found.push({ name, status: 'warning', message, mend: 'Correct or remove it; it has no effect.' });
  }
  if (found.length > 0) return found;
  const given = Object.values(resolved.sources).filter(({ kind }) => kind !== 'default').length;
  return [{ name, status: 'ok', message: `all valid; ${given} set by flag, environment or file` }];
}

/** The upstream program. */
export function checkUpstream({ inspection }: CheckParts): Check {
  const name = 'upstream';
  try {
    const { cliPath, coreVersion, isOverridden, ...upstream } = inspection.upstream();
    const core = coreVersion === undefined ? '' : `, playwright-core ${coreVersion}`;
    const how = isOverridden ? ', chosen by --upstream-cli' : '';
    return {
      name,
      status: 'ok',
      message: `${upstream.name} ${upstream.version}${core}, at ${cliPath}${how}`,
      details: { package: upstream.name, version: upstream.version, core: coreVersion ?? null, cliPath, isOverridden },
    };
  } catch (failure) {
    return failedCheck(name, failure);
  }
}

/** The browser program; a CloakBrowser that is still to be downloaded is a warning. */
export function checkBrowser({ inspection }: CheckParts, { info, error }: BrowserFinding): Check {
  const name = 'browser';
  const details = info === undefined ? {} : { details: { ...info } };
  if (error !== undefined) return { ...failedCheck(name, error), ...details };
  if (info === undefined) {
    const path = inspection.settings.binaryPath;
    const choice = path === undefined ? 'upstream chooses its browser' : `upstream runs ${path}`;
    return { name, status: 'ok', message: `${choice} (--browser-engine playwright)` };
  }
  const path = info.path ?? '';
  if (info.source === 'binary-path') {
    return { name, status: 'ok', message: `${path} is there and executable`, ...details };
  }
  const build = `CloakBrowser ${info.version} (${info.tier}, ${info.platform})`;
  if (info.installed) return { name, status: 'ok', message: `${build} is installed at ${path}`, ...details };
  return {
    name,
    status: 'warning',
    message: `${build} is not installed; it will be downloaded at the first start`,
    mend: 'Start the server once with network access, or name another browser with --binary-path.',
    ...details,
  };
}

/** Whether there is a licence key; it is never shown. */
export async function checkLicence({ inspection }: CheckParts): Promise<Check> {
  const source = await inspection.licence();
  const message =
    source === undefined ? 'no key, which the free CloakBrowser does not need' : `a key is set by ${source}`;
  return { name: 'licence', status: 'ok', message };
}

/** Chromium's sandbox, as it will be used. */
export async function checkSandbox({ inspection }: CheckParts, { info, error }: BrowserFinding): Promise<Check> {
  const name = 'sandbox';
  if (info === undefined) {
    const chosen = inspection.settings.sandbox;
    const message = chosen === undefined ? 'left to upstream' : `${chosen ? 'on' : 'off'}, so the settings say`;
    return { name, status: 'ok', message };
  }
  if (error !== undefined || info.path === undefined)
    return { name, status: 'ok', message: 'not decided without a browser' };
  const { enabled, reason } = await inspection.sandbox(info.path);
  const message = `${enabled ? 'on' : 'off'}${reason === undefined ? '' : `: ${reason}`}`;
  if (enabled || inspection.settings.sandbox === false) return { name, status: 'ok', message };
  const mend =
    'Run the server as an ordinary user on a system with user namespaces; otherwise open only pages that you trust.';
  return { name, status: 'warning', message, mend };
}

/** The display that a browser with a window needs. */
export function checkDisplay({ inspection, host }: CheckParts): Check {
  const name = 'display';
  if (inspection.settings.headless) return { name, status: 'ok', message: 'none needed (headless)' };
  if (host.platform !== 'linux') return { name, status: 'ok', message: "the desktop's" };
  const wayland = host.env['WAYLAND_DISPLAY'] ?? '';
  if (wayland !== '') return { name, status: 'ok', message: `WAYLAND_DISPLAY is ${wayland}` };
  const display = host.env['DISPLAY'] ?? '';
  const mend = 'Leave --headless at true, or start the server inside a desktop session or with xvfb-run.';
  if (display === '') {
    const message = 'the browser is to have a window, but neither DISPLAY nor WAYLAND_DISPLAY is set';
    return { name, status: 'error', message, mend };
  }
  const number = /^(?:unix)?:(\d+)/.exec(display)?.[1];
  if (number === undefined || existsSync(`/tmp/.X11-unix/X${number}`)) {
    return { name, status: 'ok', message: `DISPLAY is ${display}` };
  }
  const message = `DISPLAY is ${display}, but there is no socket /tmp/.X11-unix/X${number}`;
  return { name, status: 'warning', message, mend };
}

/** The proxy of the browser: shown without credentials, and connected to. */
export async function checkProxy({ inspection, resolved, host }: CheckParts): Promise<Check> {
  const name = 'proxy';
  const proxy = inspection.proxy();
  const named = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].filter((key) =>
    [key, key.toLowerCase()].some((variable) => (host.env[variable] ?? '') !== ''),
  );
  const also = named.length === 0 ? '' : `; ${named.join(', ')} set, which a browser without --proxy-server may use`;
  if (proxy === undefined) return { name, status: 'ok', message: `none set${also}` };
  const shown = `${proxy.scheme}://${proxy.host}:${proxy.port}`;
  const failure = await tryConnection(proxy.host, proxy.port);
  if (failure === undefined) return { name, status: 'ok', message: `${shown} accepts connections` };
  return {
    name,
    status: 'error',
    message: `${shown} cannot be reached: ${failure}`,
    mend: `Start the proxy, or correct what sets it: ${resolved.sources.proxyServer.name}.`,
  };
}

/** Undefined when the port accepted a connection, otherwise why not. */
function tryConnection(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: connectLimitMs });
    const finish = (reason: string | undefined): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => {
      finish(undefined);
    });
    socket.once('timeout', () => {
      finish(`no answer within ${connectLimitMs / 1000} s`);
    });
    socket.once('error', (failure) => {
      finish(describeConnectError(failure));
    });
  });
}

function describeConnectError(failure: Error): string {
  // Node tries every address of a name and joins the failures under an empty message.
  const first: unknown = failure instanceof AggregateError ? failure.errors[0] : failure;
  return first instanceof Error ? first.message : String(first);
}
