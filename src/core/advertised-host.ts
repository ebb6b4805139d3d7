import { isIPv6 } from 'node:net';

/** Host, port and path by which clients reach a listener that stands behind something else. */
export interface AdvertisedHost {
  /** As in a URL: an IPv6 address in brackets. */
  readonly host: string;
  readonly port?: number;
  /** Empty, or with a leading slash and without a final one. */
  readonly path: string;
}

const largestPort = 65_535;
const form = /^(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(\d{1,5}))?((?:\/[\w.~-]+)*)\/?$/i;

/** Reads `host[:port][/path]`; undefined when it is nothing of the kind, or names every network. */
export function parseAdvertisedHost(text: string): AdvertisedHost | undefined {
  const [, host, portText, path = ''] = form.exec(text) ?? [];
  if (host === undefined) return undefined;
  const bare = host.replace(/^\[|\]$/g, '');
  if (host.startsWith('[') ? !isIPv6(bare) || bare === '::' : host === '0.0.0.0') return undefined;
  if (portText === undefined) return { host, path };
  const port = Number(portText);
  return port >= 1 && port <= largestPort ? { host, port, path } : undefined;
}
