import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { childArguments } from '../../../src/upstream/command-line.ts';
import { ChildPlanner, type Launch, type PlannerSettings } from '../../../src/upstream/planner.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'planner-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function plannerOf(some: Partial<PlannerSettings> = {}): ChildPlanner {
  return new ChildPlanner({
    env: { PATH: '/bin', SECRET: 's', PLAYWRIGHT_MCP_CAPS: 'pdf', PLAYWRIGHT_MCP_HEADLESS: '1' },
    isCaseless: false,
    childEnv: [],
    ownedVariables: ['PLAYWRIGHT_MCP_HEADLESS'],
    passedOn: ['--caps=vision'],
    userConfig: { timeouts: { action: 1 }, browser: { contextOptions: { locale: 'de' } } },
    headless: true,
    isolated: false,
    debugging: false,
    extraArgs: ['--own'],
    ...some,
  });
}

const launch: Launch = {
  executablePath: '/chrome',
  args: ['--fingerprint=1'],
  ignoreDefaultArgs: ['--enable-automation'],
  chromiumSandbox: false,
};

function places(): { folder: string; tempDir: string; cwd: string; userDataDir: string } {
  return { folder, tempDir: '/t', cwd: '/w', userDataDir: '/profile' };
}

/** The configuration that a plan wrote. */
function written(): unknown {
  return JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
}

describe('the arguments of a child', () => {
  it("are the user's own and then the bridge's, which win", () => {
    const args = childArguments({
      passedOn: ['--caps=vision', '--headless'],
      configPath: '/c.json',
      executablePath: '/chrome',
      headless: true,
      sandbox: true,
      isolated: true,
      userDataDir: '/p',
      outputDir: '/o',
    });
    const passed = ['--caps=vision', '--headless'];
    const owned = ['--config', '/c.json', '--executable-path', '/chrome', '--headless', '--sandbox', '--isolated'];
    expect(args).toEqual([...passed, ...owned, '--user-data-dir', '/p', '--output-dir', '/o']);
  });

  it('say nothing of what is left to upstream', () => {
    expect(childArguments({ passedOn: [], configPath: undefined, headless: false, isolated: false })).toEqual([]);
  });

  it('say that there is no sandbox', () => {
    const none = { passedOn: [], configPath: undefined, headless: false, isolated: false, sandbox: false };
    expect(childArguments(none)).toEqual(['--no-sandbox']);
  });
});

describe("the plan of a session's child", () => {
  it('with a launch has its program, arguments, sandbox and proxy', () => {
    const proxy = { server: 'http://p:1' };
    const plan = plannerOf({ outputDir: '/o', sandbox: true }).plan(places(), { ...launch, proxy, env: { KEY: 'k' } });
    expect(plan).toEqual({
      args: [
        ...['--caps=vision', '--config', join(folder, 'config.json'), '--executable-path', '/chrome', '--headless'],
        ...['--no-sandbox', '--user-data-dir', '/profile', '--output-dir', '/o'],
      ],
      env: {
        ...{ PATH: '/bin', PLAYWRIGHT_MCP_CAPS: 'pdf', TMPDIR: '/t', TEMP: '/t', TMP: '/t', KEY: 'k' },
        PWTEST_SERVER_REGISTRY: join(folder, 'b'),
      },
      cwd: '/w',
    });
    expect(written()).toEqual({
      timeouts: { action: 1 },
      browser: {
        browserName: 'chromium',
        contextOptions: { locale: 'de' },
        launchOptions: { headless: true, args: launch.args, ignoreDefaultArgs: launch.ignoreDefaultArgs, proxy },
      },
    });
  });

  it('without a launch leaves the browser to upstream', () => {
    const plan = plannerOf({ binaryPath: '/own-chrome', sandbox: true, proxy: { server: 'http://p' } }).plan(
      places(),
      undefined,
    );
    expect(plan.args).toEqual([
      ...['--caps=vision', '--config', join(folder, 'config.json'), '--executable-path', '/own-chrome', '--headless'],
      ...['--sandbox', '--user-data-dir', '/profile'],
    ]);
    expect(written()).toMatchObject({
      browser: { launchOptions: { headless: true, args: ['--own'], proxy: { server: 'http://p' } } },
    });
    expect(JSON.stringify(written())).not.toContain('browserName');
  });

  it("keeps what upstream notes of its browsers in the generation's own folder", () => {
    expect(plannerOf().plan(places(), undefined).env['PWTEST_SERVER_REGISTRY']).toBe(join(folder, 'b'));
  });

  it('never has credentials of a proxy where other users of the host can read them', () => {
    const proxy = { server: 'http://p', username: 'proxyuser', password: 'proxyword' };
    const { args, env } = plannerOf().plan(places(), { ...launch, proxy });
    expect(JSON.stringify([args, env])).not.toMatch(/proxyuser|proxyword/);
  });
});

