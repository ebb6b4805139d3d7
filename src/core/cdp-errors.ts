import type { ErrorKind } from './http-errors.ts';

/** Errors of managed CDP. */
export const cdpErrors = {
  cdp_start_failed: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32013,
    when: 'A browser did not start with managed CDP, or could not be proven to be the one that upstream drives.',
  },
  cdp_ports_busy: {
    fault: 'host',
    exit: 1,
    http: 503,
    rpc: -32013,
    when: 'No port of --cdp-port-range is free, or the address of --cdp-host cannot be listened on.',
  },
  browser_lost: {
    fault: 'host',
    exit: 1,
    http: 502,
    rpc: -32014,
    when: 'The browser ended, hung or lost its pages while a call was with it (managed CDP).',
  },
} as const satisfies Record<string, ErrorKind>;

/** What the gateway of managed CDP answers to a request that it does not serve, with the HTTP status. */
export const refusals = {
  not_found: 404,
  generation_replaced: 410,
  browser_unavailable: 503,
  method_not_allowed: 405,
  bad_request: 400,
  body_not_allowed: 413,
  host_refused: 403,
  origin_refused: 403,
  denied_by_policy: 403,
  too_many_requests: 503,
  upstream_refused: 404,
  bad_gateway: 502,
  gateway_timeout: 504,
} as const;

/** Name of a refusal of the gateway. */
export type RefusalCode = keyof typeof refusals;
