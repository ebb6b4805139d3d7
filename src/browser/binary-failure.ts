import { BridgeError, messageOf } from '../core/errors.ts';
import type { ErrorCode } from '../core/errors.ts';
import { describeAmount } from './download-state.ts';

/** What is known of the latest archive request when something fails. */
export interface ArchiveRequest {
  readonly host: string;
  readonly version: string | undefined;
  receivedBytes: number;
  totalBytes: number | undefined;
  status: number | undefined;
  contentType: string | undefined;
  stalled: boolean;
}

/** An error of the wrapper with its causes, flattened so that it survives a thread boundary. */
export interface WrapperFailure {
  readonly messages: readonly string[];
  readonly names: readonly string[];
  readonly codes: readonly string[];
}

/** What the failed task was about. */
export interface FailureContext {
  readonly request: ArchiveRequest | undefined;
  readonly version: string;
  readonly platform: string;
  readonly cacheDir: string;
  readonly stallTimeoutMs: number;
}

/** Causes deeper than this repeat what is above them. */
const deepestCause = 6;

/** Collects messages, names and codes of a thrown value and of everything that caused it. */
export function flattenFailure(thrown: unknown): WrapperFailure {
  const messages: string[] = [];
  const names: string[] = [];
  const codes: string[] = [];
  const visit = (value: unknown, depth: number): void => {
    if (value === undefined || depth > deepestCause) return;
    if (!(value instanceof Error)) {
      messages.push(messageOf(value));
      return;
    }
    names.push(value.name);
    if (value.message !== '') messages.push(value.message);
    if ('code' in value && typeof value.code === 'string') codes.push(value.code);
    visit(value.cause, depth + 1);
    if (value instanceof AggregateError) for (const inner of value.errors) visit(inner, depth + 1);
  };
  visit(thrown, 0);
  return { messages, names, codes };
}

const ownBrowser = '--binary-path PATH (a browser that is already on this machine)';
const otherEngine = "--browser-engine playwright (upstream's own choice of browser)";
const waysOut =
  `Ways out: ${ownBrowser}; --browser-version VERSION (another version); ` +
  `CLOAKBROWSER_CACHE_DIR (a folder that already holds the browser); ${otherEngine}.`;

const folderCodes = /^(EROFS|EACCES|EPERM|ENOTDIR|EEXIST|EISDIR|ENOSPC|EDQUOT|ENOENT|EMFILE|EIO)$/;
const archiveCodes = /^(TAR_|Z_)/;
const platformText = /unsupported platform|only available for:/i;
const credentialsText = /URL that includes credentials/;
const licenceText = /license key is invalid|license could not be validated/i;
const manifestText = /could not fetch (a|the) signed SHA256SUMS/i;
const corruptText =
  /checksum|signature|SHA256SUMS|version mismatch|archive format|unexpected end of file|incorrect header|binary not found at|unzip/i;
/** A firewall refuses with the codes of a folder. */
const socketText = /\b(connect|getaddrinfo) E/;
const networkText =
  /fetch failed|terminated|\bconnect |getaddrinfo|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|UND_ERR|CERT|socket|aborted|timeout|latest Pro version|HTTP \d{3}/i;

/** The HTTP status in the wrapper's text; the request's own status is of the last try only. */
function httpStatus(text: string, request: ArchiveRequest | undefined): number | undefined {
  const found = /HTTP (\d{3})/.exec(text)?.[1];
  if (found !== undefined) return Number(found);
  return request?.status !== undefined && request.status >= 400 ? request.status : undefined;
}

function codeOf(failure: WrapperFailure, request: ArchiveRequest | undefined): ErrorCode {
  const text = failure.messages.join('\n');
  const status = httpStatus(text, request);
  const rules: [ErrorCode, boolean][] = [
    ['platform', platformText.test(text)],
    ['config', text.includes('Invalid browser version pin') || credentialsText.test(text)],
    ['licence', licenceText.test(text)],
    ['download_stalled', request?.stalled === true],
    ['folder_unwritable', !socketText.test(text) && failure.codes.some((code) => folderCodes.test(code))],
    ['download_missing', status === 404 || status === 410],
    ['licence', (status === 401 || status === 403) && text.includes('Pro binary unavailable')],
    ['download_network', manifestText.test(text)],
    ['download_corrupt', failure.codes.some((code) => archiveCodes.test(code)) || corruptText.test(text)],
    ['download_network', networkText.test(`${text} ${failure.codes.join(' ')}`)],
  ];
  return rules.find(([, applies]) => applies)?.[0] ?? 'internal';
}

