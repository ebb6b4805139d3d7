/** What is kept of a session besides the session itself: facts about it, never its content. */
export interface SessionRecord {
  readonly id: string;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly lastUsedAt: string;
  readonly state: 'open' | 'closing';
  readonly client: { readonly name: string; readonly version: string };
  readonly protocolVersion: string;
  /** Name of the replica that holds the session, where several share the clients. */
  readonly replica?: string;
}

/**
 * Where session records lie. No method waits: a store that has to write somewhere else does it in the background. A
 * store that throws is logged and harms no session.
 */
export interface SessionStore {
  /** Keeps a record; one of the same id is replaced. */
  put(record: SessionRecord): void;
  /** Notes the last use of a session, ISO 8601; an unknown id is passed over. */
  touch(id: string, at: string): void;
  /** Forgets a session; an unknown id is passed over. */
  remove(id: string): void;
  /** How many records there are. */
  size(): number;
}

/** Session records in the memory of this process. */
export class MemoryStore implements SessionStore {
  readonly #records = new Map<string, SessionRecord>();

  put(record: SessionRecord): void {
    this.#records.set(record.id, record);
  }

  touch(id: string, at: string): void {
    const record = this.#records.get(id);
    if (record !== undefined) this.#records.set(id, { ...record, lastUsedAt: at });
  }

  remove(id: string): void {
    this.#records.delete(id);
  }

  size(): number {
    return this.#records.size;
  }

  /** The records, the oldest session first. */
  records(): Iterable<SessionRecord> {
    return this.#records.values();
  }
}
