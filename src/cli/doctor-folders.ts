import { constants } from 'node:fs';
import { access, mkdtemp, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { dirname, join, parse } from 'node:path';

import { messageOf } from '../core/errors.ts';
import type { BrowserFinding } from '../inspection.ts';
import type { Check, CheckParts, CheckStatus } from './check.ts';

/** An archive of about 200 MB is unpacked beside itself. */
const downloadBytes = 1_000_000_000;

interface Question {
  readonly name: string;
  readonly path: string;
  /** What the folder is for, as the message begins. */
  readonly use: string;
  /** How bad it is when it cannot be written. */
  readonly otherwise: CheckStatus;
  readonly mend: string;
}

/** The folder itself, or the nearest one above it that exists. */
async function nearestFolder(path: string): Promise<string> {
  const facts = await stat(path).catch((failure: unknown) => {
    const code = failure instanceof Error && 'code' in failure ? failure.code : undefined;
    if (code === 'ENOENT' && dirname(path) !== path) return undefined;
    throw failure;
  });
  if (facts === undefined) return nearestFolder(dirname(path));
  if (!facts.isDirectory()) throw new Error(`${path} is not a folder`);
  return path;
}

/** Writes a file in a folder of its own and removes both; permission bits alone say nothing of read-only or full disks. */
async function tryWriting(path: string): Promise<void> {
  const folder = await nearestFolder(path);
  await access(folder, constants.W_OK | constants.X_OK);
  const trial = await mkdtemp(join(folder, '.cloakbrowser-doctor-'));
  try {
    await writeFile(join(trial, 'trial'), 'trial');
  } finally {
    await rm(trial, { recursive: true, force: true });
  }
}

async function ask(question: Question): Promise<Check> {
  const { name, path, use, otherwise, mend } = question;
  try {
    await tryWriting(path);
    return { name, status: 'ok', message: `${use} ${path} can be written`, details: { path } };
  } catch (failure) {
    const message = `${use} ${path} cannot be written: ${messageOf(failure)}`;
    return { name, status: otherwise, message, mend, details: { path } };
  }
}

function workingFolder(cwd: string): Promise<Check> {
  const name = 'working-folder';
  const mend = 'Set --output-dir, or the working folder (cwd) of the server in the configuration of the client.';
  if (parse(cwd).root !== cwd) {
    return ask({ name, path: cwd, use: 'the working folder', otherwise: 'warning', mend });
  }
  const message = `the working folder is ${cwd}, so files go to a folder of the user's own instead`;
  return Promise.resolve({ name, status: 'warning', message, mend });
}

function profileFolder({ inspection }: CheckParts): Promise<Check> {
  const name = 'profile-folder';
  const { isolated, userDataDir } = inspection.settings;
  if (isolated && userDataDir === undefined) {
    return Promise.resolve({ name, status: 'ok', message: 'none needed, the profile is kept in memory' });
  }
  const mend = 'Set --user-data-dir to a folder that can be written, or use --isolated.';
  if (userDataDir !== undefined) {
    return ask({ name, path: userDataDir, use: 'the profile folder', otherwise: 'error', mend });
  }
  const { profiles } = inspection.folders();
  return ask({ name, path: profiles, use: 'the folder of profiles', otherwise: 'warning', mend });
}

async function browserFolder(path: string): Promise<Check> {
  const name = 'browser-folder';
  const mend = 'Set CLOAKBROWSER_CACHE_DIR to a folder that can be written, or name a browser with --binary-path.';
  const check = await ask({ name, path, use: 'the folder for CloakBrowser', otherwise: 'error', mend });
  if (check.status !== 'ok') return check;
  const { bavail, bsize } = await statfs(await nearestFolder(path));
  if (bavail * bsize >= downloadBytes) return check;
  const message = `the folder for CloakBrowser ${path} has ${Math.floor((bavail * bsize) / 1e6)} MB left, the download needs up to ${downloadBytes / 1e6}`;
  return {
    ...check,
    status: 'warning',
    message,
    mend: 'Free some space, or set CLOAKBROWSER_CACHE_DIR to another disk.',
  };
}

/** Whether the folders in use can be written. Nothing is left in them. */
export async function checkFolders(parts: CheckParts, { info }: BrowserFinding): Promise<Check[]> {
  const { inspection, host } = parts;
  const { outputDir } = inspection.settings;
  const folders = inspection.folders();
  const questions = [
    ask({
      name: 'temp-folder',
      path: host.tempDir,
      use: 'the temporary folder',
      otherwise: 'error',
      mend: 'Set TMPDIR to a folder that can be written, or free space on its disk.',
    }),
    ask({
      name: 'cache-folder',
      path: folders.cache,
      use: 'the folder for tool lists',
      otherwise: 'warning',
      mend: 'Set --cache-dir to a folder that can be written; without one every start takes longer.',
    }),
    workingFolder(host.cwd),
    profileFolder(parts),
  ];
  if (outputDir !== undefined) {
    const mend = 'Set --output-dir to a folder that can be written, or leave it out.';
    questions.push(ask({ name: 'output-folder', path: outputDir, use: 'the output folder', otherwise: 'error', mend }));
  }
  if (info?.installed === false && info.source !== 'binary-path') questions.push(browserFolder(folders.browsers));
  return Promise.all(questions);
}
