import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { parseCommandLine } from '../../src/cli/command.ts';
import { describeSettings, resolveSettings } from '../../src/config/resolve.ts';
import type { Host } from '../../src/core/host.ts';
import { Redactor } from '../../src/core/redact.ts';
import { type Setup, prepareSetup } from '../../src/setup.ts';

let folder: string;
let redactor: Redactor;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'setup-test-'));
  redactor = new Redactor();
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** The setup of a bridge with these flags, whose user has this upstream configuration. */
function setUp(config: unknown, flags: readonly string[] = [], env: Record<string, string> = {}): Setup {
  const path = join(folder, 'upstream.json');
  writeFileSync(path, typeof config === 'string' ? config : JSON.stringify(config));
  const parsed = parseCommandLine(['--config', path, ...flags]);
  const resolved = resolveSettings({ flags: parsed.flags, env, cwd: folder, readFile: () => '' });
  const host = { env, platform: 'linux' } as unknown as Host;
  const locateUpstream = (): string => join(folder, 'package.json');
  return prepareSetup({ resolved, host, redactor, locateUpstream });
}

function shown(setup: Setup, name: string): [unknown, unknown] {
  const { value, source } = describeSettings(setup).find((setting) => setting.name === name) ?? {};
  return [value, source];
}

describe("the user's own upstream configuration", () => {
  const file = { browser: { isolated: true, launchOptions: { headless: false } } };

  it('decides where no setting of the bridge was given, and is told as the source', () => {
    const setup = setUp(file);
    expect(setup.settings).toMatchObject({ isolated: true, headless: false });
    expect(shown(setup, 'headless')).toEqual([false, `file ${join(folder, 'upstream.json')}`]);
    expect(shown(setup, 'closeGraceMs')).toEqual([5000, 'default']);
  });

  it('gives way to what was given', () => {
    const setup = setUp(file, ['--no-isolated', '--headless']);
    expect(setup.settings).toMatchObject({ isolated: false, headless: true });
    expect(shown(setup, 'isolated')).toEqual([false, '--no-isolated']);
  });

  it('does not isolate a profile folder that was given, and names no folder for an isolated browser', () => {
    expect(setUp(file, ['--user-data-dir', '/p']).settings).toMatchObject({ isolated: false, userDataDir: '/p' });
    const { settings } = setUp({ browser: { userDataDir: '/q' } }, ['--isolated']);
    expect([settings.isolated, settings.userDataDir]).toEqual([true, undefined]);
    expect(setUp({ browser: { userDataDir: '/q' } }).settings).toMatchObject({ isolated: false, userDataDir: '/q' });
  });

  it('has its passwords masked', () => {
    setUp({ browser: { launchOptions: { proxy: { server: 'http://h', password: 'pass-in-file' } } } });
    expect(redactor.clean('with pass-in-file')).toBe('with [redacted]');
  });

  it('that is broken is told by the first call, beside every other problem', () => {
    const { error, settings } = setUp('{', [], { CLOAK_PLAYWRIGHT_MCP_RESTART_MAX: 'x' });
    expect(error).toMatchObject({ code: 'config', message: expect.stringContaining('is not valid JSON') });
    expect(error?.message).toContain('CLOAK_PLAYWRIGHT_MCP_RESTART_MAX');
    expect(settings.restartMax).toBe(5);
  });
});

describe('the profile of a session over HTTP', () => {
  const http = ['--transport', 'streamable-http'];

  it('is always its own, whatever flags, variables and configuration say, and nothing is said to be their choice', () => {
    for (const setup of [
      setUp({}, http),
      setUp({}, [...http, '--no-isolated']),
      setUp({}, [...http, '--user-data-dir', '/p']),
      setUp({ browser: { isolated: false, userDataDir: '/q' } }, http),
      setUp({}, http, { PLAYWRIGHT_MCP_USER_DATA_DIR: '/r', PLAYWRIGHT_MCP_ISOLATED: 'false' }),
    ]) {
      expect([setup.settings.isolated, setup.settings.userDataDir]).toEqual([true, undefined]);
      expect([shown(setup, 'isolated')[1], shown(setup, 'userDataDir')[1]]).toEqual(['default', 'default']);
      const generation = mkdtempSync(join(folder, 'generation-'));
      const plan = setup.planner.plan(
        { folder: generation, tempDir: '/t', cwd: '/w', userDataDir: undefined },
        undefined,
      );
      expect(plan.args).toContain('--isolated');
    }
  });

  it('is the only setting that is decided so', () => {
    const setup = setUp({ browser: { launchOptions: { headless: false } } }, [...http, '--close-grace-ms', '7000']);
    expect(setup.settings).toMatchObject({ headless: false, closeGraceMs: 7000, transport: 'streamable-http' });
    expect(setUp({}, ['--user-data-dir', '/p']).settings).toMatchObject({ isolated: false, userDataDir: '/p' });
  });
});

describe('secrets', () => {
  it('are the values of variables that look like them, and the password of the proxy as written and as meant', () => {
    setUp({}, ['--proxy-server', 'http://someone:pass%21word@h:1'], {
      GITHUB_TOKEN: 'token-value',
      HOME: '/home/someone',
    });
    expect(redactor.clean('token-value pass%21word pass!word /home/someone')).toBe(
      '[redacted] [redacted] [redacted] /home/someone',
    );
  });

  it('are each token and the passphrase of the HTTP server', () => {
    setUp({}, ['--http-auth-token', 'first-token-of-all,second-token-here'], {
      CLOAK_PLAYWRIGHT_MCP_HTTPS_PASSPHRASE: 'open sesame',
    });
    expect(redactor.clean('second-token-here, first-token-of-all, open sesame')).toBe(
      '[redacted], [redacted], [redacted]',
    );
  });
});
