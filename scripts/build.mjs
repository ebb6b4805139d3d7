// @ts-check
import { relative } from 'node:path';
import { writeBundle } from './bundle.mjs';

try {
  for (const { path, contents } of await writeBundle()) {
    console.error(`${(contents.length / 1024).toFixed(1).padStart(8)} kB  ${relative(process.cwd(), path)}`);
  }
} catch (failure) {
  const errors = /** @type {import('esbuild').BuildFailure} */ (failure).errors;
  if (errors === undefined) throw failure;
  for (const { location, text } of errors) {
    console.error(location === null ? text : `${location.file}:${location.line}:${location.column}: ${text}`);
  }
  process.exitCode = 1;
}
