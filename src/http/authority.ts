import { isIPv6 } from 'node:net';

import { isLoopbackHost } from '../core/loopback.ts';

/** A host and its port, in a form in which equal ones are equal texts. */
export interface Authority {
  /** In lower case, without brackets, zone and final dot; an IPv4 address mapped into IPv6 as IPv4. */
  readonly name: string;
  readonly port: number | undefined;
}

const authorityForm = /^(?:\[([0-9a-f:.]+)(?:%[\w.~%-]+)?\]|([\w.-]+))(?::(\d{0,5}))?$/i;
const mappedForm = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/** Reads `name:port`, the port being optional; undefined when it is none. */
export function parseAuthority(text: string): Authority | undefined {
  const [, address, word, digits = ''] = authorityForm.exec(text) ?? [];
  if (address !== undefined && !isIPv6(address)) return undefined;
  const name = canonicalHost(address ?? word ?? '');
  const port = digits === '' ? undefined : Number(digits);
  return name === '' || (port ?? 0) > 65_535 ? undefined : { name, port };
}

/** A host name or address, with or without brackets, in the form in which equal ones are equal. */
export function canonicalHost(host: string): string {
  const bare = host.replace(/^\[(.*)\]$/, '$1').replace(/%.*$/, '');
  return isIPv6(bare) ? canonicalIpv6(bare) : bare.toLowerCase().replace(/\.$/, '');
}

function canonicalIpv6(address: string): string {
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [, high, low] = mappedForm.exec(short) ?? [];
  if (high === undefined || low === undefined) return short;
  const [upper, lower] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [upper >> 8, upper & 255, lower >> 8, lower & 255].join('.');
}

/** Whether a name means this computer alone, in whatever form it is written. */
export function isLoopbackName(host: string): boolean {
  return isLoopbackHost(canonicalHost(host));
}
