import { IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';

/** Serves the requests for another protocol to some paths. */
export interface UpgradeRoute {
  /** True for a path, without its query, whose upgrade requests are for it. */
  handles(path: string): boolean;
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/**
 * The class of a server's requests, where `route` takes those for another protocol to its paths. Every other one must
 * stay the plain request that it also is, with its body: clients like Java's offer HTTP/2 (`Upgrade: h2c`) in passing.
 * Once anybody listens for upgrades, Node 20 to 24.8 takes all for upgrades and loses their bodies; but all versions ask
 * `req.upgrade` first, as test/system/http-upgrade.test.ts shows. The option `shouldUpgradeCallback` came with 24.9.
 */
export function requestClass(route: Pick<UpgradeRoute, 'handles'>): typeof IncomingMessage {
  return class UpgradableRequest extends IncomingMessage {
    #isAsking = false;

    get upgrade(): boolean {
      return this.#isAsking && (this.method === 'CONNECT' || route.handles(pathOf(this)));
    }

    set upgrade(isAsking: unknown) {
      // Node's own constructor sets it too, before there are fields.
      if (#isAsking in this) this.#isAsking = isAsking === true;
    }
  };
}

/** Gives the upgrade requests of a server whose requests are of that class to the route. */
export function takeUpgrades(server: Server, route: UpgradeRoute): void {
  server.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    route.upgrade(req, socket, head);
  });
}

function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '';
}
