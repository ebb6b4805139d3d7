// @ts-check
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** @import { BuildOptions, Metafile, OutputFile, Plugin } from 'esbuild' */

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outdir = join(root, 'dist');

/** Installed beside the bridge, never inside it: the upstream program and the resolver of the browser. */
const installedPackages = ['@playwright/mcp', 'cloakbrowser'];

/** Constants that the sources declare and the build fills in. */
export const constants = {
  BRIDGE_VERSION: JSON.stringify(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version),
};

/**
 * CommonJS packages in an ESM bundle cannot `require` builtin modules. This hands them over without a `createRequire` in
 * every file, and a module that is never asked for is never loaded.
 * @type {Plugin}
 */
const builtinsForCommonJs = {
  name: 'builtins-for-commonjs',
  setup(hooks) {
    hooks.onResolve({ filter: /.*/ }, ({ kind, path }) => {
      const name = path.replace(/^node:/, '');
      return kind === 'require-call' && builtinModules.includes(name)
        ? { path: `node:${name}`, namespace: 'builtin', sideEffects: false }
        : undefined;
    });
    hooks.onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)})`,
    }));
  },
};

/**
 * The bin stays a file of its own that refers to the rest only by a dynamic import.
 * @type {Plugin}
 */
const runOutsideOfMain = {
  name: 'run-outside-of-main',
  setup(hooks) {
    hooks.onResolve({ filter: /\/cli\/run\.ts$/ }, ({ kind }) =>
      kind === 'dynamic-import'
        ? { path: './run.js', external: true }
        : { errors: [{ text: 'main.ts may load cli/run.ts only by import(), so that an old Node can parse it' }] },
    );
  },
};

/** @type {BuildOptions} */
const shared = {
  absWorkingDir: root,
  bundle: true,
  charset: 'utf8',
  define: constants,
  external: installedPackages,
  format: 'esm',
  legalComments: 'none',
  logLevel: 'silent',
  metafile: true,
  minify: true,
  outdir,
  platform: 'node',
  write: false,
};

/**
 * Bundles the program without writing it.
 * @returns {Promise<{files: OutputFile[], metafiles: Metafile[]}>}
 */
export async function bundle() {
  const results = await Promise.all([
    // Node 14 is the oldest that a user may still have; it must get as far as our message about the version.
    build({ ...shared, entryPoints: { main: 'src/main.ts' }, target: 'node14', plugins: [runOutsideOfMain] }),
    build({
      ...shared,
      // All files lie flat in dist/, so that a URL relative to any of them finds the worker.
      chunkNames: '[name]-[hash]',
      entryPoints: { run: 'src/cli/run.ts', 'binary-worker': 'src/browser/binary-worker.ts' },
      plugins: [builtinsForCommonJs],
      splitting: true,
      target: 'node20.19',
    }),
  ]);
  return {
    files: results.flatMap((result) => result.outputFiles ?? []),
    metafiles: results.flatMap((result) => result.metafile ?? []),
  };
}

/** Writes the bundle to dist/. A file whose content is the same is left alone, for programs that run from it. */
export async function writeBundle() {
  const { files } = await bundle();
  mkdirSync(outdir, { recursive: true });
  const names = new Set(files.map((file) => basename(file.path)));
  for (const file of files) {
    if (basename(file.path) === 'main.js') writeExecutable(file);
    else if (readOrEmpty(file.path) !== file.text) writeFileSync(file.path, file.contents);
  }
  for (const name of readdirSync(outdir)) {
    if (!names.has(name)) rmSync(join(outdir, name), { recursive: true });
  }
  return files;
}

/** @param {OutputFile} file */
function writeExecutable({ path, text }) {
  const content = text.startsWith('#!') ? text : `#!/usr/bin/env node\n${text}`;
  if (readOrEmpty(path) !== content) writeFileSync(path, content);
  chmodSync(path, 0o755);
}

/** @param {string} path */
function readOrEmpty(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // Not there yet: any content differs from none.
    return '';
  }
}

/** Set-up of the system and browser tests: they run the program as it is built from the current sources. */
export async function setup() {
  await writeBundle();
}
