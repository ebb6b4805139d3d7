import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

import { type BrowserAddress, findAddress, type ProfilePlace } from '../../src/cdp/port-file.ts';
import { makeMark } from '../../src/cdp/proof.ts';
import { ChildPlanner, registryFolder } from '../../src/upstream/planner.ts';
import { findTestBrowser } from './browser.ts';
import { browserMs, callText, callTool, resultText } from './browser-bed.ts';
import type { LineClient } from './client.ts';
import { descendantsOf } from './processes.ts';
import type { Testbed } from './testbed.ts';
import { waitUntil } from './waiting.ts';

/** A folder of the bridge's choice, upstream's own isolated mode, or upstream's default place. */
export type ProfileKind = 'folder' | 'memory' | 'default';

const cliPath = join(dirname(createRequire(import.meta.url).resolve('@playwright/mcp/package.json')), 'cli.js');
let count = 0;

/** Upstream itself with what the bridge tells it under managed CDP, and without the bridge. */
export class DebuggedUpstream {
  readonly client: LineClient;
  /** Where the bridge would look for its browser. */
  readonly place: ProfilePlace;

  private constructor(client: LineClient, place: ProfilePlace) {
    this.client = client;
    this.place = place;
  }

  /** Starts one; those of one test bed with the same kind of profile share the profile where it lasts. */
  static async start(testbed: Testbed, kind: ProfileKind): Promise<DebuggedUpstream> {
    count += 1;
    const { root, cwd } = testbed.folders;
    const [folder, tempDir] = [join(root, `g${count}`), join(root, `t${count}`)];
    for (const path of [folder, tempDir]) mkdirSync(path, { mode: 0o700 });
    const userDataDir = kind === 'folder' ? join(root, 'profile') : undefined;
    const planner = new ChildPlanner({
      env: testbed.env,
      isCaseless: false,
      childEnv: [],
      ownedVariables: [],
      passedOn: [],
      userConfig: {},
      headless: true,
      sandbox: false,
      isolated: kind === 'memory',
      debugging: true,
      extraArgs: [],
    });
    const launch = { executablePath: findTestBrowser().path, args: [], ignoreDefaultArgs: [], chromiumSandbox: false };
    const planned = planner.plan({ folder, tempDir, cwd, userDataDir }, launch);
    const client = testbed.startProgram({ program: cliPath, args: planned.args, env: planned.env, cwd: planned.cwd });
    await client.initialize();
    const registry = registryFolder(folder);
    return new DebuggedUpstream(client, { userDataDir, tempDir, registry, isIsolated: kind === 'memory' });
  }

  /** Opens a page with a mark over MCP, which starts the browser; returns the mark. */
  async mark(mark = makeMark()): Promise<string> {
    await callText(this.client, 'browser_tabs', { action: 'new', url: mark });
    return mark;
  }

  /** Where its browser listens. */
  address(ms = 5000): Promise<BrowserAddress> {
    return findAddress(this.place, ms, new AbortController().signal);
  }

  /** What upstream lists of its tabs. */
  tabs(): Promise<string> {
    return callText(this.client, 'browser_tabs', { action: 'list' });
  }

  /**
   * Waits until upstream has noticed that a page is gone. Until then its own calls may fail: @playwright/mcp 0.0.83 answers
   * about one in six lists of tabs with "Target page, context or browser has been closed" (measured).
   */
  async forgets(mark: string): Promise<void> {
    await waitUntil(
      'upstream to forget the page',
      async () => {
        const list = await callTool(this.client, 'browser_tabs', { action: 'list' });
        return list['isError'] === true || resultText(list).includes(mark) ? undefined : true;
      },
      browserMs,
    );
  }

  /** The browser's main process. */
  get browserPid(): number {
    const found = descendantsOf(this.client.pid).find(
      ({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='),
    );
    if (found === undefined) throw new Error('There is no browser');
    return found.pid;
  }

  /** Ends it as a client does that goes. */
  async close(): Promise<void> {
    await this.client.close(browserMs);
  }
}
