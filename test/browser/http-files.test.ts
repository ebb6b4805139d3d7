import { mkdirSync, readdirSync, readFileSync, realpathSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callText } from '../support/browser-bed.ts';
import { startBrowserServer, upload, workingFolderOf } from '../support/browser-server.ts';
import { send, type Answer } from '../support/http-exchange.ts';
import type { HttpClient, HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { RawConnection, reasonOf } from '../support/raw-connection.ts';
import { Testbed } from '../support/testbed.ts';

let testbed: Testbed;
let pages: PageServer;

beforeAll(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
});

afterAll(async () => {
  await testbed.close();
  await pages.close();
});

/** Shows a page and gives the path of its snapshot as the result names it. */
async function snapshotLink(client: HttpClient): Promise<string> {
  const shown = await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  const link = /\[Snapshot\]\((?<path>[^)]+)\)/.exec(shown)?.groups?.['path'];
  if (link === undefined) throw new Error(`No link in ${shown}`);
  return link;
}

/** Asks for a file in the way of a client that follows a link. */
function fetchFile(client: HttpClient, path: string, method = 'GET'): Promise<Answer> {
  return send(`${client.url}/files/${path}`, { method, headers: client.headers });
}

/** Asks for exactly this path, which no client would send without being told to. */
async function fetchRaw(client: HttpClient, path: string): Promise<{ status: number; body: string }> {
  const { port, host, pathname } = new URL(client.url);
  const connection = await RawConnection.open(Number(port));
  connection.send(
    `GET ${pathname}/files/${path} HTTP/1.1\r\nHost: ${host}\r\nMcp-Session-Id: ${client.id}\r\nConnection: close\r\n\r\n`,
  );
  const answer = await connection.answer();
  connection.close();
  return answer;
}

