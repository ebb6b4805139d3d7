import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  argumentsOf,
  browserMs,
  browserOf,
  callText,
  callTool,
  childOf,
  environmentOf,
  mustFind,
  startBrowserBridge,
  toolNames,
} from '../support/browser-bed.ts';
import type { LineClient } from '../support/client.ts';
import { listEntries } from '../support/folders.ts';
import { descendantsOf, waitForNoProcess } from '../support/processes.ts';
import { startProxyServer, type ProxyServer } from '../support/proxy-server.ts';
import { Testbed } from '../support/testbed.ts';

const unrelated = 'unrelated-host-secret-b81f';
const licence = 'licence-key-value-5c02';
const username = 'proxy-user-77aa';
const password = 'proxy pass@word-31d9';
/** Every form in which a secret might be written. */
const secrets = [
  unrelated,
  licence,
  password,
  encodeURIComponent(password),
  Buffer.from(`${username}:${password}`).toString('base64'),
];

let testbed: Testbed;
let proxy: ProxyServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  proxy = await startProxyServer({ username, password });
});

afterEach(async () => {
  await testbed.close();
  await proxy.close();
});

function startWithSecrets(env: Readonly<Record<string, string>> = {}): LineClient {
  const server = `http://${username}:${encodeURIComponent(password)}@${proxy.address}`;
  return startBrowserBridge(testbed, {
    args: ['--log-level', 'trace'],
    cacheDir: testbed.folders.cache,
    env: {
      MY_SECRET_TOKEN: unrelated,
      CLOAKBROWSER_LICENSE_KEY: licence,
      CLOAK_PLAYWRIGHT_MCP_PROXY_SERVER: server,
      ...env,
    },
  });
}

/** Which of the secrets are in a text. */
function leaks(text: string): string[] {
  return secrets.filter((secret) => text.includes(secret));
}

/** Everything that the bridge wrote. */
function outputOf(client: LineClient): string {
  return [...client.lines, ...client.strayLines, client.stderr].join('\n');
}

/** What other users of the machine may see of the processes below the bridge. */
function commandLines(client: LineClient): string {
  return descendantsOf(client.pid)
    .map(({ command }) => command)
    .join('\n');
}

/** The files below the test's folder that hold a secret. */
async function leakingFiles(): Promise<string[]> {
  const entries = (await listEntries(testbed.folders.root)).map((entry) => join(testbed.folders.root, entry));
  const files = entries.filter((entry) => statSync(entry, { throwIfNoEntry: false })?.isFile() === true);
  return files.filter((file) => leaks(readFileSync(file, 'latin1')).length > 0);
}

async function callInfoTools(client: LineClient): Promise<void> {
  await callText(client, 'cloakbrowser_bridge_info');
  await callText(client, 'cloakbrowser_binary_info');
}

test('a proxy with credentials works, and no secret shows in a stream, a command line or a file for others', async () => {
  const client = startWithSecrets();
  await client.initialize();
  expect(await toolNames(client)).toContain('browser_navigate');
  const page = await callText(client, 'browser_navigate', { url: 'http://site.test/page' });
  expect(page).toContain('Page Title: Behind the proxy');
  expect(proxy.served).toContain('http://site.test/page');
  await callInfoTools(client);
  expect(await callText(client, 'cloakbrowser_bridge_info')).toContain(proxy.address);

  const child = await mustFind('the child', () => childOf(client));
  const browser = await mustFind('the browser', () => browserOf(client));
  expect(leaks(commandLines(client))).toEqual([]);
  for (const { pid } of [child, browser]) {
    const environment = JSON.stringify(environmentOf(pid));
    // The browser itself checks the licence, so that the key has to be there.
    expect(leaks(environment).filter((secret) => secret !== licence)).toEqual([]);
  }

  const args = argumentsOf(child.pid);
  const config = args[args.indexOf('--config') + 1] ?? '';
  expect(leaks(readFileSync(config, 'utf8'))).toEqual([password]);
  expect(statSync(config).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(config)).mode & 0o777).toBe(0o700);
  // Whatever upstream itself writes down of the launch is out of sight for others too, and goes with the session.
  const session = dirname(dirname(config));
  expect(statSync(session).mode & 0o777).toBe(0o700);
  expect((await leakingFiles()).filter((file) => !file.startsWith(`${session}/`))).toEqual([]);

  const exit = await client.close(browserMs);
  expect(exit).toEqual({ code: 0, signal: null });
  expect(leaks(outputOf(client))).toEqual([]);
  await waitForNoProcess(testbed.folders.root);
  expect(await leakingFiles()).toEqual([]);
  expect(await listEntries(testbed.folders.tmp)).toEqual([]);
});

test('a browser that ends at its start: no secret in the answer, in the log or in the info tools', async () => {
  const browser = join(testbed.folders.root, 'browser');
  writeFileSync(browser, '#!/bin/sh\necho "started with $@" >&2\nexit 3\n');
  chmodSync(browser, 0o755);
  const client = startWithSecrets({ CLOAKBROWSER_BINARY_PATH: browser });
  await client.initialize();
  const result = await callTool(client, 'browser_navigate', { url: 'http://site.test/page' });
  expect(result['isError']).toBe(true);
  expect(JSON.stringify(result)).toContain('started with');
  await callInfoTools(client);
  expect(leaks(commandLines(client))).toEqual([]);
  await client.close(browserMs);
  expect(leaks(outputOf(client))).toEqual([]);
  expect(await leakingFiles()).toEqual([]);
});

test('a child that cannot start: no secret in the answer, in the log or in the info tools', async () => {
  const cli = join(testbed.folders.root, 'cli.mjs');
  writeFileSync(
    cli,
    `import { readFileSync } from 'node:fs';
    const at = process.argv.indexOf('--config');
    console.error('environment', JSON.stringify(process.env));
    console.error('configuration', at < 0 ? 'none' : readFileSync(process.argv[at + 1], 'utf8'));
    process.exitCode = 3;`,
  );
  const client = startWithSecrets({ PLAYWRIGHT_MCP_CLI_PATH: cli });
  await client.initialize().catch(() => undefined);
  const result = await callTool(client, 'browser_navigate', { url: 'http://site.test/page' });
  expect(result['isError']).toBe(true);
  expect(JSON.stringify(result)).toContain('configuration');
  await callInfoTools(client);
  await client.close(browserMs);
  expect(leaks(outputOf(client))).toEqual([]);
});