describe("the plan of a session's child with managed CDP", () => {
  const debugging = { debugging: true, extraArgs: [] };

  it('has a debugging port that the browser chooses as its last argument, and a start that does not hang', () => {
    const userConfig = { browser: { launchOptions: { args: ['--theirs'] } } };
    plannerOf({ ...debugging, userConfig }).plan(places(), launch);
    expect(written()).toMatchObject({
      browser: {
        launchOptions: { args: ['--theirs', '--fingerprint=1', '--remote-debugging-port=0'], timeout: 30_000 },
      },
    });
  });

  it('has it also where upstream chooses the browser, with a limit of the user that stays', () => {
    const userConfig = { browser: { launchOptions: { timeout: 5 } } };
    plannerOf({ ...debugging, userConfig }).plan(places(), undefined);
    expect(written()).toMatchObject({
      browser: { launchOptions: { args: ['--remote-debugging-port=0'], timeout: 5 } },
    });
  });

  it("never lets upstream's idle timer run, whoever asks for it", () => {
    const env = { PLAYWRIGHT_MCP_IDLE_TIMEOUT: '5' };
    const planned = plannerOf({ ...debugging, env, passedOn: ['--idle-timeout', '5'] }).plan(places(), launch);
    expect(planned.args.slice(0, 4)).toEqual(['--idle-timeout', '5', '--idle-timeout', '0']);
    expect(planned.env).not.toHaveProperty('PLAYWRIGHT_MCP_IDLE_TIMEOUT');
    rmSync(join(folder, 'config.json'));
    expect(plannerOf({ env }).plan(places(), launch).env).toHaveProperty('PLAYWRIGHT_MCP_IDLE_TIMEOUT', '5');
  });

  it.each([
    [{ passedOn: ['--storage-state', 'a.json'] }, 'a.json'],
    [{ passedOn: ['--storage-state=a.json', '--storage-state', 'b.json'] }, 'b.json'],
    [{ env: { PLAYWRIGHT_MCP_STORAGE_STATE: 'c.json' } }, 'c.json'],
    [{ userConfig: { browser: { contextOptions: { storageState: 'd.json' } } } }, 'd.json'],
    [
      { passedOn: ['--storage-state', 'a'], overrides: { contextOptions: {}, storageState: { cookies: [] } } },
      { cookies: [] },
    ],
    [{}, undefined],
  ])('tells the state to begin with of %j', (some, state) => {
    expect(plannerOf({ ...debugging, ...some }).plan(places(), launch).storageState).toEqual(state);
  });
});

describe('the plan of a child that only lists its tools', () => {
  it("has the user's flags and configuration without anything about a browser", () => {
    const plan = plannerOf().planListing(places(), false);
    expect(plan.args).toEqual(['--caps=vision', '--config', join(folder, 'config.json')]);
    expect(plan.env).toMatchObject({ PLAYWRIGHT_MCP_CAPS: 'pdf', TMPDIR: '/t' });
    expect(written()).toEqual({ timeouts: { action: 1 } });
  });

  it("has nothing of the user's when it is plain", () => {
    const plan = plannerOf().planListing(places(), true);
    expect(plan.args).toEqual([]);
    expect(plan.env).toEqual({ PATH: '/bin', TMPDIR: '/t', TEMP: '/t', TMP: '/t' });
    expect(readdirSync(folder)).toEqual([]);
  });

  it('needs no file for an empty configuration', () => {
    expect(plannerOf({ userConfig: { browser: {} } }).planListing(places(), false).args).toEqual(['--caps=vision']);
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('what a tool list depends on', () => {
  it('is flags, environment and configuration, and nothing about a browser or a folder', () => {
    const one = plannerOf().listingKey();
    expect(one).toMatchObject({ args: ['--caps=vision'], config: { timeouts: { action: 1 } } });
    expect(one.env).toMatchObject({ PLAYWRIGHT_MCP_CAPS: 'pdf' });
    const other = plannerOf({ headless: false, isolated: true, extraArgs: [], outputDir: '/o', sandbox: true });
    expect(other.listingKey()).toEqual(one);
  });
});

describe("whether the user has set something of upstream's", () => {
  const none = { passedOn: [], userConfig: {}, env: { PATH: '/bin', PLAYWRIGHT_BROWSERS_PATH: '/b' } };

  it.each([
    ['nothing', none, false],
    ['a flag', { ...none, passedOn: ['--caps=x'] }, true],
    ['a configuration', { ...none, userConfig: { x: 1 } }, true],
    ['a variable', { ...none, env: { PLAYWRIGHT_MCP_CAPS: 'x' } }, true],
  ])('is told for %s', (_what, some, expected) => {
    expect(plannerOf(some).hasSettings()).toBe(expected);
  });
});
