import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import type { Host } from '../core/host.ts';

const run = promisify(execFile);
/** Only a clone of the repository has it; a package installed by a user does not. */
const packageName = '@sparticuz/chromium';
/** Unpacking takes about 5 s. */
const unpackLimitMs = 120_000;
const tryLimitMs = 20_000;

/** A browser unpacked for one run. */
export interface PackagedBrowser {
  readonly path: string;
  readonly close: () => Promise<void>;
}

function locate(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(packageName);
  } catch {
    // Not installed, as in every installation that is no clone.
    return undefined;
  }
}

/**
 * Unpacks the program below `folder`. The package unpacks below TMPDIR, and adds libraries that a small system lacks only
 * when it believes to run in AWS Lambda, hence the two variables.
 */
async function unpack(entry: string, folder: string, host: Host): Promise<string> {
  const script = `const { default: loaded } = await import(${JSON.stringify(pathToFileURL(entry).href)});
    console.log(await (loaded.default ?? loaded).executablePath());`;
  const { stdout } = await run(host.execPath, ['--input-type=module', '--eval', script], {
    env: { ...host.env, TMPDIR: folder, AWS_LAMBDA_JS_RUNTIME: 'nodejs22.x' },
    timeout: unpackLimitMs,
  });
  return stdout.trim();
}

/** A starter that adds the package's own libraries and font, each where the system has none. */
async function writeStarter(program: string, folder: string, host: Host): Promise<string> {
  const libraries = join(folder, 'al2023', 'lib');
  const runs = await run(program, ['--version'], { env: host.env, timeout: tryLimitMs }).then(
    () => true,
    () => false,
  );
  const fonts = join(folder, 'fonts.conf');
  await writeFile(fonts, `<?xml version="1.0"?><fontconfig><dir>${join(folder, 'fonts')}</dir></fontconfig>`);
  const lines = [
    '#!/bin/sh',
    ...(runs ? [] : [`export LD_LIBRARY_PATH="${libraries}"`]),
    ...(existsSync('/etc/fonts/fonts.conf') ? [] : [`export FONTCONFIG_FILE="${fonts}"`]),
    `exec "${program}" "$@"`,
  ];
  const starter = join(folder, 'start');
  await writeFile(starter, `${lines.join('\n')}\n`, { mode: 0o755 });
  // What does not start here, such as a build for another processor, ends the attempt with its own words.
  await run(starter, ['--version'], { env: host.env, timeout: tryLimitMs });
  return starter;
}

/** The Chromium of the development dependencies, unpacked; undefined where it is not installed. Throws when it cannot run. */
export async function openPackagedBrowser(host: Host): Promise<PackagedBrowser | undefined> {
  const entry = locate();
  if (entry === undefined || host.platform !== 'linux') return undefined;
  const folder = await mkdtemp(join(host.tempDir, 'cloakbrowser-demo-'));
  const close = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  try {
    const program = await unpack(entry, folder, host);
    return { path: await writeStarter(program, folder, host), close };
  } catch (failure) {
    await close();
    throw failure;
  }
}
