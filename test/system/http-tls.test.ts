import { readFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';

import { closeListeners, type ListenerBed, openListener, shortLimits } from '../support/listener-bed.ts';
import { waitUntil, withDeadline } from '../support/waiting.ts';

const folder = join(import.meta.dirname, '../fixtures/tls');
const passphrase = 'fixture-passphrase';
const pem = { cert: 'first-cert.pem', key: 'first-key.pem' };
const pfx = { pfx: 'second.pfx', passphrase };

/** Files by name; a test may put others under the same names, as an operator does. */
function makeFiles(): { readonly read: (name: string) => Buffer; readonly put: (name: string, other: string) => void } {
  const changed = new Map<string, string>();
  return {
    read: (name) => readFileSync(join(folder, changed.get(name) ?? name)),
    put: (name, other) => void changed.set(name, other),
  };
}

function openTls(tls: object, readFile = makeFiles().read, limits = shortLimits): Promise<ListenerBed> {
  return openListener(undefined, { protocol: 'https', tls, readFile, limits });
}

/** A connection whose handshake is done; its certificate is not checked but looked at. */
async function shakeHands({ port }: ListenerBed): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  socket.on('error', () => undefined);
  await withDeadline('a handshake', new Promise((resolve) => socket.once('secureConnect', resolve)));
  return socket;
}

async function servedName(bed: ListenerBed): Promise<unknown> {
  const socket = await shakeHands(bed);
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return CN;
}

afterEach(closeListeners);

describe('a server with TLS', () => {
  it('is trusted by a client that trusts its certificate', async () => {
    const { url } = await openTls(pem);
    expect(url).toMatch(/^https:/);
    const status = await new Promise((resolve, reject) => {
      const ca = readFileSync(join(folder, pem.cert));
      get(`${url}/x`, { ca, agent: false }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      }).on('error', reject);
    });
    expect(status).toBe(200);
  });

  it.each([
    ['a PEM pair', pem, 'first.test'],
    ['a PEM pair with an encrypted key', { ...pem, key: 'first-key-encrypted.pem', passphrase }, 'first.test'],
    ['a PFX file', pfx, 'second.test'],
  ])('takes %s', async (_what, tls, name) => {
    expect(await servedName(await openTls(tls))).toBe(name);
  });

  it.each([
    ['a missing certificate', { ...pem, cert: 'none.pem' }, 'file of --https-cert, none.pem, cannot be read: ENOENT'],
    ['a missing PFX file', { pfx: 'none.pfx' }, 'file of --https-pfx, none.pfx, cannot be read: ENOENT'],
    ['a key of another certificate', { ...pem, key: 'second-key.pem' }, 'second-key.pem (--https-key)'],
    ['an encrypted key without its passphrase', { ...pem, key: 'first-key-encrypted.pem' }, '(--https-key)'],
    ['a wrong passphrase', { ...pfx, passphrase: 'other-passphrase' }, 'second.pfx (--https-pfx)'],
    ['a certificate that is none', { ...pem, cert: 'README.md' }, 'README.md (--https-cert)'],
    ['a PFX file that is none', { pfx: 'README.md' }, 'README.md (--https-pfx)'],
  ])('does not open with %s, and says which setting it was', async (_what, tls, message) => {
    const error: unknown = await openTls(tls).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'tls', message: expect.stringContaining(message) });
    expect(JSON.stringify(error)).not.toContain('passphrase"');
  });
});

describe('reading the certificate again', () => {
  it('gives new connections the new one and leaves open ones alone', async () => {
    const files = makeFiles();
    const bed = await openTls(pem, files.read);
    const old = await shakeHands(bed);
    files.put(pem.cert, 'second-cert.pem');
    files.put(pem.key, 'second-key.pem');
    expect(await servedName(bed)).toBe('first.test');
    bed.listener.reloadTls();
    expect(await servedName(bed)).toBe('second.test');
    old.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const answer = await withDeadline('an answer', new Promise((resolve) => old.once('data', resolve)));
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
    old.destroy();
  });

  it('works for a PFX file too', async () => {
    const files = makeFiles();
    const bed = await openTls(pfx, files.read);
    bed.listener.reloadTls();
    expect(await servedName(bed)).toBe('second.test');
  });

  it('keeps the old one when the new one cannot be used', async () => {
    const files = makeFiles();
    const bed = await openTls(pem, files.read);
    for (const broken of ['none.pem', 'second-cert.pem', 'README.md']) {
      files.put(pem.cert, broken);
      expect(() => {
        bed.listener.reloadTls();
      }).toThrow(expect.objectContaining({ code: 'tls' }));
      expect(await servedName(bed)).toBe('first.test');
    }
  });

  it('is nothing for a server without TLS', async () => {
    const { listener, url } = await openListener();
    listener.reloadTls();
    expect((await fetch(url)).status).toBe(200);
  });
});

describe('a client without TLS', () => {
  it('that speaks HTTP, or noise, is let go, and the others are served', async () => {
    const bed = await openTls(pem);
    for (const bytes of ['GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'x'.repeat(500), '\x16\x03\x01\x00\x05hello']) {
      const connection = await bed.connect();
      connection.send(bytes);
      await connection.ended();
      connection.close();
    }
    expect(await servedName(bed)).toBe('first.test');
    await waitUntil('no connection', () => (bed.listener.connections === 0 ? true : undefined));
    expect(bed.logged.filter(({ level }) => level !== 'debug')).toEqual([]);
  });

  it('that never shakes hands is let go after the time for headers', async () => {
    const bed = await openTls(pem);
    const begin = performance.now();
    await (await bed.connect()).ended(shortLimits.headerTimeoutMs + 1500);
    expect(performance.now() - begin).toBeGreaterThan(shortLimits.headerTimeoutMs - 20);
    await waitUntil('no connection', () => (bed.listener.connections === 0 ? true : undefined));
  });
});

it('closes connections with and without a handshake', async () => {
  // A time for the handshake that is not what ends the connection without one.
  const bed = await openTls(pem, undefined, { ...shortLimits, headerTimeoutMs: 30_000, bodyTimeoutMs: 30_000 });
  const raw = await bed.connect();
  const [idle, used] = [await shakeHands(bed), await shakeHands(bed)];
  const ends = [idle, used].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  used.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await withDeadline('an answer', new Promise((resolve) => used.once('data', resolve)));
  await withDeadline('the close', bed.listener.close(), 3000);
  await withDeadline('the ends', Promise.all([...ends, raw.ended()]));
  expect(bed.listener.connections).toBe(0);
});
