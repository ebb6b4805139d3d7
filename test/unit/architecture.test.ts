import { readFileSync, readdirSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';

interface Rule {
  /** Folders of src/ that may be imported; a file's own folder always may. */
  readonly folders: readonly string[];
  /** Folders of which only types may be imported. */
  readonly types?: readonly string[];
  readonly packages: readonly string[];
}

const belowCli = ['core', 'config', 'log', 'browser', 'upstream', 'cdp', 'relay', 'session', 'stdio', 'http'];

/** Who may import whom. The files directly in src/ are the bin and the composition root with its parts. */
const rules: Readonly<Record<string, Rule>> = {
  core: { folders: [], packages: [] },
  config: { folders: ['core'], packages: ['zod'] },
  log: { folders: ['core'], packages: ['pino'] },
  browser: { folders: ['core'], packages: ['cloakbrowser'] },
  upstream: { folders: ['core'], packages: [] },
  cdp: { folders: ['core'], packages: ['ws'] },
  relay: { folders: ['core'], packages: [] },
  session: { folders: ['core', 'relay'], types: ['upstream', 'cdp', 'browser'], packages: [] },
  stdio: { folders: ['core', 'session'], packages: [] },
  http: { folders: ['core', 'relay', 'session'], packages: ['prom-client'] },
  setup: { folders: belowCli, packages: [] },
  foundation: { folders: [...belowCli, 'setup'], packages: [] },
  children: { folders: [...belowCli, 'foundation'], packages: [] },
  surfaces: { folders: ['core', 'config', 'cdp'], packages: [] },
  'load-surfaces': { folders: ['core', 'config', 'surfaces'], packages: [] },
  bridge: { folders: [...belowCli, 'children', 'foundation', 'surfaces'], packages: [] },
  app: { folders: [...belowCli, 'bridge', 'children', 'foundation', 'load-surfaces', 'reporter'], packages: [] },
  reporter: { folders: ['core', 'log', 'stdio'], packages: [] },
  'http-lodgings': { folders: [...belowCli, 'bridge', 'children', 'foundation'], packages: [] },
  'http-sessions': { folders: [...belowCli, 'bridge', 'foundation', 'http-lodgings', 'surfaces'], packages: [] },
  'http-status': { folders: [...belowCli, 'http-lodgings'], packages: [] },
  'http-server': {
    folders: [...belowCli, 'foundation', 'http-lodgings', 'http-sessions', 'http-status', 'load-surfaces', 'surfaces'],
    packages: [],
  },
  'http-app': {
    folders: [...belowCli, 'foundation', 'http-lodgings', 'http-server', 'load-surfaces', 'reporter'],
    packages: [],
  },
  inspection: { folders: [...belowCli, 'setup'], packages: [] },
  cli: { folders: ['core', 'config', 'app', 'http-app', 'inspection', 'load-surfaces'], packages: [] },
  main: { folders: ['cli'], packages: [] },
};

/** Only these see the process: the bin, what serves people, the composition root and the worker's own entry. */
const processPlaces = /^(main\.ts|app\.ts|http-app\.ts|cli\/.*|browser\/binary-worker\.ts)$/;
const emptyNames = /(^|\/)(utils?|helpers?|common|managers?|types|index)\.ts$/;

const root = join(import.meta.dirname, '../../src');
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts'))
  .toSorted();

describe('architecture', () => {
  it('lets every file import only what the table allows', () => {
    const violations = files.flatMap((file) => importsOf(file).flatMap((found) => violation(file, found) ?? []));
    expect([...new Set(violations)]).toEqual([]);
  });

  it('loads the browser package in the worker only, so that what it prints never reaches stdout', () => {
    const loading = files.filter((file) =>
      importsOf(file).some(({ isType, target }) => !isType && packageName(target) === 'cloakbrowser'),
    );
    expect(loading.filter((file) => file !== 'browser/binary-worker.ts')).toEqual([]);
  });

  it('loads managed CDP on demand only, so that nobody pays for it who does not use it', () => {
    const loading = files.filter((file) =>
      importsOf(file).some(({ isType, target }) => !isType && /(^|\/)(cdp\/[\w-]+|surfaces)\.ts$/.test(target)),
    );
    expect(loading.filter((file) => file !== 'surfaces.ts')).toEqual(['load-surfaces.ts']);
    expect(readSource('load-surfaces.ts')).toContain("await import('./surfaces.ts')");
  });

  it('never imports the upstream program', () => {
    expect(files.filter((file) => importsOf(file).some(({ target }) => target.startsWith('@playwright/')))).toEqual([]);
  });

  it('touches the process and the console only at the edges', () => {
    const uses = /(?<![\w.#$'])(?:process|console)\.\w+/g;
    const found = files
      .filter((file) => !processPlaces.test(file))
      .flatMap((file) => [...codeOf(file).matchAll(uses)].map(([use]) => `${file}: ${use}`));
    expect(found).toEqual([]);
  });

  it('keeps the folders one level deep and the names telling', () => {
    expect(files.filter((file) => file.split('/').length > 2 || emptyNames.test(file))).toEqual([]);
  });

  it('documents every export', () => {
    expect(files.flatMap((file) => undocumentedExports(file))).toEqual([]);
  });
});

interface Import {
  readonly isType: boolean;
  readonly target: string;
}

function readSource(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

/** The comment stands above the first of several overloads. */
function undocumentedExports(file: string): string[] {
  const lines = readSource(file).split('\n');
  const seen = new Set<string>();
  return lines.flatMap((line, index) => {
    const name = /^export (?:async |abstract )?(?:function|class|const|interface|type) (\w+)/.exec(line)?.[1];
    if (name === undefined || seen.has(name)) return [];
    seen.add(name);
    return lines[index - 1]?.endsWith('*/') === true ? [] : [`${file}: ${name}`];
  });
}

function codeOf(file: string): string {
  return readSource(file).replaceAll(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, '');
}

function importsOf(file: string): Import[] {
  const code = codeOf(file);
  const statements = code.matchAll(/^\s*(?:import|export)\s(type\s)?[^'";]*?from\s*'([^']+)'/gm);
  const bare = code.matchAll(/^\s*import\s*'([^']+)'/gm);
  const dynamic = code.matchAll(/\bimport\(\s*'([^']+)'/g);
  return [
    ...[...statements].map(([, type, target = '']) => ({ isType: type !== undefined, target })),
    ...[...bare, ...dynamic].map(([, target = '']) => ({ isType: false, target })),
  ];
}

function violation(file: string, { isType, target }: Import): string | undefined {
  const rule = rules[folderOf(file)];
  if (rule === undefined) return `${file}: this folder is not in the table`;
  const isAllowed = target.startsWith('.')
    ? isFolderAllowed(file, rule, { isType, target })
    : isPackageAllowed(rule, target);
  return isAllowed ? undefined : `${file}: ${isType ? 'type ' : ''}import of ${target}`;
}

function isFolderAllowed(file: string, rule: Rule, { isType, target }: Import): boolean {
  const folder = folderOf(posix.join(dirname(file), target));
  return (
    folder === folderOf(file) || rule.folders.includes(folder) || (isType && rule.types?.includes(folder) === true)
  );
}

function isPackageAllowed(rule: Rule, target: string): boolean {
  if (target.startsWith('node:'))
    return builtinModules.includes(target.slice('node:'.length)) && target !== 'node:process';
  return rule.packages.includes(packageName(target));
}

/** `session/gate.ts` is in `session`, `app.ts` in `app`. */
function folderOf(file: string): string {
  return file.split('/', 1)[0]?.replace(/\.ts$/, '') ?? '';
}

function packageName(target: string): string {
  return target.split('/', target.startsWith('@') ? 2 : 1).join('/');
}
