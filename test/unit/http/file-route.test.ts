import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { BridgeError } from '../../../src/core/errors.ts';
import type { HttpSession } from '../../../src/http/http-session.ts';
import { FileRoute } from '../../../src/http/file-route.ts';
import { makeSessionBed } from './http-session-bed.ts';
import { type Peer, makePeer } from './peer-bed.ts';

let root: string;
let work: string;
let output: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'file-route-'));
  [work, output] = [join(root, 'work'), join(root, 'output')];
  for (const folder of [work, output, join(work, 'sub'), join(root, 'work-of-another')]) mkdirSync(folder);
  writeFileSync(join(root, 'secret.txt'), 'secret');
  writeFileSync(join(root, 'work-of-another', 'a.txt'), 'secret');
  writeFileSync(join(work, 'a.txt'), 'text of a');
  writeFileSync(join(work, 'sub', 'b c.png'), 'picture');
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return ''; // Closed since the folder was read.
  }
}

interface Got {
  readonly peer: Peer;
  /** The code of the refusal, if it was one. */
  readonly thrown: string | undefined;
}

function sessionWith(folders: readonly string[]): HttpSession {
  return makeSessionBed({ folders: () => folders }).session;
}

/** A file of which the client has the head, and takes nothing more. */
async function sendLarge(): Promise<{ peer: Peer; session: HttpSession; sending: Promise<void> }> {
  writeFileSync(join(work, 'large'), 'x'.repeat(3_000_000));
  const [peer, session] = [makePeer(), sessionWith([work])];
  peer.read(false);
  const sending = new FileRoute(1000).handle(peer.res, session, 'large');
  await vi.waitFor(() => expect(peer.head()).not.toBe(''));
  return { peer, session, sending };
}

async function nothingOpen(): Promise<void> {
  const open = (): string[] => readdirSync('/proc/self/fd').map((fd) => targetOf(join('/proc/self/fd', fd)));
  await vi.waitFor(() => expect(open().filter((path) => path.startsWith(root))).toEqual([]));
}

async function get(path: string, method = 'GET', folders: readonly string[] = [work, output]): Promise<Got> {
  const peer = makePeer(method);
  const thrown = await new FileRoute(1000).handle(peer.res, sessionWith(folders), path).then(
    () => undefined,
    (failure: unknown) => (failure instanceof BridgeError ? failure.code : String(failure)),
  );
  if (thrown === undefined && !peer.isEnded()) await once(peer.res, 'finish');
  return { peer, thrown };
}

