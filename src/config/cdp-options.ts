import { isIP } from 'node:net';

import { parseAdvertisedHost } from '../core/advertised-host.ts';
import { cdpGroup as group, choice, integer, list, option, text, toggle } from './option.ts';

/** Shorter waits cut ordinary clients off. */
const shortestWaitMs = 100;
const hourMs = 3_600_000;
/** Node's timers hold no longer time (2^31 - 1 ms, 24.8 days). */
const longestTimerMs = 2_147_483_647;
const largestPort = 65_535;
/** Chromium drops a connection whose incoming messages reach 100 MiB (facts/managed-cdp 2); some room for its own framing. */
const largestRequestBytes = 104_792_064;
/** Chromium delivers no longer message (facts/managed-cdp 2). */
const largestAnswerBytes = 268_435_456;
/** CDP methods are `Domain.method`. */
const methodPattern = /^[A-Za-z]+\.(?:\*|[A-Za-z]+)$/;

function isRange(value: string): boolean {
  const [, from, to = from] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(value) ?? [];
  return from !== undefined && Number(from) >= 1 && Number(from) <= Number(to) && Number(to) <= largestPort;
}

function isHost(value: string): boolean {
  return isIP(value) !== 0 || /^[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/i.test(value);
}

const wait = integer(shortestWaitMs, hourMs);

/** The second way to a session's browser, its door and its limits. */
export const cdpFields = {
  cdp: option(toggle(), {
    group,
    default: false,
    flag: 'cdp-enabled',
    environment: [{ name: 'CLOAK_PLAYWRIGHT_MCP_CDP_ENABLED' }],
    description:
      "Let CDP clients join the session's browser at an address that `cloakbrowser_bridge_info` tells; it is worth as much as the browser itself.",
  }),
  cdpPortRange: option(text('a port or a range of ports such as 9400-9499, from 1 to 65535', isRange), {
    group,
    value: 'ports',
    unset: 'over stdio a free port; over HTTP the port of the MCP server',
    description:
      'Ports of which each session takes one with its first browser and keeps it; busy ones are skipped, and with none left the call is answered `cdp_ports_busy`.',
  }),
  cdpHost: option(text('a host name or an IP address, without brackets and port', isHost), {
    group,
    value: 'host',
    default: '127.0.0.1',
    description: 'The address that these ports are opened on. Without a range over HTTP `--http-host` counts instead.',
  }),
  cdpAllowRemote: option(toggle(), {
    group,
    default: false,
    description:
      'Allow an address that others than this computer can reach; then `--cdp-advertised-host` is needed as well.',
  }),
  cdpAdvertisedHost: option(
    text('host[:port][/path] as clients reach it, such as cdp.example.org:8443/agents', (value) => {
      return parseAdvertisedHost(value) !== undefined;
    }),
    {
      group,
      value: 'host',
      unset: 'the address that is listened on',
      description:
        'What addresses are told with: host, port and path of a port mapping or a proxy in front. Without a port it is the one that is listened on.',
    },
  ),
  cdpAdvertisedScheme: option(choice(['http', 'https']), {
    group,
    unset: "the listener's own",
    description: '`https` where TLS ends in front of the bridge: then addresses are told as https:// and wss://.',
  }),
  cdpAllowOrigin: option(list('origins', /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,]+$/i, ','), {
    group,
    value: 'origins',
    default: [],
    description:
      'Origins of pages that may use it, such as `devtools://devtools` for the DevTools of another browser; none by default.',
  }),
  cdpPolicy: option(choice(['full', 'guarded', 'observe']), {
    group,
    unset: '`full` on loopback, else `guarded`',
    description:
      '`full` passes every command, `guarded` none that ends or takes over the shared browser, `observe` only those for looking on.',
  }),
  cdpAllow: option(list('methods such as Page.navigate or DOM.*', methodPattern, ','), {
    group,
    value: 'methods',
    default: [],
    description: 'Methods that are allowed in addition to those of the policy.',
  }),
  cdpDeny: option(list('methods such as Browser.close or Storage.*', methodPattern, ','), {
    group,
    value: 'methods',
    default: [],
    description: 'Methods that are denied whatever the policy and `--cdp-allow` say.',
  }),
  cdpEager: option(toggle(), {
    group,
    default: false,
    description: 'Start the browser with the session rather than with its first browser call.',
  }),
  cdpMaxConnections: option(integer(1, 1000), {
    group,
    default: 16,
    description: 'WebSockets of one session at once; one more is closed with 1013.',
  }),
  cdpMaxRequestBytes: option(integer(1024, largestRequestBytes), {
    group,
    default: largestRequestBytes,
    description: 'Bytes of a message of a client; a longer one is closed with 1009. Chromium itself ends at 100 MiB.',
  }),
  cdpMaxAnswerBytes: option(integer(1024, largestAnswerBytes), {
    group,
    default: largestAnswerBytes,
    description:
      'Bytes of a message of the browser; a longer one is closed with 1009. A message in flight costs three to five times its size of memory.',
  }),
  cdpBufferBytes: option(integer(1024, largestAnswerBytes), {
    group,
    default: 4_194_304,
    description: 'Bytes that may wait for a side that does not read before the other side has to wait.',
  }),
  cdpStallTimeoutMs: option(wait, {
    group,
    default: 30_000,
    description: 'Milliseconds that a side may read nothing of what waits for it; it is closed with 4008 then.',
  }),
  cdpPingIntervalMs: option(wait, {
    group,
    default: 30_000,
    description: 'Milliseconds between two pings of a client; it is cut when two in a row stay without any answer.',
  }),
  cdpHttpMax: option(integer(1, 1000), {
    group,
    default: 16,
    description: 'HTTP requests of one session at once; one more is answered 503.',
  }),
  cdpHttpMaxBytes: option(integer(1024, largestAnswerBytes), {
    group,
    default: 8_388_608,
    description: "Bytes of an answer of the browser's HTTP side; a longer one is answered 502.",
  }),
  cdpHttpTimeoutMs: option(wait, {
    group,
    default: 10_000,
    description: "Milliseconds for the browser's HTTP side to answer; later 504.",
  }),
  cdpHeartbeatMs: option(wait, {
    group,
    default: 5000,
    description: 'Milliseconds between two questions to the browser whether it is still there.',
  }),
  cdpLossTimeoutMs: option(wait, {
    group,
    default: 15_000,
    description: 'Milliseconds without an answer to them after which the browser counts as lost.',
  }),
  cdpIdleTtlMs: option(integer(0, longestTimerMs), {
    group,
    default: 0,
    description:
      "Milliseconds without use, over MCP as over CDP, after which the browser is closed; the next call starts another one. 0 never closes it; upstream's own timer is off.",
  }),
};
