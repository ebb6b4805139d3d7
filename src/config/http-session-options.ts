import { choice, httpGroup as group, integer, listOf, option, text, toggle } from './option.ts';

/** Shorter waits cut ordinary clients off. */
const shortestWaitMs = 100;
const hourMs = 3_600_000;
/** Node's timers hold no longer time (2^31 - 1 ms, 24.8 days). */
const longestTimerMs = 2_147_483_647;
/** One browser each: more than a computer of today holds, so a larger number is a slip. */
const mostSessions = 10_000;
const mostSpares = 100;
/** A longer text does not fit into one string of Node's. */
const largestBodyBytes = 536_870_000;

/** What a client may ask for its own session, by the names of Playwright's context options. */
export const sessionSettingNames = [
  'headless',
  'viewport',
  'locale',
  'timezoneId',
  'userAgent',
  'extraHTTPHeaders',
  'storageState',
  'cdp',
] as const;

/** What clients may set unless the operator says otherwise: nothing that opens another door to the browser. */
const harmlessSettings = sessionSettingNames.filter((name) => name !== 'cdp');

/** Name of a session setting. */
export type SessionSettingName = (typeof sessionSettingNames)[number];

const wait = integer(shortestWaitMs, hourMs);
const lifetime = integer(shortestWaitMs, longestTimerMs);

/** The sessions of the HTTP server, what each may take, and its end. */
export const httpSessionFields = {
  httpSessionBackend: option(choice(['memory']), {
    group,
    default: 'memory',
    description: 'Where records of sessions are kept; `memory` ends with the process.',
  }),
  httpSessionMax: option(integer(1, mostSessions), {
    group,
    default: 32,
    description:
      'Sessions at once; one more `initialize` is answered 503 `sessions_full` with `Retry-After`, and nothing is started.',
  }),
  httpSessionMaxPerToken: option(integer(1, mostSessions), {
    group,
    unset: 'no limit',
    description: 'Sessions at once of one token; one more `initialize` is answered 429 `token_full`.',
  }),
  httpStartsMax: option(integer(1, 1000), {
    group,
    unset: 'twice the processor cores',
    description:
      'Upstream processes that may start at once; further ones wait in order of arrival, within `--start-timeout-ms`.',
  }),
  httpSpareChildren: option(integer(0, mostSpares), {
    group,
    default: 1,
    description: 'Upstream processes kept ready for new sessions (about 80 MB each); 0 starts each when needed.',
  }),
  httpSpareBrowsers: option(integer(0, mostSpares), {
    group,
    default: 0,
    description:
      'Upstream processes kept ready whose fresh, never used browser already runs, for a quick first page; several 100 MB each.',
  }),
  httpSessionIdleTtlMs: option(lifetime, {
    group,
    default: hourMs,
    description:
      'Milliseconds after which a session without request ends; its id is answered 404 `session_unknown` then. A client with an open stream is asked by a ping first, whose answer counts as a request.',
  }),
  httpSessionUnusedTtlMs: option(lifetime, {
    group,
    default: 600_000,
    description:
      'Milliseconds without a request after which a session ends that has never called a tool; 404 `session_unknown` then.',
  }),
  httpSessionMaxAgeMs: option(lifetime, {
    group,
    unset: 'no limit',
    description: 'Milliseconds after which a session ends even in use; 404 `session_unknown` then.',
  }),
  httpSessionMaxCalls: option(integer(1, 10_000), {
    group,
    default: 100,
    description: 'Requests of one session in flight at once; one more is answered 429 `calls_full`.',
  }),
  httpMaxBodyBytes: option(integer(1024, largestBodyBytes), {
    group,
    default: 4_194_304,
    description:
      'Bytes of a request body; a longer one is answered 413 `message_too_large` as soon as it is announced or reached.',
  }),
  httpMaxHeaderBytes: option(integer(1024, 1_048_576), {
    group,
    default: 16_384,
    description: "Bytes of a request's headers; longer ones are answered 431 `headers_too_large`.",
  }),
  httpHeaderTimeoutMs: option(wait, {
    group,
    default: 10_000,
    description: 'Milliseconds for the headers of a request to arrive; later 408 `request_timeout`.',
  }),
  httpBodyTimeoutMs: option(wait, {
    group,
    default: 60_000,
    description: 'Milliseconds for a whole request to arrive; later 408 `request_timeout`.',
  }),
  httpKeepAliveTimeoutMs: option(integer(shortestWaitMs, longestTimerMs), {
    group,
    default: 620_000,
    description:
      "Milliseconds that an idle connection is kept; longer than any common balancer's, so that the balancer closes first.",
  }),
  httpStreamKeepAliveMs: option(integer(0, hourMs), {
    group,
    default: 15_000,
    description:
      'Milliseconds without an event after which an open stream carries a comment, so that nothing between closes it; 0 turns it off.',
  }),
  httpWriteTimeoutMs: option(wait, {
    group,
    default: 30_000,
    description: 'Milliseconds that a client may take nothing of what it is sent; its connection is closed then.',
  }),
  httpReplayEvents: option(integer(0, 100_000), {
    group,
    default: 256,
    description:
      'Events of one session kept for `Last-Event-ID`; older ones are dropped, and asking for one is answered with `replay_gone`. 0 keeps none.',
  }),
  httpReplayBytes: option(integer(0, largestBodyBytes), {
    group,
    default: 4_194_304,
    description: 'Bytes of the events of one session kept for `Last-Event-ID`, as above. 0 keeps none.',
  }),
  httpRetryMs: option(integer(0, hourMs), {
    group,
    default: 1000,
    description: 'Milliseconds that clients are told to wait before they open a closed stream again.',
  }),
  httpMinFreeMemory: option(integer(0, 1_099_511_627_776), {
    group,
    default: 536_870_912,
    description:
      'Bytes of free memory (of the computer or the container) below which a new session is answered 503 `memory_low`; 0 turns it off.',
  }),
  drainTimeoutMs: option(integer(0, hourMs), {
    group,
    default: 20_000,
    description:
      'Milliseconds after SIGTERM or SIGINT that running calls may still take; then they get an error and the program ends. New sessions are answered 503 `draining` meanwhile.',
  }),
  drainDelayMs: option(integer(0, hourMs), {
    group,
    default: 0,
    description:
      'Milliseconds after SIGTERM or SIGINT in which existing sessions are still served, so that a balancer notices before the end.',
  }),
  replicaId: option(
    text('1 to 32 letters, digits and hyphens', (value) => /^[A-Za-z0-9-]{1,32}$/.test(value)),
    {
      group,
      value: 'name',
      unset: 'none',
      description:
        'A name of this server among several; session ids begin with it and a dot, by which a balancer finds the server.',
    },
  ),
  sessionSettings: option(listOf(sessionSettingNames), {
    group,
    value: 'names',
    default: harmlessSettings,
    description:
      'What a client may set for its own session in `_meta` of `initialize`; anything else is answered 400 `session_setting`. `cdp` has to be allowed here by name; `[]` allows nothing.',
  }),
  httpPassRoots: option(toggle(), {
    group,
    default: false,
    description:
      "Pass the client's roots on to upstream, which then opens files in them. They name folders of the server, so only for clients that may read these.",
  }),
  httpFiles: option(toggle(), {
    group,
    default: false,
    description:
      'Let clients fetch the output files of their own session at `/files/` below the endpoint; any other file is answered 404 `file_unknown`.',
  }),
};
