import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type BrowserAddress, findAddress, type ProfilePlace, removePortFile } from '../../../src/cdp/port-file.ts';

/** Long enough for one look, short enough to wait for. */
const shortMs = 60;
const id = '2f6b9c1e-6c0d-4a57-9d3a-0b8f3f0a9e11';
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'port-file-'));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

const place = (some: Partial<ProfilePlace> = {}): ProfilePlace => ({
  tempDir: join(root, 't'),
  registry: join(root, 'b'),
  isIsolated: false,
  ...some,
});

const find = (some?: Partial<ProfilePlace>, ms = shortMs): Promise<BrowserAddress> =>
  findAddress(place(some), ms, new AbortController().signal);

/** Writes a port file into a folder below the root; returns that folder. */
function writePortFile(folder: string, text = `40123\n/devtools/browser/${id}`): string {
  const path = join(root, folder);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'DevToolsActivePort'), text);
  return path;
}

describe('the port file', () => {
  it('is read in a profile that is known', async () => {
    expect(await find({ userDataDir: writePortFile('p') })).toEqual({ port: 40_123, browserId: id });
  });

  it('may end with a newline', async () => {
    expect(await find({ userDataDir: writePortFile('p', `1\n/devtools/browser/${id}\n`) })).toMatchObject({ port: 1 });
  });

  it.each([
    ['nothing yet', ''],
    ['a port only', '40123'],
    ['a port and a newline', '40123\n'],
    ['no id', '40123\n/devtools/browser/'],
    ['port 0', `0\n/devtools/browser/${id}`],
    ['port 65536', `65536\n/devtools/browser/${id}`],
    ['no number', `x\n/devtools/browser/${id}`],
    ['another path', `40123\n/devtools/page/${id}`],
    ['an id that leads elsewhere', '40123\n/devtools/browser/../page/x'],
    ['an id with a query', `40123\n/devtools/browser/${id}?x`],
    ['more lines', `40123\n/devtools/browser/${id}\nmore`],
    ['an id without an end', `40123\n/devtools/browser/${'a'.repeat(65)}`],
  ])('with %s is none', async (_what, text) => {
    await expect(find({ userDataDir: writePortFile('p', text) })).rejects.toMatchObject({ code: 'cdp_start_failed' });
  });

  it('is waited for', async () => {
    const found = find({ userDataDir: join(root, 'p') }, 5000);
    writePortFile('p', '');
    writePortFile('p');
    expect(await found).toEqual({ port: 40_123, browserId: id });
  });

  it('that does not come is told with the place where it was looked for', async () => {
    const userDataDir = join(root, 'p');
    await expect(find({ userDataDir })).rejects.toMatchObject({
      code: 'cdp_start_failed',
      message: expect.stringContaining(`DevToolsActivePort in ${userDataDir} was not there within ${shortMs} ms`),
    });
  });

  it('is not waited for by a session that ends', async () => {
    const stop = new AbortController();
    const found = findAddress(place({ userDataDir: join(root, 'p') }), 60_000, stop.signal);
    stop.abort();
    await expect(found).rejects.toMatchObject({ code: 'closing' });
  });

  it('of an earlier browser can be removed, and need not be there', async () => {
    const userDataDir = writePortFile('p');
    removePortFile(userDataDir);
    removePortFile(userDataDir);
    removePortFile(join(root, 'nowhere'));
    await expect(find({ userDataDir })).rejects.toThrow('was not there');
  });
});

describe('a profile that is kept in memory', () => {
  it('is found in the temporary folder of the child, among other things', async () => {
    writePortFile('t/other-profile', `1\n/devtools/browser/${id}`);
    writePortFile('t/playwright_chromiumdev_profile-a1B2c3');
    expect(await find({ isIsolated: true })).toEqual({ port: 40_123, browserId: id });
  });

  it('is the one whose browser started last, when an earlier one left its own behind', async () => {
    const [first, second] = ['z', 'a'].map((name) => `t/playwright_chromiumdev_profile-${name}`);
    const old = writePortFile(first ?? '', `1\n/devtools/browser/${id}`);
    utimesSync(join(old, 'DevToolsActivePort'), 1000, 1000);
    writePortFile(second ?? '', `2\n/devtools/browser/${id}`);
    expect(await find({ isIsolated: true })).toMatchObject({ port: 2 });
    utimesSync(join(root, second ?? '', 'DevToolsActivePort'), 999, 999);
    expect(await find({ isIsolated: true })).toMatchObject({ port: 1 });
  });

  it('that is not there is told so', async () => {
    await expect(find({ isIsolated: true })).rejects.toThrow('its profile was not found');
  });
});

describe("a profile in upstream's default place", () => {
  function describeBrowser(name: string, text: string): void {
    mkdirSync(join(root, 'b'), { recursive: true });
    writeFileSync(join(root, 'b', name), text);
  }

  it('is found by what upstream writes of its running browsers', async () => {
    const userDataDir = writePortFile('p');
    describeBrowser('browser@1', JSON.stringify({ browser: { browserName: 'chromium', userDataDir } }));
    expect(await find()).toEqual({ port: 40_123, browserId: id });
  });

  it.each(['', '{', 'null', '[]', '{"browser":null}', '{"browser":{"userDataDir":1}}', '{"userDataDir":"/x"}'])(
    'is not found in a description that says %j',
    async (text) => {
      writePortFile('p');
      describeBrowser('browser@1', text);
      await expect(find()).rejects.toThrow('its profile was not found');
    },
  );

  it('is told with its folder when the port file is not in it', async () => {
    describeBrowser('browser@1', JSON.stringify({ browser: { userDataDir: join(root, 'p') } }));
    await expect(find()).rejects.toThrow(`DevToolsActivePort in ${join(root, 'p')}`);
  });
});
