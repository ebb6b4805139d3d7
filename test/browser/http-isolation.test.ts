import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { argumentsOf, callText, callTool, environmentOf, resultText, sessionFolders } from '../support/browser-bed.ts';
import {
  browserBelow,
  expectNoSession,
  generationOf,
  learnToolList,
  startBrowserServer,
  stateOf,
  stopBrowserServer,
  upload,
  workingFolderOf,
} from '../support/browser-server.ts';
import type { JsonObject, Message } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { send } from '../support/http-exchange.ts';
import type { HttpClient, HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { isRunning } from '../support/processes.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

/** Eight browsers start at once on a small machine. */
const allMs = 300_000;
const tokens = ['token-of-the-first-team', 'token-of-the-second-team'] as const;
const names = ['amber', 'birch', 'cedar', 'denim', 'ebony', 'flint', 'glass', 'hazel'];

/** One session with a name that no other one has anything to do with. */
interface Tenant {
  readonly name: string;
  readonly token: string;
  readonly client: HttpClient;
  /** Everything that it was answered. */
  readonly heard: string[];
  folder: string;
}

let testbed: Testbed;
let server: HttpServer;
let pages: PageServer;
let tenants: Tenant[];

function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}

async function tell(tenant: Tenant, tool: string, args: JsonObject = {}): Promise<string> {
  const text = await callText(tenant.client, tool, args);
  tenant.heard.push(text);
  return text;
}

function visit(tenant: Tenant, path: string): Promise<string> {
  return tell(tenant, 'browser_navigate', { url: `${pages.url}${path}` });
}

/** What a session leaves on a site and in files, all under the same names as the others. */
async function live(tenant: Tenant): Promise<void> {
  const { name } = tenant;
  await visit(tenant, '/storage');
  tenant.folder = await workingFolderOf(tenant.client);
  await tell(tenant, 'browser_evaluate', {
    function: `() => {
      document.cookie = 'owner=${name}; path=/';
      localStorage.setItem('owner', '${name}');
      const link = document.createElement('a');
      link.download = 'own.txt';
      link.href = 'data:text/plain,kept-by-${name}';
      link.click();
    }`,
  });
  const download = join(tenant.folder, '.playwright-mcp', 'own.txt');
  await waitUntil('the download', () => (existsSync(download) && statSync(download).size > 0) || undefined);
  await tell(tenant, 'browser_tabs', { action: 'new', url: `${pages.url}/title?${name}` });
  await upload(tenant.client, `${pages.url}/upload?${name}`, download);
  await tell(tenant, 'browser_wait_for', { text: `got own.txt kept-by-${name}` });
  await tell(tenant, 'browser_snapshot', { filename: 'own.yml' });
  await tell(tenant, 'browser_take_screenshot', { filename: 'own.png', scale: 'css' });
}

beforeAll(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
  await learnToolList(testbed);
  server = await startBrowserServer(testbed, {
    settings: { 'http-files': 'true', 'start-timeout-ms': 180_000 },
    env: { CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: tokens.join(',') },
  });
  tenants = await Promise.all(
    names.map(async (name, index) => {
      const token = tokens[index % 2 === 0 ? 0 : 1];
      return { name, token, client: await server.open({ headers: bearer(token) }), heard: [], folder: '' };
    }),
  );
  await Promise.all(tenants.map((tenant) => live(tenant)));
}, allMs);

afterAll(async () => {
  await testbed.close();
  await pages.close();
});

