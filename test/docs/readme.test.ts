import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseCommandLine } from '../../src/cli/command.ts';
import { options } from '../../src/config/options.ts';
import { resolveSettings } from '../../src/config/resolve.ts';
import { upstreamFlags } from '../../src/config/upstream-flags.ts';
import { blocksOf, codeOf, proseOf, readDocument as read, rowsUnder } from '../support/markdown.ts';

const root = join(import.meta.dirname, '../..');
const handWritten = [
  'README.md',
  'CHANGELOG.md',
  'deploy/README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** Flags of other programs that the documents name. */
const foreignFlags = [
  '--project',
  '--no-git-tag-version',
  '--lang',
  '--header',
  '--only',
  '--rounds',
  '--quick',
  '--from-file',
  '--cert',
  '--key',
];

/** The anchors of a page as GitHub makes them. */
function anchorsOf(markdown: string): string[] {
  return [...proseOf(markdown).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function brokenLinks(file: string): string[] {
  const targets = [...proseOf(read(file)).matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets.filter((target) => {
    if (/^https?:/.test(target)) return false;
    const [path = '', anchor] = target.split('#');
    const page = path === '' ? file : relative(root, resolve(root, dirname(file), path));
    if (!existsSync(join(root, page))) return true;
    return anchor !== undefined && !anchorsOf(read(page)).includes(anchor);
  });
}

function knownFlags(): Set<string> {
  const own = options.flatMap(({ flags, form }) => [
    ...flags,
    ...(form.kind === 'switch' ? flags.map((flag) => `no-${flag}`) : []),
  ]);
  const names = [...own, ...upstreamFlags.map(({ name }) => name), 'help', 'version', 'json'];
  return new Set([...names.map((name) => `--${name}`), ...foreignFlags]);
}

/** The variables of ours, of upstream's flags, and those that the CloakBrowser package itself reads. */
function knownVariables(): Set<string> {
  const folder = join(root, 'node_modules', 'cloakbrowser', 'dist');
  const sources = readdirSync(folder)
    .filter((name) => name.endsWith('.js'))
    .map((name) => readFileSync(join(folder, name), 'utf8'));
  return new Set([
    ...options.flatMap(({ variables }) => variables.map(({ name }) => name)),
    ...upstreamFlags.map(({ name }) => `PLAYWRIGHT_MCP_${name.replaceAll('-', '_').toUpperCase()}`),
    ...sources.flatMap((source) => source.match(/CLOAKBROWSER_[A-Z_]+/g) ?? []),
  ]);
}

/** All texts that the program or upstream can print. */
function printedTexts(): string {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const upstream = createRequire(createRequire(import.meta.url).resolve('@playwright/mcp/package.json'));
  const bundle = join(dirname(upstream.resolve('playwright-core/package.json')), 'lib', 'coreBundle.js');
  return [...sources.map((name) => read(join('src', name))), readFileSync(bundle, 'utf8')]
    .join('\n')
    .replaceAll("\\'", "'");
}

const flags = knownFlags();
const variables = knownVariables();
const printed = printedTexts();

describe.each(handWritten)('%s', (file) => {
  it('has no broken link', () => {
    expect(brokenLinks(file)).toEqual([]);
  });

  it('names only flags that exist', () => {
    const named = codeOf(read(file)).match(/(?<![\w-])--[a-z][a-z0-9-]*/g) ?? [];
    expect(named.filter((flag) => !flags.has(flag))).toEqual([]);
  });

  it('names only variables that exist', () => {
    const named = read(file).match(/\b(CLOAK_PLAYWRIGHT_MCP|PLAYWRIGHT_MCP|CLOAKBROWSER)_[A-Z][A-Z_]*[A-Z]/g) ?? [];
    expect(named.filter((name) => !variables.has(name))).toEqual([]);
  });

  it('names only scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...codeOf(read(file)).matchAll(/\bnpm (?:run ([\w:]+)|(test)\b)/g)].map(
      ([, run, test]) => run ?? test ?? '',
    );
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });

  it('names only files of the sources and tests that exist', () => {
    const named = codeOf(read(file)).match(/(?<![\w/.-])[\w-]+(?:\/[\w.-]+)+\.(?:ts|mjs)\b/g) ?? [];
    expect(named.filter((name) => !existsSync(join(root, name)) && !existsSync(join(root, 'src', name)))).toEqual([]);
  });

  it('quotes only texts that the program or upstream prints', () => {
    const quotes = rowsUnder('What you read', read(file)).map(([cell = '']) => /`(.+)`/.exec(cell)?.[1] ?? '');
    const parts = quotes.flatMap((quote) => quote.split('…').map((part) => part.trim()));
    // The program puts some of them together from two texts.
    const missing = parts.filter((part) => !part.split(/[:;] /).every((text) => printed.includes(text)));
    expect(missing).toEqual([]);
  });
});

describe('the snippets', () => {
  const blocks = handWritten.flatMap((file) => blocksOf(read(file)));
  const objects = blocks
    .filter(({ language }) => language === 'json')
    .map(({ text }) => JSON.parse(text) as Record<string, unknown>)
    .filter((object) => object['_meta'] === undefined);

  function problemsOf(argv: readonly string[], env: Readonly<Record<string, string>>, file = '{}'): string[] {
    const { problems, warnings } = resolveSettings({
      flags: parseCommandLine(argv).flags,
      env,
      cwd: '/',
      readFile: () => file,
    });
    return [...problems.map(({ message }) => message), ...warnings];
  }

  interface Server {
    readonly url?: string;
    readonly command: string;
    readonly args: string[];
    readonly env?: Record<string, string>;
  }

  const servers = objects
    .flatMap((object) => Object.values((object['mcpServers'] ?? object['servers'] ?? {}) as Record<string, unknown>))
    .map((server: unknown) => server as Server);

  it('configure clients with a command line that is accepted', () => {
    const started = servers.filter(({ url }) => url === undefined);
    expect(started.length).toBeGreaterThan(1);
    for (const { command, args, env = {} } of started) {
      expect([command, ...args.slice(0, 2)]).toEqual(['npx', '-y', 'cloakbrowser-mcp']);
      expect(problemsOf(args.slice(2), env)).toEqual([]);
    }
  });

  it('configure clients over HTTP with the address that a server has by default', () => {
    const urls = servers.flatMap(({ url }) => url ?? []);
    const { settings } = resolveSettings({
      flags: parseCommandLine([]).flags,
      env: {},
      cwd: '/',
      readFile: () => '{}',
    });
    const { httpHost, httpPort, httpEndpoint } = settings;
    expect(urls.length).toBeGreaterThan(0);
    for (const url of urls) expect(url).toBe(`http://${httpHost}:${httpPort}${httpEndpoint}`);
  });

  it('show a config file that is accepted', () => {
    const files = objects.filter((object) => object['mcpServers'] === undefined && object['servers'] === undefined);
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) expect(problemsOf(['--config-file', '/file.json'], {}, JSON.stringify(file))).toEqual([]);
  });

  it('are TOML where they say so', () => {
    const lines = blocks.filter(({ language }) => language === 'toml').flatMap(({ text }) => text.trim().split('\n'));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines.filter((text) => !/^\[[\w.-]+\]$/.test(text))) {
      // The values that are used here are written the same in JSON.
      const value: unknown = JSON.parse(/^\w+ = (.+)$/.exec(line)?.[1] ?? '');
      expect(value).toBeDefined();
    }
  });

  it('start the program with flags that are accepted', () => {
    const calls = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => [...text.matchAll(/npx -y cloakbrowser-mcp(.*)$/gm)].map(([, args = '']) => args));
    expect(calls.length).toBeGreaterThan(0);
    for (const args of calls) expect(problemsOf(args.split(' ').filter(Boolean), {})).toEqual([]);
  });
});

