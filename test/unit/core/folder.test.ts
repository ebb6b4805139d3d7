import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { makeFolder } from '../../../src/core/folder.ts';

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
