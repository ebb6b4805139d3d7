import { type BridgeError, toBridgeError } from '../core/errors.ts';
import type { Host } from '../core/host.ts';
import type { Resolved } from '../config/resolve.ts';
import type { Inspection } from '../inspection.ts';

/** How a check ended; only an error makes the doctor fail. */
export type CheckStatus = 'ok' | 'warning' | 'error';

/** One finding of the doctor. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly message: string;
  /** How to mend it. */
  readonly mend?: string | undefined;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** What checks look at. */
export interface CheckParts {
  readonly resolved: Resolved;
  readonly inspection: Inspection;
  readonly host: Host;
}

/** A check that found an error, with the error's own way to mend it. */
export function failedCheck(name: string, failure: unknown, mend?: string): Check {
  const error: BridgeError = toBridgeError(failure);
  return { name, status: 'error', message: error.message, mend: error.hint ?? mend, details: { code: error.code } };
}