describe('files of the own session', () => {
  let server: HttpServer;
  let own: HttpClient;
  let other: HttpClient;
  let link: string;
  let otherLink: string;
  let folder: string;
  let otherFolder: string;

  beforeAll(async () => {
    server = await startBrowserServer(testbed, { settings: { 'http-files': 'true' } });
    [own, other] = await Promise.all([server.open(), server.open()]);
    [link, otherLink] = await Promise.all([snapshotLink(own), snapshotLink(other)]);
    [folder, otherFolder] = await Promise.all([workingFolderOf(own), workingFolderOf(other)]);
  });

  test('the link in a result can be followed, and gives the file as it is', async () => {
    const answer = await fetchFile(own, link);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(readFileSync(join(folder, link), 'utf8'));
    expect(await answer.text()).toContain('heading "Welcome"');
    expect(answer.contentType).toBe('text/plain');
    // A page that somebody opens from here must not run beside the endpoint.
    expect(answer.headers).toMatchObject({
      'content-disposition': expect.stringMatching(/^attachment;/) as string,
      'content-security-policy': 'sandbox',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
  });

  test('HEAD tells the size without the content', async () => {
    const answer = await fetchFile(own, link, 'HEAD');
    expect(answer.status).toBe(200);
    expect(answer.headers['content-length']).toBe(String(statSync(join(folder, link)).size));
    expect(await answer.text()).toBe('');
  });

  test('a picture, a download and a file with a name of any letters come whole', async () => {
    await callText(own, 'browser_take_screenshot', { filename: 'shot.png', scale: 'css' });
    writeFileSync(join(folder, 'größe 50%.txt'), 'ü'.repeat(100_000));
    const shot = await fetchFile(own, 'shot.png');
    expect([shot.status, shot.contentType]).toEqual([200, 'image/png']);
    expect(shot.headers['content-length']).toBe(String(statSync(join(folder, 'shot.png')).size));
    await shot.text();
    const text = await fetchFile(own, encodeURIComponent('größe 50%.txt'));
    expect(await text.text()).toBe('ü'.repeat(100_000));
  });

  test('PUT, POST and DELETE are not for files: 405, and the file stays', async () => {
    for (const method of ['PUT', 'POST', 'DELETE']) {
      const answer = await fetchFile(own, link, method);
      expect([answer.status, answer.headers['allow']]).toEqual([405, 'GET, HEAD']);
    }
    expect((await fetchFile(own, link)).status).toBe(200);
  });

  test.each([
    ['no file', () => 'missing.txt'],
    ['the folder itself', () => ''],
    ['a folder', () => dirname(link)],
    ['a folder with a slash', () => `${dirname(link)}/`],
    ["the owner's record above the folder", () => '../owner.json'],
    ['the same, encoded', () => '%2e%2e/owner.json'],
    ['the same, encoded with its slash', () => '..%2fowner.json'],
    ['the same, encoded twice', () => '%252e%252e%252fowner.json'],
    ['a way down and up again', () => `${dirname(link)}/../../owner.json`],
    ['the configuration of the child', () => '../g1/config.json'],
    ['a backslash', () => '..%5cowner.json'],
    ['an absolute path', () => '/etc/hostname'],
    ['an absolute path, encoded', () => '%2Fetc%2Fhostname'],
    ['a NUL', () => `${link}%00.png`],
    ['what is no encoding', () => '%zz'],
    ["another session's file, by its absolute path", () => join(otherFolder, otherLink)],
    ["another session's file, by its relative path", () => relative(folder, join(otherFolder, otherLink))],
    ['a link to a file outside', () => 'link-to-file'],
    ['a file in a linked folder outside', () => 'link-to-folder/owner.json'],
  ])('%s: 404', async (_what, path) => {
    if (path().startsWith('link-to-')) {
      const [name = ''] = path().split('/');
      symlinkSync(name === 'link-to-file' ? '/etc/hostname' : dirname(otherFolder), join(folder, name));
    }
    const answer = await fetchRaw(own, path());
    expect([answer.status, reasonOf(answer)]).toEqual([404, 'file_unknown']);
  });

  test('a link to a file of the own folder is followed', async () => {
    symlinkSync(join(folder, link), join(folder, 'link-inside'));
    expect(await (await fetchFile(own, 'link-inside')).text()).toBe(readFileSync(join(folder, link), 'utf8'));
  });

  test("with another session's id the file is unknown, and without any 400", async () => {
    const unknown = await fetchFile(other, link);
    expect(unknown.status).toBe(404);
    const { 'mcp-session-id': _id, ...headers } = own.headers;
    expect((await send(`${own.url}/files/${link}`, { method: 'GET', headers })).status).toBe(400);
  });

  test('the path is told by cloakbrowser_bridge_info', async () => {
    expect(await callText(own, 'cloakbrowser_bridge_info')).toContain('"/mcp/files/"');
  });

  test('after the end of the session they are gone', async () => {
    expect(await own.end()).toBe(200);
    const answer = await fetchFile(own, link);
    expect(answer.status).toBe(404);
    expect(reasonOf({ body: await answer.text() })).toBe('session_unknown');
    expect((await fetchFile(other, otherLink)).status).toBe(200);
    await other.end();
  });
});

test('files cannot be fetched from a server that was not told so', async () => {
  const server = await startBrowserServer(testbed);
  const client = await server.open();
  const link = await snapshotLink(client);
  const answer = await fetchFile(client, link);
  expect(answer.status).toBe(404);
  const text = await answer.text();
  expect(reasonOf({ body: text })).toBe('file_unknown');
  expect(text).toContain('--http-files');
  await client.end();
});

describe('an explicit output folder', () => {
  let server: HttpServer;
  let out: string;

  beforeAll(async () => {
    out = join(realpathSync(testbed.folders.root), 'out');
    mkdirSync(out);
    server = await startBrowserServer(testbed, { settings: { 'http-files': 'true' }, args: ['--output-dir', out] });
  });

  /** Shows a page and gives the path of its snapshot. */
  async function snapshotFile(client: HttpClient): Promise<string> {
    const link = await snapshotLink(client);
    return join(await workingFolderOf(client), link);
  }

  test('each session writes into a folder of its own below it, which stays with its files', async () => {
    const clients = await Promise.all([server.open(), server.open()]);
    const files = await Promise.all(clients.map((client) => snapshotFile(client)));
    const [first = '', second = ''] = files.map((file) => dirname(file));
    expect([dirname(first), dirname(second)]).toEqual([out, out]);
    expect(first).not.toBe(second);
    expect([first, second].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
    const stolen = await upload(clients[1] as HttpClient, `${pages.url}/upload`, files[0] ?? '');
    expect(stolen['isError']).toBe(true);
    await Promise.all(clients.map((client) => client.end()));
    for (const file of files) expect(readFileSync(file, 'utf8')).toContain('Welcome');
  });

  test('a session that wrote nothing leaves no folder in it', async () => {
    const before = readdirSync(out);
    const client = await server.open();
    await callText(client, 'browser_tabs', { action: 'list' });
    expect(readdirSync(out).length).toBe(before.length + 1);
    await client.end();
    expect(readdirSync(out)).toEqual(before);
  });

  test('its files can be fetched by the session that wrote them, by their path in its folder', async () => {
    const [own, other] = await Promise.all([server.open(), server.open()]);
    const [file, otherFile] = await Promise.all([snapshotFile(own), snapshotFile(other)]);
    const answer = await fetchFile(own, basename(file));
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(readFileSync(file, 'utf8'));
    for (const path of [basename(otherFile), relative(dirname(file), otherFile)])
      expect((await fetchRaw(own, path)).status).toBe(404);
    await Promise.all([own.end(), other.end()]);
  });
});
