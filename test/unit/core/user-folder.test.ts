import { describe, expect, it } from 'vitest';

import { userCacheFolder, userDataFolder } from '../../../src/core/user-folder.ts';

describe("a user's folder", () => {
  it.each([
    ['linux', {}, '/home/u/.cache', '/home/u/.local/share'],
    ['linux', { XDG_CACHE_HOME: '/c', XDG_DATA_HOME: '/d' }, '/c', '/d'],
    ['linux', { XDG_CACHE_HOME: '', XDG_DATA_HOME: 'd' }, '/home/u/.cache', '/home/u/.local/share'],
    ['darwin', { XDG_CACHE_HOME: '/c' }, '/home/u/Library/Caches', '/home/u/Library/Application Support'],
    ['win32', {}, '/home/u/AppData/Local', '/home/u/AppData/Local'],
    ['win32', { LOCALAPPDATA: '/l' }, '/l', '/l'],
  ])('on %s with %j is %s for what can be made again and %s for what is kept', (platform, env, cache, data) => {
    const place = { platform, env, homeDir: '/home/u' };
    expect([userCacheFolder(place), userDataFolder(place)]).toEqual([cache, data]);
  });
});
