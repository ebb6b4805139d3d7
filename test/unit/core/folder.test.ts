import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { isWritableFolder, makeFolder } from '../../../src/core/folder.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'folder-'));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

describe('makeFolder', () => {
  it('makes a private folder and those above it', () => {
    makeFolder(join(root, 'a/b/c'));
    expect(['a', 'a/b', 'a/b/c'].map((path) => statSync(join(root, path)).mode & 0o777)).toEqual([0o700, 0o700, 0o700]);
  });

  it('leaves one that is there as it is', () => {
    mkdirSync(join(root, 'a'), { mode: 0o755 });
    makeFolder(join(root, 'a'));
    expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o755);
  });

  it.each(['file', 'file/below', 'file/far/below'])('fails where a file is in the way: %s', (path) => {
    writeFileSync(join(root, 'file'), '');
    expect(() => {
      makeFolder(join(root, path));
    }).toThrow(/EEXIST|ENOTDIR/);
  });

  it.runIf(existsSync('/proc/self'))('fails where the system makes no folders, and does not try for ever', () => {
    expect(() => {
      makeFolder('/proc/none/a/b');
    }).toThrow('ENOENT');
  });
});

describe('isWritableFolder', () => {
  it.each(['linux', 'win32'])('on %s is true of a folder that takes files, and leaves nothing in it', (platform) => {
    expect(isWritableFolder(root, platform)).toBe(true);
    expect(readdirSync(root)).toEqual([]);
  });

  it.each(['linux', 'win32'])('on %s is false of a file, of what lies below one, and of nothing', (platform) => {
    writeFileSync(join(root, 'file'), '');
    const paths = [join(root, 'file'), join(root, 'file/below'), join(root, 'absent')];
    expect(paths.map((path) => isWritableFolder(path, platform))).toEqual([false, false, false]);
  });

  it.runIf(process.platform === 'linux')('on Windows is found out by a try, whatever the permissions say', () => {
    // A path of 4095 bytes is the longest that Linux takes: this folder may be written, but no file in it can be named.
    let path = root;
    while (path.length < 4085) path = join(path, 'x'.repeat(Math.min(200, 4085 - path.length)));
    makeFolder(path);
    expect([isWritableFolder(path, 'linux'), isWritableFolder(path, 'win32')]).toEqual([true, false]);
  });
});
