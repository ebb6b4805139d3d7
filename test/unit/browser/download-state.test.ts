import { describe, expect, it } from 'vitest';
import type { LogFields, Logger } from '../../../src/core/logger.ts';
import { DownloadProgress } from '../../../src/browser/download-progress.ts';
import { describeAmount, describeDownload } from '../../../src/browser/download-state.ts';
import type { DownloadState } from '../../../src/browser/download-state.ts';

describe('describeDownload', () => {
  const downloading = { state: 'downloading', host: 'x', version: '1', receivedBytes: 88_400_000 } as const;
  it.each<[DownloadState, string]>([
    [{ ...downloading, totalBytes: 203_000_000 }, 'downloading CloakBrowser 43 %, 88 of 203 MB'],
    [downloading, 'downloading CloakBrowser 88 MB'],
    [{ state: 'checking' }, 'looking for the installed CloakBrowser'],
    [{ state: 'failed', code: 'platform', message: 'no build' }, 'the browser is not available: no build'],
  ])('says %o in words', (state, text) => {
    expect(describeDownload(state)).toBe(text);
  });

  it('never passes 100 %', () => {
    expect(describeAmount(12_000_000, 10_000_000)).toBe('100 %, 12 of 10 MB');
  });
});

describe('DownloadProgress', () => {
  it('passes every state on and writes a line for each tenth', () => {
    const lines: (string | undefined)[] = [];
    const ignore = (): void => undefined;
    const info = (_: string, fields?: LogFields): void => void lines.push(fields?.line);
    const logger: Logger = { debug: ignore, info, warn: ignore, error: ignore };
    const states: DownloadState[] = [];
    const progress = new DownloadProgress(logger, (state) => states.push(state));
    const request = { host: 'x', version: '1', totalBytes: 1000, status: 200, contentType: undefined, stalled: false };
    for (let receivedBytes = 0; receivedBytes <= 1000; receivedBytes += 25)
      progress.setRequest({ ...request, receivedBytes }, '1');
    expect(states).toHaveLength(41);
    expect(progress.state).toMatchObject({ state: 'downloading', receivedBytes: 1000, totalBytes: 1000 });
    expect(lines).toHaveLength(11);
    expect(lines.at(-1)).toBe('100 %, 0 of 0 MB from x');
  });
});
