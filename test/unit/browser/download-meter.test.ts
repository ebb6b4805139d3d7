import { describe, expect, it } from 'vitest';
import { DownloadMeter } from '../../../src/browser/download-meter.ts';
import type { MeterOptions } from '../../../src/browser/download-meter.ts';

const archive = 'https://download.example/chromium-v1.2.3.4/cloakbrowser-linux-x64.tar.gz';

function makeMeter(response: () => Response, changes: Partial<MeterOptions> = {}) {
  const amounts: number[] = [];
  const asked: string[] = [];
  let received = 0;
  const meter = new DownloadMeter({
    fetch: (input) => {
      asked.push(input instanceof Request ? input.url : String(input));
      return Promise.resolve(response());
    },
    mayDownload: true,
    stallTimeoutMs: 5000,
    onProgress: ({ receivedBytes }) => amounts.push(receivedBytes),
    onReceived: () => {
      received += 1;
    },
    ...changes,
  });
  return { meter, amounts, asked, received: () => received };
}

describe('DownloadMeter', () => {
  it('counts the bytes of an archive and leaves them unchanged', async () => {
    const body = 'x'.repeat(1000);
    const { meter, amounts, received } = makeMeter(() => new Response(body, { headers: { 'content-length': '1000' } }));
    expect(await (await meter.fetch(archive)).text()).toBe(body);
    expect(meter.latest).toMatchObject({
      host: 'download.example',
      version: '1.2.3.4',
      receivedBytes: 1000,
      totalBytes: 1000,
    });
    expect(amounts).toEqual([0, 1000]);
    expect(received()).toBe(1);
  });

  it.each([
    ['https://x.example/api/download/1.2.3.4.5', '1.2.3.4.5'],
    ['https://x.example/base/chromium-v1.2.3.4/cloakbrowser-windows-x64.zip', '1.2.3.4'],
  ])('takes %s for an archive of version %s', async (url, version) => {
    const { meter } = makeMeter(() => new Response('x'));
    await (await meter.fetch(url)).text();
    expect(meter.latest).toMatchObject({ version, totalBytes: undefined });
  });

  it.each([
    'https://x.example/chromium-v1.2.3.4/SHA256SUMS',
    'https://x.example/api/license/validate',
    'https://x.example/api/download/version?channel=preview',
  ])('lets %s through, also when nothing may be downloaded', async (url) => {
    const { meter, asked } = makeMeter(() => new Response('x'), { mayDownload: false });
    await meter.fetch(url);
    expect(asked).toEqual([url]);
    expect(meter.hasRefused).toBe(false);
  });

  it('refuses an archive when nothing may be downloaded', async () => {
    const { meter, asked } = makeMeter(() => new Response('x'), { mayDownload: false });
    await expect(meter.fetch(new Request(archive))).rejects.toThrow('not allowed');
    expect(asked).toEqual([]);
    expect(meter.hasRefused).toBe(true);
  });

  it('keeps status and type of a refusal', async () => {
    const { meter } = makeMeter(() => new Response('no', { status: 404, headers: { 'content-type': 'text/plain' } }));
    expect((await meter.fetch(new URL(archive))).status).toBe(404);
    expect(meter.latest).toMatchObject({ status: 404, contentType: 'text/plain' });
  });

  it('trusts no length of an encoded body', async () => {
    const headers = { 'content-length': '10', 'content-encoding': 'gzip' };
    const { meter } = makeMeter(() => new Response('x', { headers }));
    await (await meter.fetch(archive)).text();
    expect(meter.latest?.totalBytes).toBeUndefined();
  });
});