describe('a file of the session', () => {
  it.each([
    ['a.txt', 'text of a'],
    ['./a.txt', 'text of a'],
    ['sub/b%20c.png', 'picture'],
    ['sub%2Fb%20c.png', 'picture'],
  ])('is sent by its path below the folder: %s', async (path, content) => {
    const { peer } = await get(path);
    expect([peer.status(), peer.body()]).toEqual([200, content]);
    expect(peer.head()).toMatch(new RegExp(`content-length: ${content.length}\r\n`));
  });

  it('is sent from the first of the folders that has it', async () => {
    writeFileSync(join(output, 'a.txt'), 'another');
    writeFileSync(join(output, 'only-here.txt'), 'output');
    expect([(await get('a.txt')).peer.body(), (await get('only-here.txt')).peer.body()]).toEqual([
      'text of a',
      'output',
    ]);
    expect((await get('only-here.txt', 'GET', [join(root, 'never-made'), output])).peer.body()).toBe('output');
  });

  it.each([
    ['x.png', 'image/png'],
    ['x.JPEG', 'image/jpeg'],
    ['x.jpg', 'image/jpeg'],
    ['x.pdf', 'application/pdf'],
    ['x.webm', 'video/webm'],
    ['x.zip', 'application/zip'],
    ['x.json', 'application/json'],
    ['x.md', 'text/plain; charset=utf-8'],
    ['x.yml', 'text/plain; charset=utf-8'],
    ['x.html', 'application/octet-stream'],
    ['x.svg', 'application/octet-stream'],
    ['x.js', 'application/octet-stream'],
    ['x', 'application/octet-stream'],
    ['__proto__', 'application/octet-stream'],
    ['x.constructor', 'application/octet-stream'],
  ])('%s is nothing for a browser to run: %s', async (name, type) => {
    writeFileSync(join(work, name), 'x');
    const { peer } = await get(name);
    expect(peer.head()).toContain(`content-type: ${type}\r\n`);
    expect(peer.head()).toContain('x-content-type-options: nosniff\r\n');
    expect(peer.head()).toContain('content-security-policy: sandbox\r\n');
    expect(peer.head()).toContain('cache-control: no-store\r\n');
    expect(peer.head()).toContain(`content-disposition: attachment; filename*=UTF-8''${name}\r\n`);
  });

  it('may have any name, which cannot add to the headers', async () => {
    writeFileSync(join(work, 'ä\r\nx: "y"'), 'x');
    const { peer } = await get(encodeURIComponent('ä\r\nx: "y"'));
    expect(peer.head()).toContain("filename*=UTF-8''%C3%A4%0D%0Ax%3A%20%22y%22\r\n");
  });

  it('may be empty, and is only described for HEAD', async () => {
    writeFileSync(join(work, 'empty'), '');
    const [empty, head] = [await get('empty'), await get('a.txt', 'HEAD')];
    expect([empty.peer.status(), empty.peer.body(), head.peer.status(), head.peer.body()]).toEqual([200, '', 200, '']);
    expect(head.peer.head()).toContain('content-length: 9\r\n');
    await nothingOpen();
  });

  it('is sent as long as it was when it was asked for', async () => {
    const content = 'x'.repeat(300_000);
    writeFileSync(join(work, 'large'), content);
    const { peer } = await get('large');
    expect(peer.body() === content).toBe(true);
  });

  it('whose client goes in the middle is let go, and nothing stays open', async () => {
    const { peer, sending } = await sendLarge();
    peer.leave();
    // A descriptor that is closed twice fails here, or ends what somebody else has opened meanwhile.
    await sending;
    await nothingOpen();
  });

  it('whose client takes nothing is given up after the time for it', async () => {
    const { peer, sending } = await sendLarge();
    expect(peer.timeoutMs()).toBe(1000);
    peer.res.emit('timeout');
    await sending;
    expect(peer.isCut()).toBe(true);
    await nothingOpen();
  });

  it('is on its way no longer than its session lasts', async () => {
    const { peer, sending, session } = await sendLarge();
    await session.close();
    await sending;
    expect(peer.isCut()).toBe(true);
    await nothingOpen();
  });
});

describe('what is no file of the session', () => {
  it.each([
    '',
    '.',
    '..',
    '../secret.txt',
    'sub/../../secret.txt',
    '%2e%2e/secret.txt',
    '..%2fsecret.txt',
    '%2e%2e%2fsecret.txt',
    '%252e%252e%252fsecret.txt',
    '..%5csecret.txt',
    '..\\secret.txt',
    '%2fetc%2fpasswd',
    '/etc/passwd',
    '//etc/passwd',
    'sub//b%20c.png',
    'a.txt/',
    'a.txt%00',
    'a.txt%00.png',
    'a.txt%2f',
    'sub',
    'sub/',
    'missing',
    'a.txt/b',
    '%',
    '%ff',
    '%c0%ae%c0%ae/secret.txt',
    'a'.repeat(300),
    '../work-of-another/a.txt',
  ])('is refused, whatever it is called: %j', async (path) => {
    const { thrown, peer } = await get(path);
    expect([thrown, peer.head()]).toEqual(['file_unknown', '']);
  });

  it('is refused before there is a folder', async () => {
    expect((await get('a.txt', 'GET', [])).thrown).toBe('file_unknown');
  });

  it('is refused also behind a link, as a file or as a folder on the way', async () => {
    symlinkSync(join(root, 'secret.txt'), join(work, 'link.txt'));
    symlinkSync(root, join(work, 'up'));
    symlinkSync(join(root, 'work-of-another'), join(work, 'other'));
    for (const path of ['link.txt', 'up/secret.txt', 'up/work/a.txt/../../secret.txt', 'other/a.txt'])
      expect((await get(path)).thrown).toBe('file_unknown');
    // One that stays within is fine, also when the folder itself is reached by a link.
    symlinkSync('a.txt', join(work, 'fine.txt'));
    expect((await get('fine.txt')).peer.body()).toBe('text of a');
    symlinkSync(work, join(root, 'alias'));
    expect((await get('a.txt', 'GET', [join(root, 'alias')])).peer.body()).toBe('text of a');
    expect((await get('up/work/a.txt')).peer.body()).toBe('text of a');
    linkSync(join(work, 'a.txt'), join(work, 'hard.txt'));
    expect((await get('hard.txt')).peer.body()).toBe('text of a');
  });

  it('is refused at once where it is a pipe that nobody writes to', async () => {
    execFileSync('mkfifo', [join(work, 'pipe')]);
    expect((await get('pipe')).thrown).toBe('file_unknown');
  });
});