describe('the README', () => {
  it('gives one command to see the main job and one to run the tests', () => {
    const commands = blocksOf(read('README.md')).map(({ text }) => text.trim());
    expect(commands).toEqual(expect.arrayContaining(['npm ci && npm run demo', 'npm ci && npm test']));
  });

  it('gives settings that are accepted', () => {
    const rows = rowsUnder('What you want', read('README.md'));
    expect(rows.length).toBeGreaterThan(5);
    for (const [, cell = ''] of rows) {
      const given = parseCommandLine(cell.replaceAll('`', '').split(' ')).flags;
      expect(resolveSettings({ flags: given, env: {}, cwd: '/', readFile: () => '{}' }).problems).toEqual([]);
    }
  });
});

describe('the page about the architecture', () => {
  const page = read('docs/architecture.md');

  it('gives the limits that are in the code', () => {
    const rows = rowsUnder('What', page).filter((cells) => cells.length === 3 && cells[2]?.includes('.ts`'));
    expect(rows.length).toBeGreaterThan(10);
    for (const [, value = '', place = ''] of rows) {
      const [file = '', name = ''] = [...place.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);
      const found = new RegExp(`const ${name} = ([\\d_]+);`).exec(read(join('src', file)))?.[1];
      expect(`${name} ${value.split(' ')[0] ?? ''}`).toBe(`${name} ${found?.replaceAll('_', '') ?? 'not found'}`);
    }
  });

  it('lists every variable that a child may see', () => {
    const source = read('src/upstream/environment.ts');
    const names = /new Set\(\s*`([^`]+)`/.exec(source)?.[1]?.split(/\s+/) ?? [];
    const prefixes = [...(/allowedPrefixes = \[([^\]]+)\]/.exec(source)?.[1] ?? '').matchAll(/'(\w+)'/g)].map(
      ([, name = '']) => name,
    );
    expect(names.length * prefixes.length).toBeGreaterThan(0);
    const listed = page.slice(page.indexOf('### Environment of the child'), page.indexOf('## Stdout and stderr'));
    // Proxy variables are listed once and said to count in small letters too.
    const wanted = [...names.map((name) => (/^[a-z_]+$/.test(name) ? name.toUpperCase() : name)), ...prefixes];
    expect(wanted.filter((name) => !listed.includes(`\`${name}\``))).toEqual([]);
  });
});
