import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Arity, upstreamFlags } from '../../src/config/upstream-flags.ts';

/** Accepted by upstream without being in its help. */
const hidden = ['remote-header', 'vision'];

function arityOf(placeholder: string | undefined): Arity {
  if (placeholder === undefined) return 'none';
  return placeholder.endsWith('...>') ? 'variadic' : 'value';
}

it("knows exactly the flags of upstream's help, each with its number of values", () => {
  const manifest = createRequire(import.meta.url).resolve('@playwright/mcp/package.json');
  const help = execFileSync(process.execPath, [join(manifest, '../cli.js'), '--help'], { encoding: 'utf8' });
  const printed = [...help.matchAll(/^ {2}--([a-z-]+)(?: (<[^>]+>))?/gm)].map(([, name, placeholder]) => [
    name,
    arityOf(placeholder),
  ]);
  const known = upstreamFlags.filter(({ name }) => !hidden.includes(name)).map(({ name, arity }) => [name, arity]);
  expect(Object.fromEntries(known)).toEqual(Object.fromEntries(printed));
});
