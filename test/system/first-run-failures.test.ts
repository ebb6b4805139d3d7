import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LineClient } from '../support/client.ts';
import { browserLeftovers, endCleanly, failedCall, goodCall, greet, startFirstRun } from '../support/first-run.ts';
import { structuredOf, Testbed } from '../support/testbed.ts';
import { sendAll, startDownloadServer } from './binary-downloads.ts';
import type { ArchiveAnswer, DownloadServer } from './binary-downloads.ts';

let testbed: Testbed;
let server: DownloadServer;

beforeEach(async () => {
  testbed = await Testbed.make();
  server = await startDownloadServer();
});

afterEach(async () => {
  await testbed.close();
  await server.close();
});

function startFirst(): LineClient {
  return startFirstRun(testbed, { url: server.url, args: ['--stall-timeout-ms', '1000'] });
}

const waysOut = ['--binary-path', '--browser-version', 'CLOAKBROWSER_CACHE_DIR', '--browser-engine playwright'];

const faults: { name: string; answer: ArchiveAnswer; code: string; text: RegExp; checksum?: string | undefined }[] = [
  {
    name: 'answers HTTP 404',
    answer: (response) => response.writeHead(404).end(),
    code: 'download_missing',
    text: /the server answered HTTP 404/,
  },
  {
    name: 'accepts and hangs',
    answer: () => undefined,
    code: 'download_stalled',
    text: /no byte arrived for 1000 ms/,
  },
  {
    name: 'resets the connection in the middle',
    answer: (response, archive) => {
      response.writeHead(200, { 'content-length': archive.length });
      response.write(archive.subarray(0, 100_000), () => response.socket?.resetAndDestroy());
    },
    code: 'download_network',
    text: /The browser download failed: /,
  },
  {
    name: 'has half an archive',
    answer: (response, archive) => {
      response.writeHead(200, { connection: 'close' });
      response.end(archive.subarray(0, archive.length / 2));
    },
    code: 'download_corrupt',
    text: /The downloaded archive cannot be used: /,
    checksum: undefined,
  },
  {
    name: 'has an archive of another checksum',
    answer: sendAll,
    code: 'download_corrupt',
    text: /The downloaded archive cannot be used: .*checksum/i,
    checksum: '0'.repeat(64),
  },
];

describe('a first run whose download server', () => {
  test.each(faults)('$name', async (fault) => {
    const { checksum } = server;
    server.answer = fault.answer;
    if ('checksum' in fault) server.checksum = fault.checksum;
    const client = startFirst();
    await greet(client);
    const text = await failedCall(client);
    expect(text).toMatch(fault.text);
    expect(text).toMatch(/It was CloakBrowser \d[\d.]+ for linux-\w+ from 127\.0\.0\.1:\d+\./);
    for (const way of waysOut) expect(text).toContain(way);
    const info = structuredOf(await client.call('cloakbrowser_binary_info'));
    expect(info).toMatchObject({ installed: false, download: { state: 'failed', code: fault.code } });
    const bridge = structuredOf(await client.call('cloakbrowser_bridge_info'));
    expect(bridge['startFailure']).toMatchObject({ code: fault.code, hint: expect.stringContaining('--binary-path') });
    expect(await browserLeftovers(testbed)).toEqual([]);

    server.answer = sendAll;
    server.checksum = checksum;
    await goodCall(client);
    expect(testbed.counts()).toMatchObject({ calls: 1 });
    await endCleanly(client);
  });

  test('refuses the connection', async () => {
    await server.close();
    const client = startFirst();
    await greet(client);
    const text = await failedCall(client);
    expect(text).toContain(`connect ECONNREFUSED ${server.host}`);
    expect(text).toMatch(/It was CloakBrowser \d[\d.]+ for linux-\w+ from 127\.0\.0\.1:\d+\./);
    for (const way of waysOut) expect(text).toContain(way);
    server = await startDownloadServer(sendAll, { port: Number(new URL(server.url).port) });
    await goodCall(client);
    await endCleanly(client);
  });

  test('fails five times: the sixth call is told at once when the next start is tried', async () => {
    server.answer = (response) => response.writeHead(404).end();
    const client = startFirst();
    await greet(client);
    const texts: string[] = [];
    while (texts.length < 6 && texts.at(-1)?.includes('within a minute') !== true) texts.push(await failedCall(client));
    expect(texts.slice(0, -1).every((text) => text.startsWith('The browser download failed: '))).toBe(true);
    const before = server.archives.length;
    const started = performance.now();
    const refused = await failedCall(client);
    expect(performance.now() - started).toBeLessThan(1000);
    expect(refused).toMatch(/^5 starts failed within a minute; the next one is tried in \d+ s\. The last one: /);
    expect(refused).toMatch(/HTTP 404.*CloakBrowser .*--binary-path/s);
    expect(server.archives).toHaveLength(before);
    await endCleanly(client);
  });
});
