import { BridgeError } from '../core/errors.ts';

/** A balancer should look for another replica soon. */
const drainRetrySeconds = 5;
/** Memory comes back when a browser ends, which nobody can foresee. */
const memoryRetrySeconds = 10;
/** A session may be ended by its client at any moment, so nobody is told to wait longer for one to expire. */
const longestRetrySeconds = 60;

/** What a client is told that opens a session while the server is about to end. */
export function drainingError(): BridgeError {
  return new BridgeError('draining', 'This server is about to end and opens no new sessions.', {
    hint: 'Try again: a balancer sends the next try to another replica, or this one is back soon.',
    data: { retryAfterSeconds: drainRetrySeconds },
  });
}

/** What a client is told when less memory is free than a session needs; both in bytes. */
export function memoryError(free: number, needed: number): BridgeError {
  return new BridgeError(
    'memory_low',
    `Only ${free} bytes of memory are free; a new session needs ${needed} (--http-min-free-memory).`,
    {
      hint: 'Try again later, when a session has ended; the operator can add memory or lower --http-min-free-memory.',
      data: { retryAfterSeconds: memoryRetrySeconds },
    },
  );
}

/** What a client is told when all sessions are in use and the first of them is free again in `leftMs` at the earliest. */
export function sessionsFullError(max: number, leftMs: number): BridgeError {
  const message = `All ${max} sessions are in use (--http-session-max).`;
  return fullError('sessions_full', message, 'raise --http-session-max or add a replica', leftMs);
}

/** As `sessionsFullError`, for the sessions of one token. */
export function tokenFullError(max: number, leftMs: number): BridgeError {
  const message = `All ${max} sessions of this token are in use (--http-session-max-per-token).`;
  return fullError('token_full', message, 'raise --http-session-max-per-token', leftMs);
}

function fullError(
  code: 'sessions_full' | 'token_full',
  message: string,
  operatorCan: string,
  leftMs: number,
): BridgeError {
  const seconds = Math.min(longestRetrySeconds, Math.max(1, Math.ceil(leftMs / 1000)));
  return new BridgeError(code, message, {
    hint: `Try again in ${seconds} s, and end sessions that are no longer needed with DELETE; the operator can ${operatorCan}.`,
    data: { retryAfterSeconds: seconds },
  });
}
