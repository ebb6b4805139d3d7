import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resolveProfile, upstreamProfiles } from '../../../src/browser/profile.ts';
import type { ProfileInput } from '../../../src/browser/profile.ts';

let folder: string;
let input: ProfileInput;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'profile-'));
  input = { isolated: false, env: {}, platform: 'linux', home: join(folder, 'home'), sessionFolder: join(folder, 's') };
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

describe('resolveProfile', () => {
  it('leaves the choice to upstream where its own folder can be made', () => {
    expect(resolveProfile(input)).toEqual({});
    expect(existsSync(join(folder, 'home/.cache/ms-playwright-mcp'))).toBe(true);
  });

  it('makes nothing for an isolated browser', () => {
    expect(resolveProfile({ ...input, isolated: true })).toEqual({});
    expect(existsSync(join(folder, 'home'))).toBe(false);
  });

  it.each(['/proc/no-home', 'file/home'])('takes a temporary folder and says so for a home at %s', async (home) => {
    writeFileSync(join(folder, 'file'), '');
    const unwritable = home.startsWith('/') ? home : join(folder, home);
    const profile = resolveProfile({ ...input, home: unwritable });
    expect(profile.userDataDir).toBe(join(folder, 's/profile'));
    expect(existsSync(join(folder, 's/profile'))).toBe(true);
    expect(profile.note).toMatch(/cannot be written.*temporary.*--user-data-dir/);
    expect(profile.note).toContain(unwritable);
  });

  it('makes the folder that the user names', () => {
    const userDataDir = join(folder, 'a/b');
    expect(resolveProfile({ ...input, userDataDir })).toEqual({ userDataDir });
    expect(existsSync(userDataDir)).toBe(true);
    expect(resolveProfile({ ...input, userDataDir })).toEqual({ userDataDir });
  });

  it('refuses one that cannot be used, naming the setting', () => {
    writeFileSync(join(folder, 'file'), '');
    for (const userDataDir of [join(folder, 'file'), join(folder, 'file/below'), '/proc/no-profile']) {
      expect(() => resolveProfile({ ...input, userDataDir })).toThrowError(
        expect.objectContaining({
          code: 'folder_unwritable',
          message: expect.stringContaining(userDataDir),
          hint: expect.stringContaining('--user-data-dir'),
        }),
      );
    }
  });
});

describe('upstreamProfiles', () => {
  it.each([
    ['linux', {}, '/h/.cache/ms-playwright-mcp'],
    ['linux', { XDG_CACHE_HOME: '/x' }, '/x/ms-playwright-mcp'],
    ['linux', { XDG_CACHE_HOME: '' }, '/h/.cache/ms-playwright-mcp'],
    ['darwin', { XDG_CACHE_HOME: '/x' }, '/h/Library/Caches/ms-playwright-mcp'],
    ['win32', { LOCALAPPDATA: '/l' }, '/l/ms-playwright-mcp'],
    ['win32', {}, '/h/AppData/Local/ms-playwright-mcp'],
  ])('on %s with %o is %s', (platform, env, path) => {
    expect(upstreamProfiles({ platform, env, home: '/h' })).toBe(path);
  });
});
