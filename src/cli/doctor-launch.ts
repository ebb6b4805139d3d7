import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { ParsedFlags } from '../config/layers.ts';
import { timedOut, within } from '../core/deadline.ts';
import { messageOf } from '../core/errors.ts';
import { Scope } from '../core/scope.ts';
import { bridgeArguments, loopbackBypass } from './bridge-arguments.ts';
import { BridgeClient } from './bridge-client.ts';
import type { Check, CheckParts } from './check.ts';
import { type TestPage, serveTestPage } from './test-page.ts';

const name = 'launch';
/** A first start on a slow machine; the doctor must end by itself. */
const launchLimitMs = 60_000;
const title = 'cloakbrowser-mcp doctor';
/** A browser's log can have hundreds of lines; the reason is among the first. */
const keptLines = 8;
const longestLine = 300;
const untelling = [
  /^(#|```)/,
  /^(Browser logs|Call log):$/,
  /^(- )?(\[pid=\d+\] )?<(launch|grace|kill|will)/,
  /^- \[pid=\d+\] (starting|finished|exception)/,
];

const commonMends: readonly (readonly [pattern: RegExp, mend: string])[] = [
  [/exitCode=7[678]/, 'CloakBrowser refused its licence key: check CLOAKBROWSER_LICENSE_KEY and the network.'],
  [/exitCode=79/, 'CloakBrowser cannot write its own folder: check ~/.cloakbrowser and CLOAKBROWSER_CACHE_DIR.'],
  [
    /shared librar|cannot open shared object/i,
    'The system lacks libraries that the browser needs: install them, e.g. by installing the package chromium.',
  ],
  [
    /no usable sandbox|setuid sandbox|running as root without/i,
    'Start with --no-sandbox, and open only pages that you trust.',
  ],
  [
    /xserver|x server|cannot open display|missing.*display/i,
    'Leave --headless at true, or start the server with xvfb-run.',
  ],
  [
    /already in use|singletonlock|profile.*in use/i,
    'Another program uses the profile: close it, use --isolated, or name another folder with --user-data-dir.',
  ],
  [/not found at|is not installed/i, 'Install the browser that is named, or name an existing one with --binary-path.'],
  [/process did exit: exitCode=0/, 'The program ended at once, as no browser does: correct --binary-path.'],
  [/exec format error|ENOEXEC|EACCES/i, 'The file is no program for this machine: correct --binary-path.'],
];
const otherMend = 'Run the server with --log-level debug and DEBUG=pw:browser to see what the browser printed.';
/** What the user's own settings keep from a page, though the browser works. */
const notLetThrough = /ERR_BLOCKED_BY_CLIENT|ERR_PROXY|ERR_TUNNEL|ERR_SOCKS|ERR_INVALID_AUTH_CREDENTIALS/;

/** The lines that tell a reason: Markdown, frames and the steps of Playwright's launch, with all of the flags, do not. */
function tellingLines(text: string): string[] {
  const lines = text.split('\n').map((line) => line.replace(/[═-╬]/g, '').trim().slice(0, longestLine));
  return [...new Set(lines)].filter((line) => line !== '' && !untelling.some((pattern) => pattern.test(line)));
}

function report(text: string): Check {
  const output = tellingLines(text).slice(0, keptLines);
  const reason = (output[0] ?? 'no reason was told').replace(/^Error: (async )?(\w+(\.\w+)?: )?/, '');
  if (notLetThrough.test(text)) {
    const mend = 'Nothing, if the proxy or the allowed origins are meant to keep it out.';
    const message = `the browser started, but its settings kept a page on loopback out: ${reason}`;
    return { name, status: 'warning', message, mend, details: { output } };
  }
  const mend = commonMends.find(([pattern]) => pattern.test(text))?.[1] ?? otherMend;
  return { name, status: 'error', message: `the browser did not load a page: ${reason}`, mend, details: { output } };
}

/** An error answer: upstream writes Markdown, the bridge's own ends with how to mend it. */
function reportAnswer(text: string): Check {
  const lines = text.trim().split('\n');
  const mend = lines.at(-1);
  if (text.startsWith('#') || lines.length < 2 || mend === undefined) return report(text);
  return { name, status: 'error', message: lines.slice(0, -1).join(' '), mend };
}

async function visit(client: BridgeClient, page: TestPage): Promise<Check> {
  const startedAt = performance.now();
  await client.initialize();
  const tools = await client.listTools();
  const { isError, text } = await client.call('browser_navigate', { url: page.url });
  if (isError) return reportAnswer(text);
  if (!text.includes(title)) {
    const visited = page.isVisited() ? 'was fetched' : 'was not even fetched';
    return report(`the title did not come back, and the page ${visited}: ${text}`);
  }
  const durationMs = Math.round(performance.now() - startedAt);
  const message = `${tools.length} tools listed, browser started and a page loaded in ${(durationMs / 1000).toFixed(1)} s`;
  return { name, status: 'ok', message, details: { durationMs, tools: tools.length } };
}

/** The user's own settings, without what would leave something behind or be in the way. */
function launchArguments({ resolved, inspection }: CheckParts, flags: ParsedFlags, outputDir: string): string[] {
  return bridgeArguments(flags, {
    outputDir,
    autoUpdate: 'false',
    hideTools: '[]',
    startTimeoutMs: String(launchLimitMs),
    ...(resolved.sources.logLevel.kind === 'default' ? { logLevel: 'warn' } : {}),
    ...(inspection.settings.userDataDir === undefined ? { isolated: 'true' } : {}),
    // The proxy has a check of its own.
    ...loopbackBypass(inspection.settings),
  });
}

/** Starts the packaged bridge as a client does and lets its browser load a page of our own. Nothing is left behind. */
export async function checkLaunch(parts: CheckParts, flags: ParsedFlags, signal: AbortSignal): Promise<Check> {
  const scope = new Scope();
  try {
    const folder = await mkdtemp(join(parts.host.tempDir, 'cloakbrowser-doctor-'));
    scope.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
    const page = scope.own(
      await serveTestPage(`<!doctype html><title>${title}</title><link rel="icon" href="data:,"><h1>It works</h1>`),
    );
    const args = launchArguments(parts, flags, folder);
    const client = scope.own(new BridgeClient({ args, env: parts.host.env, signal }));
    const check = await within(visit(client, page), launchLimitMs);
    if (check !== timedOut) return check;
    return report(`nothing came back within ${launchLimitMs / 1000} s. ${client.notes.join('\n')}`);
  } catch (failure) {
    if (signal.aborted) return { name, status: 'error', message: 'interrupted', mend: 'Run the doctor again.' };
    return report(messageOf(failure));
  } finally {
    await scope.close();
  }
}

/** Why a launch would prove nothing, or download something; undefined when it is to be tried. */
export function skippedLaunch(checks: readonly Check[], isInstalled: boolean): Check | undefined {
  const mend = 'Mend what is said above, and run the doctor again.';
  const blocking = checks.find(
    (check) => check.status === 'error' && ['settings', 'upstream', 'browser', 'temp-folder'].includes(check.name),
  );
  if (blocking !== undefined) {
    return { name, status: 'warning', message: `not tried because of ${blocking.name}`, mend };
  }
  if (isInstalled) return undefined;
  const message = 'not tried, because the browser is not installed and a doctor downloads nothing';
  return { name, status: 'warning', message, mend: 'Run the doctor again after the first start.' };
}
