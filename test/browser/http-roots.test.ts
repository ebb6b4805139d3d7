import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { browserMs, callText, callTool, resultText } from '../support/browser-bed.ts';
import { startBrowserServer, stateOf, upload, workingFolderOf } from '../support/browser-server.ts';
import type { JsonObject, Message } from '../support/client.ts';
import type { Answer } from '../support/http-exchange.ts';
import { HttpClient, type HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';

const capabilities = { roots: { listChanged: true } };

let testbed: Testbed;
let pages: PageServer;
/** A folder of the server that clients name as theirs. */
let root: string;
let secret: string;

beforeAll(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
  root = join(testbed.folders.root, 'root');
  mkdirSync(root);
  secret = join(root, 'secret.txt');
  writeFileSync(secret, 'content-of-the-server');
});

afterAll(async () => {
  await testbed.close();
  await pages.close();
});

/** A client that has roots, and tells them whenever and wherever it is asked. */
class RootedClient {
  readonly http: HttpClient;
  readonly #streams: Answer[] = [];
  #calls = 0;

  constructor(http: HttpClient) {
    this.http = http;
  }

  static async open(server: HttpServer, protocolVersion?: string): Promise<RootedClient> {
    const version = protocolVersion === undefined ? {} : { protocolVersion };
    const client = new RootedClient(await HttpClient.open(server.url, { params: { capabilities }, ...version }));
    client.#attend(await client.http.listen());
    await client.http.post({ method: 'notifications/roots/list_changed' });
    return client;
  }

  /** How often it was asked for its roots. */
  get asked(): number {
    return this.#streams.flatMap(({ soFar }) => soFar).filter(({ method }) => method === 'roots/list').length;
  }

  async call(name: string, args: JsonObject = {}): Promise<Message> {
    this.#calls += 1;
    const id = `call-${this.#calls}`;
    const answer = this.#attend(await this.http.start(name, args, { id }));
    return answer.gets(`the answer of ${name}`, (message) => message.id === id, browserMs);
  }

  #attend(stream: Answer): Answer {
    this.#streams.push(stream);
    const roots = [{ uri: pathToFileURL(root).href, name: 'root' }];
    void stream
      .gets('roots/list', ({ method }) => method === 'roots/list', browserMs)
      .then(({ id }) => this.http.post({ id, result: { roots } }))
      .catch(() => undefined);
    return stream;
  }
}

describe('a client that names a folder of the server as its root', () => {
  let server: HttpServer;
  let client: RootedClient;

  beforeAll(async () => {
    server = await startBrowserServer(testbed);
    client = await RootedClient.open(server);
  });

  test('is not asked for it, and uploads nothing from it', async () => {
    const result = await upload(client, `${pages.url}/upload`, secret);
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toMatch(/outside allowed roots/i);
    await callTool(client, 'browser_file_upload', {});
    expect(await callText(client, 'browser_snapshot')).not.toContain('content-of-the-server');
    expect(client.asked).toBe(0);
  });

  test('writes nothing into it: files go to the folder of its session', async () => {
    for (const filename of [join(root, 'shot.png'), '../../../root/shot.png']) {
      const result = await callTool(client, 'browser_take_screenshot', { filename, scale: 'css' });
      expect(result['isError']).toBe(true);
    }
    await callText(client, 'browser_take_screenshot', { filename: 'shot.png', scale: 'css' });
    expect(existsSync(join(await workingFolderOf(client), 'shot.png'))).toBe(true);
    expect(readdirSync(root)).toEqual(['secret.txt']);
  });

  test('opens no file of it in the browser', async () => {
    const result = await callTool(client, 'browser_navigate', { url: pathToFileURL(secret).href });
    expect(result['isError']).toBe(true);
    expect(resultText(result)).toContain('blocked');
  });

  test('does the same after a change of its roots and after the browser was closed', async () => {
    await callText(client, 'browser_close');
    await client.http.post({ method: 'notifications/roots/list_changed' });
    const result = await upload(client, `${pages.url}/upload`, secret);
    expect(resultText(result)).toMatch(/outside allowed roots/i);
    expect(client.asked).toBe(0);
    expect(await stateOf(client)).toMatchObject({ http: { rootsPassed: false } });
    await client.http.end();
  });

  test('in a batch of revision 2025-03-26 neither', async () => {
    const client = await RootedClient.open(server, '2025-03-26');
    const batch = [
      { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
      {
        jsonrpc: '2.0',
        id: 'call',
        method: 'tools/call',
        params: { name: 'browser_tabs', arguments: { action: 'list' } },
      },
    ];
    const answer = await client.http.send({ body: batch });
    await answer.ended(browserMs);
    expect(answer.soFar.map(({ method }) => method)).not.toContain('roots/list');
    expect(resultText(await upload(client, `${pages.url}/upload`, secret))).toMatch(/outside allowed roots/i);
    await client.http.end();
  });
});

test('with --http-pass-roots it is asked for its roots, uploads from them and writes into them, as over stdio', async () => {
  const server = await startBrowserServer(testbed, {
    settings: { 'http-pass-roots': 'true', 'http-spare-browsers': 1 },
  });
  const client = await RootedClient.open(server);
  const result = await upload(client, `${pages.url}/upload`, secret);
  expect(result['isError'] ?? false).toBe(false);
  await callText(client, 'browser_wait_for', { text: 'got secret.txt content-of-the-server' });
  await callText(client, 'browser_take_screenshot', { filename: 'shot.png', scale: 'css' });
  expect(readFileSync(join(root, 'shot.png')).length).toBeGreaterThan(0);
  expect(client.asked).toBe(1);
  expect(await stateOf(client)).toMatchObject({ http: { rootsPassed: true } });
  await client.http.end();
});
