import type { Logger } from '../core/logger.ts';
import { Refusal } from './answers.ts';
import { hashCapability, mintCapability } from './capability.ts';
import type { Policy } from './policy.ts';
import type { CloseCode, Splice, SpliceFacts } from './splice.ts';

/** A client may still come with the address of one of so many generations before, and is told that it is over. */
const pastKept = 8;

/** CDP has some 600 methods and a policy denies a few; what follows is a client that makes names up. */
const deniedKept = 50;
/** The longest method of Chromium has 60 characters; a client may send any number. */
const methodShown = 100;

/** The browser that is behind a door. */
export interface DoorTarget {
  readonly generation: number;
  readonly port: number;
  /** From the path of its browser-level socket; a later browser on the same port has another one. */
  readonly browserId: string;
}

/** What clients of one door may take; sizes in bytes, times in milliseconds. */
export interface DoorLimits {
  readonly maxConnections: number;
  /** Of one message of a client. */
  readonly maxRequestBytes: number;
  /** Of one message of the browser. */
  readonly maxAnswerBytes: number;
  /** Waiting for a side that does not read, before the other side is paused. */
  readonly bufferBytes: number;
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly httpMax: number;
  readonly httpMaxBytes: number;
  readonly httpTimeoutMs: number;
  readonly handshakeTimeoutMs: number;
}

/** What is told of a door. */
export interface DoorEvents {
  /** A client sent a message. */
  readonly onActivity: () => void;
  readonly onOpened: () => void;
  readonly onClosed: (facts: SpliceFacts) => void;
}

/** What a door is made with. */
export interface DoorParts {
  readonly settings: { readonly policy: Policy; readonly limits: DoorLimits };
  readonly events: DoorEvents;
  readonly logger: Logger;
}

/** `staged`: known to nobody but the bridge itself, which looks through it once before it tells it. */
export type CapabilityState = 'live' | 'staged' | 'past';

/** The way to the browser of one session: its live and past capabilities, and everybody who came in by them. */
export class Door {
  readonly #parts: DoorParts;
  readonly #past: string[] = [];
  readonly #splices = new Set<Splice>();
  #current: { readonly capability: string; readonly hash: string; readonly target: DoorTarget } | undefined;
  #isLive = false;
  #isClosed = false;
  #requests = 0;
  #opening = 0;
  #messages = 0;
  /** Methods whose denial was told of the browser of this moment. */
  readonly #denied = new Set<string>();

  constructor(parts: DoorParts) {
    this.#parts = parts;
  }

  get settings(): DoorParts['settings'] {
    return this.#parts.settings;
  }

  /** The browser behind the current capability. */
  get target(): DoorTarget | undefined {
    return this.#current?.target;
  }

  /** The published capability. */
  get capability(): string | undefined {
    return this.#isLive ? this.#current?.capability : undefined;
  }

  /** WebSockets that are open or being opened. */
  get connections(): number {
    return this.#splices.size + this.#opening;
  }

  /** Messages that clients sent so far. */
  get messages(): number {
    return this.#messages;
  }

  /** Mints the capability of a browser; only the bridge knows it until `publish`. */
  stage(target: DoorTarget): string {
    this.#retire();
    const capability = mintCapability();
    this.#current = { capability, hash: hashCapability(capability), target };
    this.#isLive = false;
    this.#denied.clear();
    return capability;
  }

  /** From now on the staged capability lets people in. */
  publish(): void {
    this.#isLive = !this.#isClosed && this.#current !== undefined;
  }

  /** Kills the current capability and closes every socket with the code and the reason, at once. */
  withdraw(code: CloseCode, reason: string): void {
    this.#retire();
    for (const splice of this.#splices) splice.close(code, reason);
  }

  /** Closes every socket and forgets every capability: from now on all of them are unknown. */
  close(): void {
    this.#isClosed = true;
    this.withdraw(1001, 'the session ended');
    this.#past.length = 0;
  }

  /** What a capability, given by its hash, is to this door. */
  find(hash: string): CapabilityState | undefined {
    if (this.#current?.hash === hash) return this.#isLive ? 'live' : 'staged';
    return this.#past.includes(hash) ? 'past' : undefined;
  }

  /** A place for one HTTP request, given back by the returned function; undefined when all are taken. */
  admitRequest(): (() => void) | undefined {
    if (this.#requests >= this.settings.limits.httpMax) return undefined;
    this.#requests += 1;
    let isHeld = true;
    return () => {
      if (isHeld) this.#requests -= 1;
      isHeld = false;
    };
  }

  /**
   * Opens a socket to the browser of this moment, as `open` does it. If the browser was withdrawn meanwhile the socket is
   * closed again. Rejects with `browser_unavailable` or what `open` rejects with.
   */
  async admitSocket(open: (target: DoorTarget) => Promise<Splice>): Promise<void> {
    const current = this.#current;
    if (current === undefined || !this.#isLive)
      throw new Refusal('browser_unavailable', 'The browser of this address is not there any more.');
    this.#opening += 1;
    let splice: Splice;
    try {
      splice = await open(current.target);
    } finally {
      this.#opening -= 1;
    }
    this.#splices.add(splice);
    this.#parts.events.onOpened();
    void splice.closed.then((facts) => {
      this.#splices.delete(splice);
      this.#parts.events.onClosed(facts);
    });
    if (this.#current === current) return;
    if (this.#isClosed) splice.close(1001, 'the session ended');
    else splice.close(4001, `browser generation ${current.target.generation} ended`);
  }

  /** Notes a message of a client. */
  noteMessage(): void {
    this.#messages += 1;
    this.#parts.events.onActivity();
  }

  /** Notes that a method was denied: a client that goes on asking does not fill the log. */
  noteDenied(method: string): void {
    const shown = method.slice(0, methodShown);
    const isNews = !this.#denied.has(shown) && this.#denied.size < deniedKept;
    if (isNews) this.#denied.add(shown);
    this.#parts.logger[isNews ? 'info' : 'debug']('CDP method denied', { method: shown });
  }

  #retire(): void {
    const current = this.#current;
    this.#current = undefined;
    if (current === undefined || !this.#isLive) return;
    this.#isLive = false;
    this.#past.push(current.hash);
    if (this.#past.length > pastKept) this.#past.shift();
  }
}

/** The doors behind one listener. */
export class Doors {
  readonly #doors = new Set<Door>();

  /** Adds a door; the returned function takes it away. */
  add(door: Door): () => void {
    this.#doors.add(door);
    return () => {
      this.#doors.delete(door);
    };
  }

  /** The door that a capability belongs to or belonged to. */
  find(capability: string): { readonly door: Door; readonly state: CapabilityState } | undefined {
    const hash = hashCapability(capability);
    for (const door of this.#doors) {
      const state = door.find(hash);
      if (state !== undefined) return { door, state };
    }
    return undefined;
  }
}
