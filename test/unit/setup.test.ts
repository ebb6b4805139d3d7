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

function shown(setup: Setup, name: string): unknown {
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
});
