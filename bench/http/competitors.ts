import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Longest time for fetching them; about 200 packages and 100 MB. */
const installMs = 180_000;

/** The programs beside which the bridge is measured over HTTP, by the package, its exact version and its program. */
const packages = {
  supergateway: { version: '4.0.0', program: 'dist/index.js' },
  'mcp-proxy': { version: '6.7.19', program: 'dist/bin/mcp-proxy.mjs' },
} as const;

/** Paths of their programs. */
export type Competitors = Readonly<Record<keyof typeof packages, string>>;

function install(folder: string): void {
  const wanted = Object.entries(packages).map(([name, { version }]) => `${name}@${version}`);
  console.error(`Installing ${wanted.join(' and ')} into ${folder}, once; nothing of the repository changes.`);
  const parent = join(folder, '..');
  mkdirSync(parent, { recursive: true });
  const fresh = mkdtempSync(join(parent, 'install-'));
  try {
    writeFileSync(join(fresh, 'package.json'), '{"private":true}');
    execFileSync('npm', ['install', '--save-exact', '--ignore-scripts', '--no-audit', '--no-fund', ...wanted], {
      cwd: fresh,
      stdio: ['ignore', 'ignore', 'inherit'],
      timeout: installMs,
    });
    renameSync(fresh, folder);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/**
 * Finds the competitors, and installs them into the user's cache at first: they are too big for development
 * dependencies. Undefined when that fails; the benchmark then runs without them, and says so.
 */
export function findCompetitors(): Competitors | undefined {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  const versions = Object.values(packages).map(({ version }) => version);
  const folder = join(cache, 'cloakbrowser-mcp-bench', versions.join('-'));
  const pathOf = (name: keyof typeof packages): string => join(folder, 'node_modules', name, packages[name].program);
  const found = { supergateway: pathOf('supergateway'), 'mcp-proxy': pathOf('mcp-proxy') };
  try {
    if (!Object.values(found).every(existsSync)) install(folder);
    return found;
  } catch (failure) {
    console.error(`Without supergateway and mcp-proxy, which could not be installed: ${String(failure)}`);
    return undefined;
  }
}
