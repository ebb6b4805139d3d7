import type { ErrorCode } from '../core/errors.ts';

/** How far the browser binary is, as shown to people and in the info tool. */
export type DownloadState =
  | { readonly state: 'idle' }
  | { readonly state: 'checking' }
  | {
      readonly state: 'downloading';
      readonly receivedBytes: number;
      readonly totalBytes?: number | undefined;
      readonly host: string;
      readonly version: string;
    }
  | { readonly state: 'extracting' }
  | { readonly state: 'ready' }
  | { readonly state: 'failed'; readonly code: ErrorCode; readonly message: string };

const megabyte = 1_000_000;

/** Received and total of a download in the words used in logs and answers: `43 %, 88 of 203 MB`. */
export function describeAmount(receivedBytes: number, totalBytes?: number): string {
  const received = Math.floor(receivedBytes / megabyte);
  if (totalBytes === undefined || totalBytes <= 0) return `${received} MB`;
  const percent = Math.min(100, Math.floor((receivedBytes / totalBytes) * 100));
  return `${percent} %, ${received} of ${Math.round(totalBytes / megabyte)} MB`;
}

/** One phrase that says what the browser binary is doing, for a call that cannot be served yet. */
export function describeDownload(state: DownloadState): string {
  switch (state.state) {
    case 'idle':
      return 'the browser has not been looked for yet';
    case 'checking':
      return 'looking for the installed CloakBrowser';
    case 'downloading':
      return `downloading CloakBrowser ${describeAmount(state.receivedBytes, state.totalBytes)}`;
    case 'extracting':
      return 'checking and unpacking the downloaded CloakBrowser';
    case 'ready':
      return 'the browser is installed';
    case 'failed':
      return `the browser is not available: ${state.message}`;
  }
}
