import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';

import { isLoopbackHost } from '../core/loopback.ts';
import { type Address, authorityOf } from './address.ts';
import { Refusal } from './answers.ts';

/** Who may come in. */
export interface AccessSettings {
  /** The host that the listener is bound to. */
  readonly bindHost: string;
  readonly port: number;
  /** What the operator says that clients use. */
  readonly advertised: Address | undefined;
  /** Origins of pages that may use it, such as `devtools://devtools`. */
  readonly allowedOrigins: readonly string[];
}

const loopbackHosts = ['localhost', '127.0.0.1', '[::1]'];
/** Enough of a refused name to recognise it. */
const shownLength = 100;

/**
 * Checks by which name a request came and which page sent it. Chromium checks the origin of a WebSocket only, and
 * answers `GET /json/close/...` to any page (facts/managed-cdp 2), so that this is checked here for both. A page need not
 * name itself: an image or a `no-cors` request carries no Origin. Browsers say then by `Sec-Fetch-Site` that they are one.
 */
export class Access {
  readonly #authorities: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;

  constructor({ bindHost, port, advertised, allowedOrigins }: AccessSettings) {
    const authorities = new Set<string>();
    const add = (host: string): void => {
      authorities.add(`${host}:${port}`);
      // A client leaves out the port that its scheme implies.
      if (port === 80 || port === 443) authorities.add(host);
    };
    if (isLoopbackHost(bindHost)) {
      for (const host of loopbackHosts) add(host);
      // It may be any of 127.0.0.0/8, and then stands in the URLs that we tell.
      if (!isIPv6(bindHost)) add(bindHost.toLowerCase());
    }
    if (advertised !== undefined) {
      authorities.add(authorityOf(advertised).toLowerCase());
      authorities.add(`${advertised.host}:${advertised.port}`.toLowerCase());
    }
    this.#authorities = authorities;
    this.#origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase()));
  }

  /**
   * Throws what refuses the request: `host_refused` or `origin_refused`. `isChanging`: it does more than read, so that not
   * even a person's own navigation may lead there: a page can redirect it.
   */
  check({ headers, rawHeaders }: Pick<IncomingMessage, 'headers' | 'rawHeaders'>, isChanging = false): void {
    const host = (headers.host ?? '').toLowerCase();
    const count = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length;
    if (count !== 1 || !this.#authorities.has(host)) {
      throw new Refusal('host_refused', `The host ${show(headers.host ?? '')} is not one that is answered to here.`, {
        hint: 'If clients use that name, say it by --cdp-advertised-host.',
      });
    }
    this.#checkPage(headers, isChanging);
  }

  #checkPage({ origin, 'sec-fetch-site': site }: IncomingHttpHeaders, isChanging: boolean): void {
    const hint = 'If this page is to use it, list its origin in --cdp-allow-origin.';
    if (origin !== undefined && !this.#origins.has(origin.toLowerCase()))
      throw new Refusal('origin_refused', `Pages of the origin ${show(origin)} may not use this browser.`, { hint });
    if (origin === undefined && site !== undefined && (isChanging || site !== 'none'))
      throw new Refusal('origin_refused', 'Pages may not use this browser without telling their origin.', { hint });
  }
}

function show(value: string): string {
  return JSON.stringify(value.length > shownLength ? `${value.slice(0, shownLength)}...` : value);
}
