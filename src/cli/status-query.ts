import { X509Certificate } from 'node:crypto';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet, type RequestOptions } from 'node:https';
import { checkServerIdentity, type PeerCertificate, rootCertificates } from 'node:tls';

import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';

/** A server with many busy browsers takes a second to measure them. */
const answerMs = 10_000;
/** A table of a thousand sessions has some 300 KB; what is longer comes from something else. */
const longestAnswer = 8_388_608;

/** Whom to ask. */
export interface StatusQuery {
  readonly url: URL;
  readonly token: string | undefined;
  /** The server's own certificate as PEM: it is trusted besides the usual authorities. */
  readonly certificate: string | undefined;
}

/** What came back. */
export interface StatusAnswer {
  readonly status: number;
  readonly text: string;
}

/** A failure of the status command, with the address that was tried. */
export function unreachable(url: URL, what: string, hint: string, cause?: unknown): BridgeError {
  return new BridgeError('server_unreachable', `${url.href}: ${what}${what.endsWith('.') ? '' : '.'}`, { hint, cause });
}

function explain({ url, certificate }: StatusQuery, failure: Error): BridgeError {
  const code = 'code' in failure ? String(failure.code) : '';
  // Several addresses of one name fail together, and then the message is empty.
  const reason = failure.message === '' ? code : failure.message;
  if (/^(DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|CERT_|ERR_TLS_CERT)/.test(code)) {
    const hint = certificate === undefined ? 'Give it by --https-cert' : 'It is not the one of --https-cert; give that';
    return unreachable(
      url,
      `the certificate of the server is not trusted: ${reason}`,
      `${hint}, or the authority that signed it by the environment variable NODE_EXTRA_CA_CERTS.`,
      failure,
    );
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL')) {
    const hint = 'Ask it by an address that begins with http://, or with --http-protocol http.';
    return unreachable(url, 'what listens there does not speak TLS', hint, failure);
  }
  if (code === 'ECONNRESET' || code.startsWith('HPE_')) {
    const hint =
      'If the server uses TLS, ask it by an address that begins with https://, or with --http-protocol https.';
    return unreachable(url, `what listens there does not answer HTTP: ${reason}`, hint, failure);
  }
  return unreachable(
    url,
    `no server is reached: ${reason}`,
    'Is one running with --transport streamable-http? Give its address as in "cloakbrowser-mcp status http://host:3000", or its --http-host and --http-port.',
    failure,
  );
}

function trust(certificate: string): RequestOptions {
  const own = new X509Certificate(certificate).raw;
  return {
    ca: [...rootCertificates, certificate],
    // Whoever has just this certificate need not also have the authority's.
    allowPartialTrustChain: true,
    // It is the one that was meant, whatever name we reach it by, as 127.0.0.1 instead of the one in it.
    checkServerIdentity: (host: string, shown: PeerCertificate) =>
      own.equals(shown.raw) ? undefined : checkServerIdentity(host, shown),
  };
}

function certificateOptions(certificate: string | undefined): RequestOptions {
  if (certificate === undefined) return {};
  try {
    return trust(certificate);
  } catch (cause) {
    throw new BridgeError('tls', `The file of --https-cert holds no certificate: ${messageOf(cause)}.`, { cause });
  }
}

async function readAnswer(response: IncomingMessage): Promise<StatusAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > longestAnswer) throw new Error(`the answer has more than ${longestAnswer} bytes`);
    chunks.push(chunk);
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
}

function request({ url, token, certificate }: StatusQuery, signal: AbortSignal): Promise<IncomingMessage> {
  const options: RequestOptions = {
    headers: { accept: 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    // No connection is left over to wait for.
    agent: false,
    signal,
    ...(url.protocol === 'https:' ? certificateOptions(certificate) : {}),
  };
  const get = url.protocol === 'https:' ? httpsGet : httpGet;
  return new Promise((resolve, reject) => {
    get(url, options, resolve).on('error', reject);
  });
}

/** Asks a server for its status. Throws `server_unreachable` with what was tried and what to do. */
export async function queryStatus(query: StatusQuery, signal: AbortSignal): Promise<StatusAnswer> {
  const stop = new AbortController();
  const asking = request(query, AbortSignal.any([signal, stop.signal])).then(readAnswer);
  try {
    const answer = await within(asking, answerMs);
    if (answer !== timedOut) return answer;
  } catch (failure) {
    if (failure instanceof BridgeError) throw failure;
    throw explain(query, failure instanceof Error ? failure : new Error(messageOf(failure)));
  }
  asking.catch(() => undefined);
  stop.abort();
  const hint = 'The server may be stopped or overloaded, or a firewall may keep the connection from it.';
  throw unreachable(query.url, `no answer within ${answerMs / 1000} s`, hint);
}
