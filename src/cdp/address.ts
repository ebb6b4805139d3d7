/** The base of the URLs that clients use. */
export interface Address {
  readonly scheme: 'http' | 'https';
  /** As in a URL: an IPv6 address in brackets. */
  readonly host: string;
  readonly port: number;
  /** Of a proxy in front; empty or with a leading slash and without a final one. */
  readonly path: string;
}

/** Host and port as they stand in a URL and in a Host header: without the port that the scheme implies. */
export function authorityOf({ scheme, host, port }: Address): string {
  return port === (scheme === 'https' ? 443 : 80) ? host : `${host}:${port}`;
}

function baseOf(address: Address, capability: string): string {
  return `${authorityOf(address)}${address.path}/cdp/${capability}`;
}

/** The URL for clients that ask over HTTP first. */
export function discoveryUrl(address: Address, capability: string): string {
  return `${address.scheme}://${baseOf(address, capability)}`;
}

/** The complete URL of a WebSocket; `pathname` is Chromium's own path of it. */
export function webSocketUrl(address: Address, capability: string, pathname: string): string {
  return `${address.scheme === 'https' ? 'wss' : 'ws'}://${baseOf(address, capability)}${pathname}`;
}
