import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { explainBinaryPath } from './binary-failure.ts';

/** True for a file that may be executed. */
export async function isExecutableFile(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false; // Missing, or not for this user.
  }
}

/** Throws what is wrong with a browser path of the user; nothing is run. */
export async function checkBinaryPath(path: string): Promise<void> {
  const facts = await stat(path).catch(() => undefined);
  if (facts === undefined) throw explainBinaryPath(path, 'there is no such file');
  if (facts.isDirectory()) throw explainBinaryPath(path, 'it is a folder, not the browser program inside it');
  if (!(await isExecutableFile(path))) throw explainBinaryPath(path, 'it is not executable for this user');
}
