import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { overrideArguments, overrideConfig, overriddenVariables } from '../../../src/upstream/overrides.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'overrides-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const viewport = { width: 800, height: 600 };

describe('the configuration', () => {
  it("has the session's context options over the operator's, and everything else as it was", () => {
    const config = {
      timeouts: { action: 1 },
      browser: { isolated: true, contextOptions: { locale: 'de', timezoneId: 'UTC' } },
    };
    expect(overrideConfig(config, { contextOptions: { locale: 'fr', viewport: null } })).toEqual({
      timeouts: { action: 1 },
      browser: { isolated: true, contextOptions: { locale: 'fr', timezoneId: 'UTC', viewport: null } },
    });
    expect(config.browser.contextOptions).toEqual({ locale: 'de', timezoneId: 'UTC' });
  });

  it('may have had none, and is the same where the session asks for nothing', () => {
    expect(overrideConfig({}, { contextOptions: { locale: 'fr' } })).toEqual({
      browser: { contextOptions: { locale: 'fr' } },
    });
    const config = { browser: {} };
    expect(overrideConfig(config, undefined)).toBe(config);
  });
});

describe('the flags', () => {
  it("have the session's behind the operator's, since the last one counts", () => {
    const passedOn = ['--viewport-size=1x1', '--user-agent', 'old'];
    const args = overrideArguments(passedOn, { contextOptions: { viewport, userAgent: '-new agent' } }, folder);
    expect(args).toEqual([...passedOn, '--viewport-size', '800x600', '--user-agent', '-new agent']);
    expect(passedOn).toHaveLength(3);
  });

  it("are the operator's where the session asks for nothing that has one", () => {
    const passedOn = ['--viewport-size', '1x1'];
    expect(overrideArguments(passedOn, undefined, folder)).toBe(passedOn);
    expect(overrideArguments(passedOn, { contextOptions: { locale: 'fr' } }, folder)).toEqual(passedOn);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('say nothing of a size where the session wants none, in whatever form it was given', () => {
    const passedOn = ['--a', '--viewport-size', '1x1', '--viewport-size=2x2', '--viewport-sizes', '--b'];
    expect(overrideArguments(passedOn, { contextOptions: { viewport: null } }, folder)).toEqual([
      '--a',
      '--viewport-sizes',
      '--b',
    ]);
  });

  it('name a state to begin with in a file that only its owner can read', () => {
    const storageState = { cookies: [{ name: 'a', value: 'secret' }], origins: [] };
    const args = overrideArguments(['--a'], { contextOptions: {}, storageState }, folder);
    const path = join(folder, 'state.json');
    expect(args).toEqual(['--a', '--storage-state', path]);
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(storageState);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.stringify(args)).not.toContain('secret');
  });

  it('never write into a file that is there already', () => {
    const overrides = { contextOptions: {}, storageState: {} };
    overrideArguments([], overrides, folder);
    expect(() => overrideArguments([], overrides, folder)).toThrow(/EEXIST/);
  });
});

describe("the operator's variables", () => {
  it('of a size are left out where the session wants none, since no flag could undo them', () => {
    expect(overriddenVariables({ contextOptions: { viewport: null } })).toEqual(['PLAYWRIGHT_MCP_VIEWPORT_SIZE']);
    for (const overrides of [undefined, { contextOptions: {} }, { contextOptions: { viewport } }])
      expect(overriddenVariables(overrides)).toEqual([]);
  });
});
