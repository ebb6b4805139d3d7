import { execFile } from 'node:child_process';
import { readFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { transform } from 'esbuild';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
/** A client that uses npx waits 60 s for the first answer, download and installation included. */
const largestTarball = 1024 * 1024;
/** The bin is what an old Node must parse, so nothing else may be bundled into it. */
const largestMain = 2048;

const packedSchema = z.tuple([
  z.object({
    filename: z.string(),
    size: z.number(),
    files: z.array(z.object({ path: z.string(), mode: z.number() })),
  }),
]);
const manifestSchema = z.object({ version: z.string(), engines: z.object({ node: z.string() }) });
const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      dependencies: z.record(z.string(), z.string()).optional(),
      optionalDependencies: z.record(z.string(), z.string()).optional(),
      peerDependencies: z.record(z.string(), z.string()).optional(),
    }),
  ),
});
type LockedPackages = z.infer<typeof lockSchema>['packages'];

/** Where Node finds a package of this name from within another one. */
function locate(packages: LockedPackages, from: string, name: string): string {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const path = `${folder}${folder === '' ? '' : '/'}node_modules/${name}`;
    if (path in packages) return path;
    if (folder === '') throw new Error(`${name} of ${from} is not in the lock file`);
  }
}

/** Everything that a package needs, by the paths of the lock file: its `dev` marks do not tell, since development packages may be optional peers. */
function needed(
  packages: LockedPackages,
  from: string,
  kind: 'dependencies' | 'optionalDependencies' = 'dependencies',
): string[] {
  const found = new Set<string>();
  const pending = [from];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    const { dependencies = {}, optionalDependencies = {} } = packages[path] ?? {};
    const names = Object.keys(kind === 'dependencies' ? dependencies : { ...dependencies, ...optionalDependencies });
    // npm repeats an optional one among the others.
    for (const name of names.filter((one) => kind !== 'dependencies' || !(one in optionalDependencies))) {
      const next = locate(packages, path, name);
      if (!found.has(next)) pending.push(next);
      found.add(next);
    }
  }
  return [...found];
}

let folder: string;
let packed: z.infer<typeof packedSchema>[0];
let manifest: z.infer<typeof manifestSchema>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'package-test-'));
  manifest = manifestSchema.parse(await readJson(join(root, 'package.json')));
  const { stdout } = await npm(root, 'pack', '--json', '--ignore-scripts', '--pack-destination', folder);
  [packed] = packedSchema.parse(JSON.parse(stdout));
  await writeFile(join(folder, 'package.json'), '{ "private": true }');
  await npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', `./${packed.filename}`);
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe('package', () => {
  it('contains the program, its documents and nothing else', () => {
    const expected =
      /^(LICENSE|(README|CHANGELOG|THIRD_PARTY_NOTICES)\.md|package\.json|dist\/[\w-]+\.js|docs\/[\w./-]+\.(md|json)|deploy\/[\w./-]+\.(md|cfg|conf|yaml))$/;
    const paths = packed.files.map(({ path }) => path);
    expect(paths.filter((path) => !expected.test(path))).toEqual([]);
    expect(paths).toEqual(
      expect.arrayContaining(['LICENSE', 'README.md', 'CHANGELOG.md', 'THIRD_PARTY_NOTICES.md', 'package.json']),
    );
    expect(paths).toEqual(expect.arrayContaining(['dist/main.js', 'dist/run.js', 'dist/binary-worker.js']));
  });

  it('is small and its bin is executable', () => {
    expect(packed.size).toBeLessThan(largestTarball);
    expect(packed.files.find(({ path }) => path === 'dist/main.js')?.mode).toBe(0o755);
  });

  it('is described without a mistake that publint knows', async () => {
    const { messages } = await publint({ pkgDir: root, strict: true, pack: 'npm' });
    const description = z.record(z.string(), z.unknown()).parse(await readJson(join(root, 'package.json')));
    expect(messages.map((message) => formatMessage(message, description))).toEqual([]);
  });

  it('brings only the upstream program and the browser resolver with it', async () => {
    const { packages } = lockSchema.parse(await readJson(join(root, 'package-lock.json')));
    const required = needed(packages, '');
    // npm may add what the resolver names as an optional peer; whether it does depends on what else is in the folder.
    const peers = Object.keys(packages['node_modules/cloakbrowser']?.peerDependencies ?? {});
    const allowed = [...needed(packages, '', 'optionalDependencies'), ...peers.map((name) => `node_modules/${name}`)];
    const installed = lockSchema.parse(await readJson(join(folder, 'node_modules/.package-lock.json'))).packages;
    const others = Object.keys(installed).filter((path) => path !== 'node_modules/cloakbrowser-mcp');
    expect(others).toEqual(expect.arrayContaining(required));
    expect(others.filter((path) => !allowed.includes(path))).toEqual([]);
  });

  it('tells its version when started with npx', async () => {
    const { stdout, stderr } = await run('npx', ['--no-install', 'cloakbrowser-mcp', '--version'], { cwd: folder });
    expect({ stdout, stderr }).toEqual({ stdout: `${manifest.version}\n`, stderr: '' });
  });

  it('serves a client that starts it with npx', async () => {
    const transport = new StdioClientTransport({
      command: 'npx',
      args: ['--no-install', 'cloakbrowser-mcp'],
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', HOME: folder, CLOAK_PLAYWRIGHT_MCP_CACHE_DIR: join(folder, 'cache') },
      stderr: 'ignore',
    });
    const client = new Client({ name: 'package-test', version: '1.0.0' });
    try {
      await client.connect(transport);
      const names = (await client.listTools()).tools.map(({ name }) => name);
      expect(client.getServerVersion()).toMatchObject({ name: 'cloakbrowser-mcp', version: manifest.version });
      expect(names).toEqual(expect.arrayContaining(['browser_navigate', 'cloakbrowser_bridge_info']));
    } finally {
      await client.close();
    }
  });
});

describe('main.js', () => {
  it('is a small file of its own in syntax that Node 14 knows', async () => {
    const code = await readFile(join(root, 'dist/main.js'), 'utf8');
    const lowered = await transform(code, { format: 'esm', minify: true, target: 'node14' });
    const same = await transform(code, { format: 'esm', minify: true, target: 'esnext' });
    expect(code.length).toBeLessThan(largestMain);
    expect(code).not.toMatch(/^\s*import\b(?!\()|\bfrom\s*["']/m);
    expect(lowered.code).toBe(same.code);
  });

  it.each(['14.21.3', '16.20.2'])(
    'ends in one line with the needed and the found version on Node %s',
    async (found) => {
      const prefix = await mkdtemp(join(folder, 'node-'));
      const name = `node-${process.platform}-${process.arch}`;
      await npm(
        prefix,
        'install',
        '--prefix',
        prefix,
        '--prefer-offline',
        '--no-audit',
        '--no-fund',
        `${name}@${found}`,
      );
      const needed = manifest.engines.node.replace('>=', '');
      const failed = run(join(prefix, 'node_modules', name, 'bin/node'), [join(root, 'dist/main.js')]);
      const stderr: unknown = expect.toSatisfy(
        (text: string) => text.includes(needed) && text.includes(found) && text.indexOf('\n') === text.length - 1,
      );
      await expect(failed).rejects.toMatchObject({ stdout: '', stderr, code: 1 });
    },
  );
});

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, 'utf8'));
}

function npm(cwd: string, ...parameters: string[]): Promise<{ stdout: string; stderr: string }> {
  return run('npm', parameters, { cwd, maxBuffer: 16 * 1024 * 1024 });
}
