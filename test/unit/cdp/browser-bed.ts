import { EventEmitter } from 'node:events';
import { vi } from 'vitest';
import type { WebSocket } from 'ws';

import { Endpoint } from '../../../src/cdp/endpoint.ts';

/** One request of the bridge, as it was sent. */
export interface SentRequest {
  readonly id: number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly sessionId?: string;
}

/** The bridge's end of a connection to a browser that the test plays. */
export class FakeSocket extends EventEmitter {
  readonly sent: SentRequest[] = [];
  readyState = 1;
  /** Answers at once what it gives back; undefined leaves the bridge without an answer. */
  answer: (request: SentRequest) => unknown = () => undefined;

  send(text: string): void {
    const request = JSON.parse(text) as SentRequest;
    this.sent.push(request);
    const result = this.answer(request);
    if (result !== undefined) this.say({ id: request.id, result });
  }

  /** Says something to the bridge, as JSON or as it is. */
  say(message: unknown): void {
    this.emit('message', Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)));
  }

  /** The browser ends the connection. */
  end(): void {
    this.readyState = 3;
    this.emit('close');
  }

  terminate(): void {
    if (this.readyState !== 1) return;
    this.readyState = 2;
    queueMicrotask(() => {
      this.end();
    });
  }
}

/** A connection to a browser that the test plays. */
export function openFake(): { readonly socket: FakeSocket; readonly endpoint: Endpoint } {
  const socket = new FakeSocket();
  return { socket, endpoint: new Endpoint(socket as unknown as WebSocket) };
}

/** For the beginning of each test: time passes when the test says so. */
export function fakeTimers(): void {
  vi.useFakeTimers();
}

/** For the end of each test: whatever has ended has no timer left. */
export function endFakeTimers(): void {
  const left = vi.getTimerCount();
  vi.useRealTimers();
  if (left > 0) throw new Error(`${left} timers are left`);
}
