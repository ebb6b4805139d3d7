/** One live session as `/status` tells it; the hash stands for the id, which is a secret. */
export interface SessionStatus {
  readonly hash: string;
  readonly state: 'open' | 'closing';
  readonly client: { readonly name: string; readonly version: string };
  readonly ageMs: number;
  readonly idleMs: number;
  /** Calls so far, and those of them that wait for an answer. */
  readonly calls: number;
  readonly inFlight: number;
  /** Number of the current browser; 0 before the first one. */
  readonly generation: number;
  readonly pid: number | null;
  /** Of all processes of the session together; null where that cannot be told. */
  readonly memoryBytes: number | null;
}

/** What `/status` of the HTTP server tells and the `status` command prints. Holds no secret. */
export interface ServerStatus {
  readonly name: 'cloakbrowser-mcp';
  readonly version: string;
  readonly uptimeMs: number;
  /** The address that clients use, as printed at the start. */
  readonly url: string;
  readonly replica: string | null;
  readonly draining: boolean;
  /** Resident memory of the bridge itself. */
  readonly memoryBytes: number;
  readonly sessions: readonly SessionStatus[];
  readonly limits: { readonly sessions: number; readonly starts: number };
  /** Children that are starting now, and those that wait for their turn. */
  readonly startQueue: { readonly running: number; readonly waiting: number };
  /** Children that wait for an owner: without and with a running browser. */
  readonly spares: { readonly children: number; readonly browsers: number };
}
