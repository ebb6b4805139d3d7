import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';

import type { ParsedFlags } from '../config/layers.ts';
import type { Resolved } from '../config/resolve.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import { Scope } from '../core/scope.ts';
import { bridgeVersion } from '../core/version.ts';
import { Inspection } from '../inspection.ts';
import { bridgeArguments, loopbackBypass } from './bridge-arguments.ts';
import { BridgeClient, type Json, type ToolAnswer } from './bridge-client.ts';
import { type BrowserSearch, type DemoBrowser, NoBrowserError, chooseBrowser } from './demo-browser.ts';
import { demoPage } from './demo-page.ts';
import { currentHost } from './host.ts';
import { printText } from './print.ts';
import { runStoppable } from './stoppable.ts';
import { serveTestPage } from './test-page.ts';

/** A page of the web can have thousands of lines; the first ones show what a model gets. */
const shownLines = 40;
const doctorHint = '`cloakbrowser-mcp doctor` with the same settings checks each part.';

interface Demo extends BrowserSearch {
  readonly flags: ParsedFlags;
  /** The page to open instead of the demo's own. */
  readonly url: string | undefined;
}

/** Runs one call and throws what it answers when that is an error. */
async function call(client: BridgeClient, tool: string, args: Json = {}): Promise<ToolAnswer> {
  const answer = await client.call(tool, args);
  if (!answer.isError) return answer;
  const text = answer.text.replace(/^#.*\n|^Error: /gm, '').trim();
  const hint = text.includes('net::ERR_') ? 'Check the address and the network.' : doctorHint;
  throw new BridgeError('internal', `${tool} was answered with an error: ${text}`, { hint });
}

function bridgeFlags({ flags, resolved, inspection, url }: Demo, browser: DemoBrowser): string[] {
  const { settings } = inspection;
  const isFree = resolved.sources.isolated.kind === 'default' && settings.userDataDir === undefined;
  return bridgeArguments(flags, {
    ...(browser.binaryPath === undefined ? {} : { binaryPath: browser.binaryPath }),
    ...(isFree ? { isolated: 'true' } : {}),
    ...(resolved.sources.logLevel.kind === 'default' ? { logLevel: 'warn' } : {}),
    ...(url === undefined ? loopbackBypass(settings) : {}),
  });
}

function startBridge(demo: Demo, browser: DemoBrowser): BridgeClient {
  const onNote = (line: string): void => {
    // What is for people; a log line is shown only if something fails.
    if (!line.startsWith('{')) demo.tell(line);
  };
  const args = bridgeFlags(demo, browser);
  return new BridgeClient({ args, env: demo.host.env, signal: demo.signal, onNote });
}

async function openPage(demo: Demo): Promise<string> {
  if (demo.url !== undefined) return demo.url;
  return demo.scope.own(await serveTestPage(demoPage)).url;
}

/** Where the screenshot is, by the link in the answer, which starts at the bridge's working folder. */
async function findScreenshot(client: BridgeClient, { text }: ToolAnswer): Promise<string> {
  const link = /\]\(([^)\n]+\.(?:png|jpe?g|webp))\)/.exec(text)?.[1];
  if (link === undefined) throw new BridgeError('internal', `The answer names no file: ${text}`, { hint: doctorHint });
  const { structured } = await call(client, 'cloakbrowser_bridge_info');
  const { workingFolder } = structured['session'] as { workingFolder: string };
  const path = resolve(workingFolder, link);
  const { size } = await stat(path).catch((cause: unknown) => {
    throw new BridgeError('folder_unwritable', `The screenshot is not at ${path}: ${messageOf(cause)}`, { cause });
  });
  return `${path} (${(size / 1000).toFixed(1)} kB)`;
}

function cutSnapshot(text: string): string {
  const snapshot = /```yaml\n([\s\S]*?)\n?```/.exec(text)?.[1] ?? text;
  const lines = snapshot.split('\n');
  const rest = lines.length > shownLines ? [`... ${lines.length - shownLines} more lines`] : [];
  return [...lines.slice(0, shownLines), ...rest].map((line) => `  ${line}`).join('\n');
}

async function show(demo: Demo): Promise<void> {
  const print = (text: string): Promise<void> => printText(demo.inspection.redactor.clean(text));
  await print(`cloakbrowser-mcp ${bridgeVersion} demo`);
  const browser = await chooseBrowser(demo);
  await print(`Browser: ${browser.label}\n`);
  const url = await openPage(demo);
  const startedAt = performance.now();
  const mark = (text: string): Promise<void> =>
    print(`${((performance.now() - startedAt) / 1000).toFixed(2).padStart(7)} s  ${text}`);
  const client = demo.scope.own(startBridge(demo, browser));
  const { serverInfo } = await client.initialize();
  const { name, version } = serverInfo as { name: string; version: string };
  await mark(`initialize answered by ${name} ${version}`);
  const tools = await client.listTools();
  const local = tools.filter((tool) => tool.startsWith('cloakbrowser_')).length;
  await mark(`${tools.length} tools listed: ${tools.length - local} of Playwright MCP, ${local} of the bridge`);
  await call(client, 'browser_navigate', { url: 'about:blank' });
  await mark('browser ready');
  const page = await call(client, 'browser_navigate', { url });
  await mark(`page loaded: ${/Page Title: (.*)/.exec(page.text)?.[1] ?? 'without a title'}, ${url}`);
  const snapshot = await call(client, 'browser_snapshot');
  await mark('snapshot taken');
  const screenshot = await findScreenshot(client, await call(client, 'browser_take_screenshot'));
  await mark('screenshot taken');
  await print(`\nWhat a model sees of the page:\n${cutSnapshot(snapshot.text)}\n\nScreenshot: ${screenshot}`);
}

function explain(failure: unknown): string {
  const hint = failure instanceof BridgeError || failure instanceof NoBrowserError ? failure.hint : undefined;
  return `The demo failed. ${messageOf(failure)}\n${hint ?? doctorHint}`;
}

/** Shows the main job: starts the bridge as a client does, opens a page, prints what came back when. Returns the exit code. */
export function demo(resolved: Resolved, flags: ParsedFlags, url: string | undefined): Promise<number> {
  const host = currentHost();
  const inspection = new Inspection(resolved, host);
  const tell = (text: string): void => {
    process.stderr.write(`${inspection.redactor.clean(text)}\n`);
  };
  return runStoppable(async (signal) => {
    const scope = new Scope();
    try {
      await show({ resolved, inspection, host, signal, scope, tell, flags, url });
      await scope.close();
      await printText('All that the demo started has ended.');
      return 0;
    } catch (failure) {
      tell(signal.aborted ? 'The demo was interrupted.' : explain(failure));
      return 1;
    } finally {
      await scope.close();
    }
  });
}