function reasonFor(code: ErrorCode, failure: WrapperFailure, context: FailureContext): string {
  const { request } = context;
  // The innermost message names the real reason ("connect ECONNREFUSED ..."), the outer ones say "fetch failed".
  const inner = failure.messages.at(-1) ?? 'unknown reason';
  switch (code) {
    case 'download_stalled': {
      const amount = describeAmount(request?.receivedBytes ?? 0, request?.totalBytes);
      return `no byte arrived for ${context.stallTimeoutMs} ms (${amount} so far)`;
    }
    case 'download_missing':
      return `the server answered HTTP ${httpStatus(failure.messages.join('\n'), request) ?? 404}`;
    case 'download_corrupt': {
      const type = request?.contentType;
      return type === undefined || /gzip|octet-stream|zip|tar/.test(type) ? inner : `${inner} (content type ${type})`;
    }
    default:
      return inner;
  }
}

function downloadError(code: ErrorCode, failure: WrapperFailure, context: FailureContext): BridgeError {
  const { request } = context;
  const version = request?.version ?? context.version;
  const source = request === undefined ? '' : ` from ${request.host}`;
  const what = `CloakBrowser ${version} for ${context.platform}${source}`;
  const verb = code === 'download_corrupt' ? 'The downloaded archive cannot be used' : 'The browser download failed';
  const hints: Partial<Record<ErrorCode, string>> = {
    download_network: 'Check the network and CLOAKBROWSER_DOWNLOAD_URL, then try the call again.',
    download_stalled: 'Try the call again; --stall-timeout-ms sets how long silence is allowed.',
    download_missing: 'Check CLOAKBROWSER_DOWNLOAD_URL and the version.',
    download_corrupt: 'Nothing of it was installed. Try the call again; if it repeats, the server is at fault.',
  };
  return new BridgeError(code, `${verb}: ${reasonFor(code, failure, context)}. It was ${what}.`, {
    hint: [hints[code], waysOut].filter((part) => part !== undefined).join(' '),
    data: { host: request?.host, version, platform: context.platform },
  });
}

/** A folder problem, with the settings that name another folder. */
export function folderError(folder: string, thrown: unknown): BridgeError {
  const failure = flattenFailure(thrown);
  const full = failure.codes.some((code) => code === 'ENOSPC' || code === 'EDQUOT');
  const problem = full ? 'has no space left for' : 'cannot be written for';
  return new BridgeError(
    'folder_unwritable',
    `The folder ${folder} ${problem} the browser: ${failure.messages.at(-1) ?? 'unknown reason'}.`,
    {
      hint: `Set CLOAKBROWSER_CACHE_DIR to a folder that can be written, or use ${ownBrowser} or ${otherEngine}.`,
      cause: thrown,
    },
  );
}

/** A browser named by the user that cannot be run. */
export function explainBinaryPath(path: string, problem: string): BridgeError {
  return new BridgeError('binary_path', `The browser ${path} cannot be used: ${problem}.`, {
    hint: `Correct --binary-path (or CLOAKBROWSER_BINARY_PATH), leave it out to use CloakBrowser, or use ${otherEngine}.`,
  });
}

function credentialsError(): BridgeError {
  return new BridgeError('config', 'CLOAKBROWSER_DOWNLOAD_URL must not hold a user name or password.', {
    hint: `Give the address without them, or use ${ownBrowser}.`,
  });
}

/** Turns an error of the wrapper into one of ours: what was tried, why it failed, and the ways out. */
export function explainFailure(failure: WrapperFailure, context: FailureContext): BridgeError {
  const code = codeOf(failure, context.request);
  const text = failure.messages[0] ?? 'unknown reason';
  switch (code) {
    case 'folder_unwritable':
      return folderError(
        context.cacheDir,
        Object.assign(new Error(failure.messages.at(-1)), { code: failure.codes.at(-1) }),
      );
    case 'platform':
      return new BridgeError('platform', `CloakBrowser has no build for this machine: ${text}`, {
        hint: `Use ${ownBrowser} or ${otherEngine}.`,
      });
    case 'licence':
      return new BridgeError('licence', text, {
        hint: `Correct or unset CLOAKBROWSER_LICENSE_KEY (or license.key in ${context.cacheDir}), or use ${ownBrowser} or ${otherEngine}.`,
      });
    case 'config':
      if (credentialsText.test(text)) return credentialsError();
      return new BridgeError('config', text, { hint: 'Set --browser-version to a full version, or leave it out.' });
    case 'internal':
      return new BridgeError('internal', `The browser could not be made ready: ${text}`, { hint: waysOut });
    default:
      return downloadError(code, failure, context);
  }
}
