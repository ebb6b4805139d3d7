import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** The folders of one test. Everything the bridge makes lies below `root`, so that leftovers can be counted. */
export interface TestFolders {
  readonly root: string;
  readonly home: string;
  readonly cache: string;
  readonly tmp: string;
  readonly cwd: string;
  /** Removes all of it. */
  remove(): Promise<void>;
}

/** Makes the folders of one test. The names are short because a child's TMPDIR may have 62 characters only. */
export async function makeFolders(): Promise<TestFolders> {
  const root = await mkdtemp('/tmp/cbm-');
  const folders = {
    root,
    home: join(root, 'home'),
    cache: join(root, 'cache'),
    tmp: join(root, 'tmp'),
    cwd: join(root, 'cwd'),
  };
  for (const folder of [folders.home, folders.tmp, folders.cwd]) await mkdir(folder);
  return {
    ...folders,
    async remove() {
      await rm(root, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Everything below a folder, as relative names in order; an absent folder has nothing. */
export async function listEntries(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder, { recursive: true })).sort();
  } catch (failure) {
    if (failure instanceof Error && 'code' in failure && failure.code === 'ENOENT') return [];
    throw failure;
  }
}
