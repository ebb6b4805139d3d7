import { execFileSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { homedir, tmpdir, userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A browser that the tests may drive. */
export interface TestBrowser {
  readonly path: string;
  readonly source: 'CLOAKBROWSER_BINARY_PATH' | 'CloakBrowser cache' | 'installed' | 'development dependency';
}

const installedNames = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const packageVersion = '143.0.4';

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function cachedCloakBrowser(): string | undefined {
  const cache = process.env['CLOAKBROWSER_CACHE_DIR'] ?? join(homedir(), '.cloakbrowser');
  if (!existsSync(cache)) return undefined;
  const builds = readdirSync(cache).filter((name) => name.startsWith('chromium-'));
  builds.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  return builds.map((name) => join(cache, name, 'chrome')).find(isExecutable);
}

function installedBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return installedNames.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

/**
 * Unpacks the Chromium of `@sparticuz/chromium` into `folder`. The package unpacks below TMPDIR and adds NSS and expat
 * only when it believes to be in AWS Lambda, hence the two variables.
 */
function unpack(folder: string): void {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  // Depending on the loader, the default export of this CommonJS module is the class or the module that holds it.
  const script = `const { default: loaded } = await import(${JSON.stringify(pathToFileURL(entry).href)});
    await (loaded.default ?? loaded).executablePath();`;
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, TMPDIR: folder, AWS_LAMBDA_JS_RUNTIME: 'nodejs22.x' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/**
 * Writes a starter beside the unpacked browser. Chromium itself needs glibc, libgcc, NSS, NSPR and expat of the system;
 * a machine without the last three (and without root) gets those of the package, one without fonts its font.
 */
function writeStarter(folder: string, finalFolder: string): void {
  const missing = execFileSync('ldd', [join(folder, 'chromium')], { encoding: 'utf8' }).includes('not found');
  const fonts = `<?xml version="1.0"?><fontconfig><dir>${join(finalFolder, 'fonts')}</dir></fontconfig>`;
  writeFileSync(join(folder, 'fonts.conf'), fonts);
  const lines = [
    '#!/bin/sh',
    ...(missing ? [`export LD_LIBRARY_PATH="${join(finalFolder, 'al2023', 'lib')}"`] : []),
    ...(existsSync('/etc/fonts/fonts.conf') ? [] : [`export FONTCONFIG_FILE="${join(finalFolder, 'fonts.conf')}"`]),
    `exec "${join(finalFolder, 'chromium')}" "$@"`,
  ];
  writeFileSync(join(folder, 'start'), `${lines.join('\n')}\n`, { mode: 0o755 });
}

/** The Chromium of the development dependency, unpacked once per user; several test files may ask at the same time. */
function packagedBrowser(): string {
  const folder = join(tmpdir(), `cloakbrowser-mcp-test-browser-${userInfo().uid}`, packageVersion);
  const starter = join(folder, 'start');
  if (existsSync(starter)) return starter;
  mkdirSync(join(folder, '..'), { recursive: true, mode: 0o700 });
  const draft = mkdtempSync(`${folder}-`);
  unpack(draft);
  writeStarter(draft, folder);
  try {
    renameSync(draft, folder);
  } catch (failure) {
    rmSync(draft, { recursive: true });
    if (!existsSync(starter)) throw failure;
  }
  return starter;
}

/** The browser that the tests use: CloakBrowser first of all, then an installed one, else the development dependency's. */
export function findTestBrowser(): TestBrowser {
  const given = process.env['CLOAKBROWSER_BINARY_PATH'];
  if (given !== undefined && given !== '') return { path: given, source: 'CLOAKBROWSER_BINARY_PATH' };
  const cached = cachedCloakBrowser();
  if (cached !== undefined) return { path: cached, source: 'CloakBrowser cache' };
  const installed = installedBrowser();
  if (installed !== undefined) return { path: installed, source: 'installed' };
  return { path: packagedBrowser(), source: 'development dependency' };
}
