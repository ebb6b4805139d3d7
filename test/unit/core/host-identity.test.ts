import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import { hostIdentity } from '../../../src/core/host-identity.ts';
import type { Host } from '../../../src/core/host.ts';

const identityOf = (hostname: string): string => hostIdentity({ hostname } as Host);

describe('hostIdentity', () => {
  it('is the same each time, and another one for another host', () => {
    expect(identityOf('here')).toBe(identityOf('here'));
    expect(identityOf('here')).not.toBe(identityOf('there'));
  });

  it.runIf(existsSync('/proc/self/ns/pid'))(
    'has the boot and the namespace of the pids, where the system tells them',
    () => {
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
      expect(identityOf('here').split(' ')).toEqual(['here', boot, readlinkSync('/proc/self/ns/pid')]);
    },
  );
});
