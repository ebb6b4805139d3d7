import { X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContextOptions } from 'node:tls';

import { BridgeError, messageOf } from '../core/errors.ts';

/** Where certificate and key of the server are: a PEM pair, or both in one PFX file. */
export interface TlsFiles {
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly pfx?: string | undefined;
  readonly passphrase?: string | undefined;
}

/** Reads certificate and key and makes sure that they fit. Throws `tls` naming the file and its setting. */
export function loadTls(files: TlsFiles, readFile: (path: string) => Buffer): SecureContextOptions {
  const read = (path: string | undefined, setting: string): Buffer | undefined => {
    try {
      return path === undefined ? undefined : readFile(path);
    } catch (cause) {
      throw new BridgeError('tls', `The file of ${setting}, ${path}, cannot be read: ${messageOf(cause)}.`, {
        hint: `Give a file in ${setting} that this user may read.`,
        cause,
      });
    }
  };
  const { cert, key, pfx, passphrase } = files;
  const options = withoutUndefined({
    cert: read(cert, '--https-cert'),
    key: read(key, '--https-key'),
    pfx: read(pfx, '--https-pfx'),
    passphrase,
  });
  try {
    createSecureContext(options);
  } catch (cause) {
    throw unusable(files, cause);
  }
  return options;
}

/** Time in which somebody should have been told to renew a certificate. */
const warnBeforeMs = 14 * 86_400_000;

/**
 * What is to be said of a certificate that has expired or soon will. `path` and `certificate` are of the PEM file, both
 * undefined for a PFX, which is not looked into; `now` is a Unix time in milliseconds.
 */
export function expiryWarning(
  path: string | undefined,
  certificate: SecureContextOptions['cert'],
  now: number,
): string | undefined {
  if (path === undefined || !Buffer.isBuffer(certificate)) return undefined;
  const { validTo } = new X509Certificate(certificate);
  const left = Date.parse(validTo) - now;
  if (left > warnBeforeMs) return undefined;
  return left <= 0
    ? `--https-cert: the certificate in ${path} expired on ${validTo}; clients will refuse it`
    : `--https-cert: the certificate in ${path} expires on ${validTo}`;
}

function withoutUndefined(options: Record<string, Buffer | string | undefined>): SecureContextOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function unusable({ cert, key, pfx }: TlsFiles, cause: unknown): BridgeError {
  const what =
    pfx === undefined
      ? `${cert} (--https-cert) and ${key} (--https-key) are no pair of`
      : `${pfx} (--https-pfx) has no`;
  return new BridgeError('tls', `${what} certificate and key that can be used: ${messageOf(cause)}.`, {
    hint: 'Check that they belong together and that --https-passphrase is right; a PFX file in an old cipher must be made anew (openssl pkcs12 -export).',
    cause,
  });
}
