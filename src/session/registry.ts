import { createHash, randomBytes } from 'node:crypto';

import { timedOut, within } from '../core/deadline.ts';
import { BridgeError, messageOf } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { drainingError, memoryError, sessionsFullError, tokenFullError } from './refusal.ts';
import type { SessionRecord, SessionStore } from './store.ts';

/** Random bytes of a session id: nobody guesses one, and base64url writes them without padding. */
const idBytes = 24;
/** Characters of a session's hash in logs: enough to tell sessions apart, too few to find the id by trying. */
const hashLength = 12;
/** Expired sessions are looked for at least so often, however long their limits. */
const longestSweepMs = 5000;
/** A limit that is shorter than any real one must not turn the sweep into a busy loop. */
const shortestSweepMs = 20;
/** A session over its age that has a call in flight gets this part of the age on top, to finish it. */
const ageGrace = 0.1;
/** A sweep that is so late comes after a stop of the whole process, such as a frozen container. */
const lateSweepMs = 2000;
/** The ending of a session is waited for so long: its child's graces add up to 12 s at most by default. */
const usualCloseLimitMs = 30_000;
/** How often the record of a session that is in use is brought up to date. */
const recordEveryMs = 1000;

/** What the registry must know of a session, whatever else it is. */
export interface LiveSession {
  readonly id: string;
  /** Stands for the id in logs: `sessionHash(id)`. */
  readonly hash: string;
  /** Who opened it; nobody else finds it. */
  readonly owner: string;
  /** On the registry's clock, in milliseconds. */
  readonly createdAt: number;
  /** On the registry's clock, in milliseconds; set by `touch`. */
  lastUsedAt: number;
  /** True while a request with an open connection is in flight. */
  isBusy(): boolean;
  /** True once a call was forwarded. */
  hasCalls(): boolean;
  /** How many calls were forwarded, for the log. */
  callCount(): number;
  /** True while the client listens on a stream of its own. */
  hasStream(): boolean;
  /** Asks the client over its stream whether it is there; its answer arrives as a request. */
  ping(): void;
  /** Ends all of it. Called once; must not wait for the registry's `end`. */
  close(reason: string): Promise<void>;
}

/** Limits of a registry. */
export interface RegistryLimits {
  /** Sessions at once, those that are ending included: they still hold a browser. */
  readonly max: number;
  readonly maxPerOwner: number | undefined;
  readonly idleTtlMs: number;
  /** Idle limit of a session without any forwarded call. */
  readonly unusedTtlMs: number;
  readonly maxAgeMs: number | undefined;
  /** Bytes; 0 turns it off. */
  readonly minFreeMemory: number;
  /** Prefix of session ids that a balancer can route by. */
  readonly replicaId: string | undefined;
}

/** What a registry is made with. */
export interface RegistryParts<S extends LiveSession> {
  readonly limits: RegistryLimits;
  readonly store: SessionStore;
  readonly logger: Logger;
  /** Bytes; undefined where that cannot be told. */
  readonly availableMemory: () => number | undefined;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
  /** How long the ending of a session is waited for, in milliseconds; 30 s unless given. */
  readonly closeLimitMs?: number;
  /** Called once for each session that was added, when nothing of it is left. */
  readonly onEnded: (session: S, reason: string) => void;
}

interface Entry<S> {
  readonly session: S;
  record: SessionRecord;
  recordedAt: number;
  pingedAt: number;
}

/** What stands for a session id where the id itself must not be seen. */
export function sessionHash(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, hashLength);
}

/**
 * The live sessions of a process: admits, finds, expires and ends them. A session that ends is not found any more at
 * once, counts until nothing of it is left, and ends once, whoever asks for it and how often.
 */
export class Registry<S extends LiveSession> {
  readonly #parts: RegistryParts<S>;
  readonly #open = new Map<string, Entry<S>>();
  readonly #closing = new Map<S, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isDraining = false;
  /** Why all sessions end, once they do. */
  #lastReason: string | undefined;

  constructor(parts: RegistryParts<S>) {
    this.#parts = parts;
  }

  /** Sessions that can be found. */
  get size(): number {
    return this.#open.size;
  }

