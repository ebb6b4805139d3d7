import { describe, expect, it } from 'vitest';
import { explainFailure, flattenFailure, folderError } from '../../../src/browser/binary-failure.ts';
import type { ArchiveRequest } from '../../../src/browser/binary-failure.ts';

const request: ArchiveRequest = {
  host: 'download.example',
  version: '1.2.3.4',
  receivedBytes: 88_000_000,
  totalBytes: 203_000_000,
  status: 200,
  contentType: 'application/gzip',
  stalled: false,
};
const context = { request, version: '1.2.3.4', platform: 'linux-x64', cacheDir: '/cache', stallTimeoutMs: 30_000 };

function withCode(message: string, code: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code });
}

function explain(thrown: unknown, changes: Partial<ArchiveRequest> = {}): ReturnType<typeof explainFailure> {
  return explainFailure(flattenFailure(thrown), { ...context, request: { ...request, ...changes } });
}

describe('an error of the wrapper', () => {
  const refused = new TypeError('fetch failed', {
    cause: withCode('connect ECONNREFUSED 127.0.0.1:9', 'ECONNREFUSED'),
  });
  const pro = 'Pro binary unavailable: Error: Download failed: HTTP 403 Forbidden. Your license is valid but';
  const invalid = 'CloakBrowser Pro: license key is invalid or expired (plan=solo). Check CLOAKBROWSER_LICENSE_KEY';
  it.each([
    ['Unsupported platform: win32 arm64. Supported: linux-x64', 'platform'],
    ['CloakBrowser — Pre-built binaries are currently only available for: linux-x64.', 'platform'],
    [invalid, 'licence'],
    ['CloakBrowser Pro: license could not be validated (server unreachable and no cached validation).', 'licence'],
    [pro, 'licence'],
    ['Could not determine latest Pro version from server', 'download_network'],
    ['Invalid browser version pin. Use a full numeric Chromium version', 'config'],
    ['Download failed: HTTP 404 Not Found', 'download_missing'],
    ['Download failed: HTTP 410 Gone', 'download_missing'],
    ['Download failed: HTTP 502 Bad Gateway', 'download_network'],
    ['Checksum verification failed!', 'download_corrupt'],
    ['SHA256SUMS signature verification failed — no pinned key validated the manifest.', 'download_corrupt'],
    ['Version mismatch in signed SHA256SUMS: requested 1, manifest declares 2.', 'download_corrupt'],
    ['Could not fetch a signed SHA256SUMS (SHA256SUMS + SHA256SUMS.sig) for this release', 'download_network'],
    ['Download completed but binary not found at expected path: /x', 'download_corrupt'],
    ['something that nobody has seen', 'internal'],
  ])('%s becomes %s', (message, code) => {
    expect(explain(new Error(message)).code).toBe(code);
  });

  it.each([
    [refused, 'download_network'],
    [new TypeError('fetch failed', { cause: withCode('getaddrinfo ENOTFOUND x', 'ENOTFOUND') }), 'download_network'],
    [new TypeError('terminated', { cause: withCode('other side closed', 'UND_ERR_SOCKET') }), 'download_network'],
    [withCode('connect EACCES 10.0.0.1:443', 'EACCES'), 'download_network'],
    [withCode('Unrecognized archive format', 'TAR_BAD_ARCHIVE'), 'download_corrupt'],
    [withCode('unexpected end of file', 'Z_BUF_ERROR'), 'download_corrupt'],
    [withCode("EROFS: read-only file system, mkdir '/cache'", 'EROFS'), 'folder_unwritable'],
    [withCode("EACCES: permission denied, open '/cache/x'", 'EACCES'), 'folder_unwritable'],
    [withCode('ENOSPC: no space left on device, write', 'ENOSPC'), 'folder_unwritable'],
    [new AggregateError([refused], 'all failed'), 'download_network'],
  ])('%s is known by its code or its cause', (thrown, code) => {
    expect(explain(thrown).code).toBe(code);
  });

  it('tells how far a stalled download came', () => {
    const error = explain(new Error('no byte arrived in time'), { stalled: true });
    expect(error.code).toBe('download_stalled');
    expect(error.message).toContain('no byte arrived for 30000 ms (43 %, 88 of 203 MB so far)');
    expect(error.message).toContain('CloakBrowser 1.2.3.4 for linux-x64 from download.example');
  });

  it('names the content type only if it is not that of an archive', () => {
    const broken = withCode('Unrecognized archive format', 'TAR_BAD_ARCHIVE');
    expect(explain(broken).message).not.toContain('content type');
    expect(explain(broken, { contentType: 'text/html' }).message).toContain('content type text/html');
  });

  it('without a request names version and platform', () => {
    const error = explainFailure(flattenFailure(refused), { ...context, request: undefined });
    expect(error.message).toContain('It was CloakBrowser 1.2.3.4 for linux-x64.');
  });
});

describe('flattenFailure', () => {
  it('ends at a cause that points back to itself', () => {
    const error = new Error('round');
    error.cause = error;
    expect(flattenFailure(error).messages.length).toBeLessThan(10);
  });

  it('takes anything that can be thrown', () => {
    expect(flattenFailure('text').messages).toEqual(['text']);
    expect(flattenFailure(undefined).messages).toEqual([]);
    expect(explain(undefined).message).toContain('unknown reason');
  });
});

describe('folderError', () => {
  it('tells a full disk from a folder that is closed', () => {
    expect(folderError('/cache', withCode('ENOSPC: no space', 'ENOSPC')).message).toContain('has no space left');
    expect(folderError('/cache', withCode('EROFS: read-only', 'EROFS')).message).toContain('cannot be written');
  });
});
