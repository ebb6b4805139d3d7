import { isIPv4 } from 'node:net';

/** Whether only this computer can reach a host of this name: `localhost`, 127.0.0.0/8 or `::1`, with brackets or without. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  // An address and not only its beginning: 127.example.org is anybody's name.
  return name === 'localhost' || name === '::1' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'));
}