  /** True from the first call of `drain` on. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** The sessions that can be found, the oldest first. */
  *sessions(): Iterable<S> {
    for (const { session } of this.#open.values()) yield session;
  }

  /** Sessions that can be found, and those that are ending. */
  counts(): { readonly open: number; readonly closing: number } {
    return { open: this.#open.size, closing: this.#closing.size };
  }

  /**
   * The id for a new session of this owner. Nothing is reserved: `add` follows without waiting in between. Throws
   * `draining`, `memory_low`, `sessions_full` or `token_full` with `retryAfterSeconds` in its data.
   */
  admit(owner: string): string {
    const refusal = this.refusal() ?? this.#ownerRefusal(owner);
    if (refusal !== undefined) throw refusal;
    const { replicaId } = this.#parts.limits;
    const id = randomBytes(idBytes).toString('base64url');
    return replicaId === undefined ? id : `${replicaId}.${id}`;
  }

  /** Why no owner at all could open a session now; undefined if one could. For readiness. */
  refusal(): BridgeError | undefined {
    const { max, minFreeMemory } = this.#parts.limits;
    if (this.#isDraining) return drainingError();
    const free = minFreeMemory === 0 ? undefined : this.#parts.availableMemory();
    if (free !== undefined && free < minFreeMemory) return memoryError(free, minFreeMemory);
    const isFull = this.#open.size + this.#closing.size >= max;
    return isFull
      ? sessionsFullError(
          max,
          this.#msUntilFree(() => true),
        )
      : undefined;
  }

  /** Takes a session in. After `closeAll` it is ended at once. Throws `internal` if the id is in use. */
  add(session: S, record: SessionRecord): void {
    if (this.#open.has(session.id)) throw new BridgeError('internal', 'This session id is in use already.');
    this.#open.set(session.id, { session, record, recordedAt: -Infinity, pingedAt: -Infinity });
    this.#keep('put', () => {
      this.#parts.store.put(record);
    });
    this.#parts.logger.info('session opened', { sessionId: session.hash, count: this.#open.size });
    this.#timer ??= this.#startSweeping();
    if (this.#lastReason !== undefined) void this.end(session, this.#lastReason);
  }

  /** The session with this id, if it is this owner's. */
  find(id: string, owner: string): S | undefined {
    const session = this.#open.get(id)?.session;
    return session?.owner === owner ? session : undefined;
  }

  /** Notes that a session was used now. */
  touch(session: S): void {
    const entry = this.#open.get(session.id);
    if (entry?.session !== session) return;
    const now = this.#parts.now();
    session.lastUsedAt = now;
    // A record that lags by less than anybody can see saves every call the writing of a date.
    if (now - entry.recordedAt < recordEveryMs) return;
    entry.recordedAt = now;
    const lastUsedAt = new Date().toISOString();
    entry.record = { ...entry.record, lastUsedAt };
    this.#keep('touch', () => {
      this.#parts.store.touch(session.id, lastUsedAt);
    });
  }

  /**
   * Ends a session. It is not found any more at once; the promise settles when nothing of it is left, or
   * `closeLimitMs` later, and never rejects. Further calls get the same promise and change nothing.
   */
  end(session: S, reason: string): Promise<void> {
    const entry = this.#open.get(session.id);
    if (entry?.session !== session) return this.#closing.get(session) ?? Promise.resolve();
    this.#open.delete(session.id);
    if (this.#open.size === 0) this.#stopSweeping();
    // Begins after this statement, so that an ending that asks for its own ending finds it here.
    const ending = Promise.resolve().then(() => this.#finish(entry, reason));
    this.#closing.set(session, ending);
    return ending;
  }

  /** Ends the sessions that are over a limit, and asks clients that were silent for half of it whether they are there. */
  sweep(): void {
    for (const entry of [...this.#open.values()]) {
      try {
        this.#check(entry);
      } catch (failure) {
        // One session's mistake must not keep the others from expiring.
        this.#parts.logger.error('session not checked', {
          sessionId: entry.session.hash,
          reason: messageOf(failure),
        });
      }
    }
  }

  /** From now on no session is admitted. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Admits nothing more, ends all sessions, and returns when nothing is left of any. */
  async closeAll(reason: string): Promise<void> {
    this.#isDraining = true;
    this.#lastReason = reason;
    for (const { session } of [...this.#open.values()]) void this.end(session, reason);
    while (this.#closing.size > 0) await Promise.all(this.#closing.values());
  }

  /** Ends the sessions of owners that are not known any more, and returns when nothing is left of them. */
  async revoke(isKnownOwner: (owner: string) => boolean): Promise<void> {
    const revoked = [...this.sessions()].filter(({ owner }) => !isKnownOwner(owner));
    await Promise.all(revoked.map((session) => this.end(session, 'revoked')));
  }

  #ownerRefusal(owner: string): BridgeError | undefined {
    const { maxPerOwner } = this.#parts.limits;
    if (maxPerOwner === undefined) return undefined;
    const isOwn = (session: S): boolean => session.owner === owner;
    const own = [...this.sessions(), ...this.#closing.keys()].filter(isOwn).length;
    return own < maxPerOwner ? undefined : tokenFullError(maxPerOwner, this.#msUntilFree(isOwn));
  }

  /** Time until the first of these sessions expires if nobody uses it; those that are ending are as good as gone. */
  #msUntilFree(isMeant: (session: S) => boolean): number {
    if ([...this.#closing.keys()].some(isMeant)) return 0;
    const now = this.#parts.now();
    return Math.min(...[...this.sessions()].filter(isMeant).map((session) => this.#expiresAt(session, now) - now));
  }

  /** Idle limit of a session as it is. */
  #ttlMs(session: S): number {
    const { idleTtlMs, unusedTtlMs } = this.#parts.limits;
    return session.hasCalls() ? idleTtlMs : Math.min(idleTtlMs, unusedTtlMs);
  }

  #expiresAt(session: S, now: number): number {
    const usedAt = session.isBusy() ? now : session.lastUsedAt;
    return Math.min(usedAt + this.#ttlMs(session), session.createdAt + (this.#parts.limits.maxAgeMs ?? Infinity));
  }

  #check(entry: Entry<S>): void {
    const { session } = entry;
    const now = this.#parts.now();
    const isBusy = session.isBusy();
    // A call that ends was used until then, and not only when it began.
    if (isBusy) this.touch(session);
    const { maxAgeMs = Infinity } = this.#parts.limits;
    const ttlMs = this.#ttlMs(session);
    const idleMs = now - session.lastUsedAt;
    if (now - session.createdAt > maxAgeMs * (isBusy ? 1 + ageGrace : 1)) {
      void this.end(session, 'age');
    } else if (idleMs > ttlMs) {
      void this.end(session, session.hasCalls() ? 'idle' : 'unused');
    } else if (idleMs >= ttlMs / 2 && now - entry.pingedAt >= ttlMs / 8 && session.hasStream()) {
      entry.pingedAt = now;
      session.ping();
    }
  }

  async #finish({ session, record }: Entry<S>, reason: string): Promise<void> {
    const { store, logger, now, onEnded, closeLimitMs = usualCloseLimitMs } = this.#parts;
    const sessionId = session.hash;
    this.#keep('put', () => {
      store.put({ ...record, state: 'closing' });
    });
    try {
      if ((await within(session.close(reason), closeLimitMs)) === timedOut) {
        logger.error('session left behind', { sessionId, reason: `its end took longer than ${closeLimitMs} ms` });
      }
    } catch (failure) {
      logger.error('session not closed', { sessionId, reason: messageOf(failure) });
    }
    this.#closing.delete(session);
    this.#keep('remove', () => {
      store.remove(session.id);
    });
    const durationMs = Math.round(now() - session.createdAt);
    logger.info('session ended', { sessionId, reason, durationMs, count: session.callCount() });
    try {
      onEnded(session, reason);
    } catch (failure) {
      logger.error('end of session not told', { sessionId, reason: messageOf(failure) });
    }
  }

  /** A store that fails costs the record, and never the session. */
  #keep(method: string, action: () => void): void {
    try {
      action();
    } catch (failure) {
      this.#parts.logger.warn('session record not kept', { method, reason: messageOf(failure) });
    }
  }

  #startSweeping(): NodeJS.Timeout {
    const { idleTtlMs, unusedTtlMs, maxAgeMs = Infinity } = this.#parts.limits;
    const periodMs = Math.min(longestSweepMs, Math.min(idleTtlMs, unusedTtlMs, maxAgeMs) / 4);
    const everyMs = Math.max(shortestSweepMs, periodMs);
    let dueAt = this.#parts.now() + everyMs;
    let isPutOff = false;
    const timer = setInterval(() => {
      const now = this.#parts.now();
      // While we stood still nobody could use a session: what clients sent meanwhile is read before the next sweep.
      isPutOff = now - dueAt > lateSweepMs && !isPutOff;
      dueAt = now + everyMs;
      if (!isPutOff) this.sweep();
    }, everyMs);
    timer.unref();
    return timer;
  }

  #stopSweeping(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
