import { vi } from 'vitest';

import type { BridgeError } from '../../../src/core/errors.ts';
import type { LogFields, Logger } from '../../../src/core/logger.ts';
import { type LiveSession, Registry, type RegistryLimits, sessionHash } from '../../../src/session/registry.ts';
import { MemoryStore, type SessionRecord } from '../../../src/session/store.ts';

/** Limits of the beds that state none; the ages are far away. */
const limits: RegistryLimits = {
  max: 4,
  maxPerOwner: undefined,
  idleTtlMs: 80_000,
  unusedTtlMs: 16_000,
  maxAgeMs: undefined,
  minFreeMemory: 0,
  replicaId: undefined,
};

/** A session without anything in it, which the test tells what it is doing. */
export class FakeSession implements LiveSession {
  readonly id: string;
  readonly hash: string;
  readonly owner: string;
  readonly createdAt = performance.now();
  lastUsedAt = performance.now();
  isInFlight = false;
  calls = 0;
  listens = false;
  /** When it was asked whether it is there. */
  readonly pings: number[] = [];
  readonly closedFor: string[] = [];
  /** What its ending does; done at once unless the test says otherwise. */
  onClose: () => Promise<void> = () => Promise.resolve();
  onPing: () => void = () => undefined;

  constructor(id: string, owner: string) {
    this.id = id;
    this.hash = sessionHash(id);
    this.owner = owner;
  }

  isBusy(): boolean {
    return this.isInFlight;
  }

  hasCalls(): boolean {
    return this.calls > 0;
  }

  callCount(): number {
    return this.calls;
  }

  hasStream(): boolean {
    return this.listens;
  }

  ping(): void {
    this.pings.push(performance.now());
    this.onPing();
  }

  close(reason: string): Promise<void> {
    this.closedFor.push(reason);
    return this.onClose();
  }
}

interface Logged {
  readonly level: keyof Logger;
  readonly event: string;
  readonly fields: LogFields;
}

/** A registry of fake sessions on the fake clock, with everything it tells. */
export class Bed {
  readonly store = new MemoryStore();
  readonly logged: Logged[] = [];
  /** `<hash> <reason>` of each session whose end was told. */
  readonly ended: string[] = [];
  readonly registry: Registry<FakeSession>;
  freeMemory: number | undefined = 1000;
  /** Time that passed without any timer coming, as for a process that was stopped. */
  stoppedMs = 0;
  onEnded: () => void = () => undefined;

  constructor(some: Partial<RegistryLimits> = {}, closeLimitMs?: number) {
    const at = (level: keyof Logger) => (event: string, fields?: LogFields) =>
      void this.logged.push({ level, event, fields: fields ?? {} });
    this.registry = new Registry({
      limits: { ...limits, ...some },
      store: this.store,
      logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
      availableMemory: () => this.freeMemory,
      now: () => performance.now() + this.stoppedMs,
      ...(closeLimitMs === undefined ? {} : { closeLimitMs }),
      onEnded: (session, reason) => {
        this.ended.push(`${session.hash} ${reason}`);
        this.onEnded();
      },
    });
  }

  open(owner = 'ann'): FakeSession {
    const session = new FakeSession(this.registry.admit(owner), owner);
    this.registry.add(session, makeRecord(session.id));
    return session;
  }

  /** The refusal of a new session; undefined if it would be admitted. */
  refusal(owner = 'ann'): BridgeError | undefined {
    try {
      this.registry.admit(owner);
      return undefined;
    } catch (failure) {
      return failure as BridgeError;
    }
  }

  /** Code and seconds of the refusal. */
  answer(owner = 'ann'): string {
    const refused = this.refusal(owner);
    return refused === undefined ? 'admitted' : `${refused.code} ${String(refused.data['retryAfterSeconds'])}`;
  }

  /** The log lines of this event. */
  lines(event: string): readonly Logged[] {
    return this.logged.filter((line) => line.event === event);
  }

  isOpen(session: FakeSession): boolean {
    return this.registry.find(session.id, session.owner) === session;
  }
}

function makeRecord(id: string): SessionRecord {
  const at = new Date().toISOString();
  const client = { name: 'a client', version: '1' };
  return { id, createdAt: at, lastUsedAt: at, state: 'open', client, protocolVersion: '2025-11-25' };
}

/** Lets time pass, and everything that it sets off. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}
