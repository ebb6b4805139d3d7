import { readFileSync, readlinkSync } from 'node:fs';

import type { Host } from './host.ts';

function attempt(read: () => string): string {
  try {
    return read().trim();
  } catch {
    // Not Linux: the name of the host is all that tells it from others.
    return '';
  }
}

/**
 * What a pid means something in: the host by name, its boot, and the namespace of its pids. Containers may share a
 * host's name and a folder with others, but not their pids.
 */
export function hostIdentity(host: Host): string {
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
  const namespace = attempt(() => readlinkSync('/proc/self/ns/pid'));
  return [host.hostname.slice(0, 200), boot, namespace].join(' ');
}