describe('eight sessions at once on one site', () => {
  test('cookies and local storage: each has its own, as if it were alone', async () => {
    for (const tenant of tenants) {
      await tell(tenant, 'browser_tabs', { action: 'select', index: 0 });
      expect(await visit(tenant, '/storage')).toContain('Page Title: Storage');
      const stored = await tell(tenant, 'browser_evaluate', {
        function: '() => [document.cookie, JSON.stringify(Object.entries(localStorage).sort())].join(" ")',
      });
      const storage = JSON.stringify(
        JSON.stringify([
          ['owner', tenant.name],
          ['visits', '2'],
        ]),
      );
      expect(stored).toContain(`"owner=${tenant.name}; visits=2 ${storage.slice(1)}`);
    }
  });

  test('tabs: each sees the two that it opened', async () => {
    for (const tenant of tenants) {
      const tabs = await tell(tenant, 'browser_tabs', { action: 'list' });
      expect(tabs.match(/^- \d+: .*$/gm)).toEqual([
        `- 0: (current) [Storage](${pages.url}/storage)`,
        `- 1: [Upload](${pages.url}/upload?${tenant.name})`,
      ]);
    }
  });

  test('output files: same names in different folders, each with its own content', async () => {
    for (const { name, folder } of tenants) {
      const files = await listEntries(folder);
      expect(files.filter((file) => !/page-.*\.yml$/.test(file))).toEqual([
        '.playwright-mcp',
        '.playwright-mcp/own.txt',
        'own.png',
        'own.yml',
      ]);
      expect(readFileSync(join(folder, '.playwright-mcp', 'own.txt'), 'utf8')).toBe(`kept-by-${name}`);
      const texts = files
        .filter((file) => /\.(yml|txt)$/.test(file))
        .map((file) => readFileSync(join(folder, file), 'utf8'));
      expect(names.filter((one) => texts.join('\n').includes(one))).toEqual([name]);
    }
  });

  test('no answer names anything of another session', () => {
    for (const { name, heard } of tenants) {
      expect(names.filter((one) => heard.join('\n').includes(one))).toEqual([name]);
    }
  });

  test('working folders are distinct, and for their owner alone like everything above them', () => {
    const folders = tenants.map(({ folder }) => folder);
    expect(new Set(folders).size).toBe(names.length);
    for (const folder of folders) {
      expect([folder, join(folder, '..')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
    }
    const contents = sessionFolders(testbed).map((path) => readdirSync(path).sort().join(' '));
    expect(contents.sort()).toEqual([...names.map(() => 'g1 owner.json t1 work'), 'owner.json']);
  });

  test('child, browser, profile and temporary folder are those of one session only', async () => {
    const kinds = await Promise.all(
      tenants.map(async ({ client, folder }) => {
        const { pid } = await generationOf(client);
        const browser = await browserBelow(pid);
        const profile = argumentsOf(browser.pid).find((arg) => arg.startsWith('--user-data-dir=')) ?? '';
        const temp = environmentOf(pid)['TMPDIR'] ?? '';
        expect(profile).toContain(`=${temp}/`);
        expect(relative(join(folder, '..'), temp)).toBe('t1');
        return [pid, browser.pid, profile, temp];
      }),
    );
    expect(new Set(kinds.flat()).size).toBe(4 * names.length);
    // Nothing is written where it would outlive the session.
    expect((await listEntries(testbed.folders.home)).filter((entry) => entry.includes('ms-playwright'))).toEqual([]);
  });
});

describe('the id of a session', () => {
  const ask = { jsonrpc: '2.0', id: 1, method: 'ping' };

  function reasonOf(message: Message | undefined): unknown {
    return message?.error?.data?.['reason'];
  }

  test.each(['POST', 'GET', 'DELETE'])('is unknown to another token: %s is 404', async (method) => {
    const { client } = tenants[0] as Tenant;
    const headers = { ...client.headers, ...bearer(tokens[1]) };
    const answer = await send(server.url, { method, headers, ...(method === 'POST' ? { body: ask } : {}) });
    expect(answer.status).toBe(404);
    expect(reasonOf((await answer.messages())[0])).toBe('session_unknown');
    expect(await callText(client, 'browser_tabs', { action: 'list' })).toContain('(current)');
  });

  test.each([
    ['no token', {}],
    ['a wrong token', bearer('token-of-the-third-team')],
  ])('is of no use with %s: 401', async (_what, headers) => {
    const { authorization: _own, ...others } = (tenants[0] as Tenant).client.headers;
    const answer = await send(server.url, { headers: { ...others, ...headers }, body: ask });
    expect(answer.status).toBe(401);
    expect(reasonOf((await answer.messages())[0])).toBe('unauthorized');
  });

  test('opens no file for another token', async () => {
    const { client } = tenants[0] as Tenant;
    const url = `${server.url}/files/own.yml`;
    const get = (headers: Record<string, string>) => send(url, { method: 'GET', headers });
    expect((await get(client.headers)).status).toBe(200);
    expect((await get({ ...client.headers, ...bearer(tokens[1]) })).status).toBe(404);
  });
});

describe('a file of another session', () => {
  let path: string;
  let owner: Tenant;
  let thief: Tenant;

  beforeAll(async () => {
    [owner, , thief] = tenants as [Tenant, Tenant, Tenant];
    const shown = await visit(owner, `/home?${owner.name}`);
    path = join(owner.folder, /\[Snapshot\]\((?<path>[^)]+)\)/.exec(shown)?.groups?.['path'] ?? '');
  });

  test('is there to be found', () => {
    expect(readFileSync(path, 'utf8')).toContain('Welcome');
  });

  test.each([
    ['its absolute path', () => path],
    ['its path relative to the own folder', () => relative(thief.folder, path)],
    ['a path through /proc', () => `/proc/self/root${path}`],
  ])('is not uploaded by %s, and nothing of it arrives in the page', async (_how, given) => {
    const result = await upload(thief.client, `${pages.url}/upload?${thief.name}`, given());
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toMatch(/outside allowed roots|denied/i);
    await callTool(thief.client, 'browser_file_upload', {});
    const page = await tell(thief, 'browser_snapshot');
    expect(page).not.toContain('got ');
    expect(page).not.toContain('Welcome');
  });

  test.each(['file://', 'view-source:file://', 'FILE://'])('is not opened by %s', async (scheme) => {
    const result = await callTool(thief.client, 'browser_navigate', { url: `${scheme}${path}` });
    expect(result['isError']).toBe(true);
    expect(resultText(result)).not.toContain('Welcome');
    expect(await tell(thief, 'browser_snapshot')).not.toContain('Welcome');
  });

  test('is not written over by a screenshot or a snapshot', async () => {
    const before = readFileSync(path);
    for (const tool of ['browser_take_screenshot', 'browser_snapshot']) {
      const result = await callTool(thief.client, tool, { filename: path });
      expect(result['isError']).toBe(true);
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });
});

describe('the end', () => {
  test('of half of them takes their folders and processes, and no other ones', async () => {
    const [leaving, staying] = [tenants.slice(0, 4), tenants.slice(4)];
    const pids = await Promise.all(leaving.map(async ({ client }) => (await generationOf(client)).pid));
    expect(await Promise.all(leaving.map(({ client }) => client.end()))).toEqual([200, 200, 200, 200]);
    for (const { folder } of leaving) expect(existsSync(join(folder, '..'))).toBe(false);
    expect(pids.filter((pid) => isRunning(pid))).toEqual([]);
    for (const { client } of leaving) expect(await client.post({ id: 1, method: 'ping' })).toBe(404);
    for (const tenant of staying) {
      expect(await stateOf(tenant.client)).toMatchObject({ generation: { number: 1 }, lastLoss: null });
      expect(await tell(tenant, 'browser_evaluate', { function: '() => document.cookie' })).toContain(tenant.name);
    }
  });

  test('of all leaves nothing, neither does the end of the server', async () => {
    await Promise.all(tenants.slice(4).map(({ client }) => client.end()));
    await expectNoSession(testbed, server, bearer(tokens[0]));
    await stopBrowserServer(testbed, server);
  });
});
