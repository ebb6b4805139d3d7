// @ts-check
// Runs a TypeScript program of the repository: node scripts/run-ts.mjs FILE [ARGUMENT...]. Node 20 cannot by itself.
import { mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { constants } from './bundle.mjs';

const [source] = process.argv.splice(2, 1);
if (source === undefined) throw new Error('usage: node scripts/run-ts.mjs FILE [ARGUMENT...]');

// Inside node_modules, so that the packages which stay outside of the bundle are found.
const folder = join('node_modules', '.cache', 'cloakbrowser-mcp', String(process.pid));
const outfile = join(folder, basename(source).replace(/\.ts$/, '.mjs'));
mkdirSync(folder, { recursive: true });
process.on('exit', () => {
  rmSync(folder, { recursive: true, force: true });
});
await build({
  bundle: true,
  define: constants,
  entryPoints: [source],
  format: 'esm',
  outfile,
  packages: 'external',
  platform: 'node',
  sourcemap: 'inline',
  target: 'node20.19',
});
await import(pathToFileURL(outfile).href);
