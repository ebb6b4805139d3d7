import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { BalancedClient, type Reply } from './balanced-client.ts';
import { startBalancer, type Balancer, type BalancerFile } from './balancers.ts';
import type { LineClient } from './client.ts';
import { waitForListening } from './listening.ts';
import { structuredOf, Testbed } from './testbed.ts';

/** The names of the two replicas; where ids have a prefix, it is the name. */
export type ReplicaName = 'a' | 'b';

/** One of the two servers behind the balancer. */
export interface Replica {
  readonly name: ReplicaName;
  readonly server: LineClient;
  /** The server's own address, past the balancer. */
  readonly url: string;
}

/** Where a call was run: the child's process, and the replica whose folder it works in. */
export interface CallPlace {
  readonly pid: number;
  readonly replica: string | undefined;
}

/** The public name of the endpoint; the replicas answer to it only because they are told to. */
const publicHost = 'mcp.example.com';
const token = 'balanced-token-0123456789';

/** Where the call of the fake upstream's tool `inspect` was run. */
export function placeOf(reply: Reply): CallPlace {
  if (reply.status !== 200 || reply.message === undefined) {
    throw new Error(`A call was answered ${reply.status}: ${reply.text}`);
  }
  const { pid, cwd } = structuredOf(reply.message);
  return { pid: Number(pid), replica: /\/tmp\/(?<name>[ab])\//.exec(String(cwd))?.groups?.['name'] };
}

/** Does `work` `count` times, at most `limit` at once. */
export async function inTurns<T>(count: number, limit: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  };
  await Promise.all(Array.from({ length: limit }, lane));
  return results;
}

/** Two replicas in front of fake upstreams, and a balancer in front of them. */
export class BalancedBed {
  readonly testbed: Testbed;
  readonly replicas: Readonly<Record<ReplicaName, Replica>>;
  readonly balancer: Balancer;
  readonly #clients: BalancedClient[] = [];

  private constructor(parts: Pick<BalancedBed, 'testbed' | 'replicas' | 'balancer'>) {
    this.testbed = parts.testbed;
    this.replicas = parts.replicas;
    this.balancer = parts.balancer;
  }

  static async make(file: BalancerFile): Promise<BalancedBed> {
    const testbed = await Testbed.make();
    try {
      await testbed.learnCatalog();
      const hasIds = file !== 'haproxy.cfg';
      const [a, b] = await Promise.all([startReplica(testbed, 'a', hasIds), startReplica(testbed, 'b', hasIds)]);
      const balancer = await startBalancer(file, {
        folder: join(testbed.folders.root, 'balancer'),
        host: publicHost,
        servers: [
          { address: new URL(a.url).host, id: 'a' },
          { address: new URL(b.url).host, id: 'b' },
        ],
      });
      return new BalancedBed({ testbed, replicas: { a, b }, balancer });
    } catch (failure) {
      await testbed.close();
      throw failure;
    }
  }

  /** A client that has no session yet. */
  client(): BalancedClient {
    const client = new BalancedClient({ port: this.balancer.port, host: publicHost, token });
    this.#clients.push(client);
    return client;
  }

  /** A client with a session, and where it is. */
  async open(): Promise<{ client: BalancedClient; place: CallPlace }> {
    const client = this.client();
    const { status, text } = await client.initialize();
    if (status !== 200) throw new Error(`initialize was answered ${status}: ${text}`);
    return { client, place: placeOf(await client.call('inspect')) };
  }

  /** The sum of a metric of one replica over its labels; `only` is a part of the labels that must be there. */
  async metric(name: ReplicaName, metric: string, only = ''): Promise<number> {
    const url = new URL('/metrics', this.replicas[name].url);
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    const lines = (await response.text()).split('\n');
    const values = lines.filter((line) => line.startsWith(`cloakbrowser_mcp_${metric}`) && line.includes(only));
    return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  }

  /** Whether a replica says that it takes new sessions. */
  async isReady(name: ReplicaName): Promise<boolean> {
    return (await fetch(new URL('/readyz', this.replicas[name].url))).status === 200;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.balancer.close();
    await this.testbed.close();
  }
}

async function startReplica(testbed: Testbed, name: ReplicaName, hasId: boolean): Promise<Replica> {
  const tmp = join(testbed.folders.tmp, name);
  mkdirSync(tmp);
  const server = testbed.start({
    args: [
      ...['--transport', 'streamable-http', '--http-port', '0', '--http-allowed-hosts', publicHost],
      ...['--http-session-max', '64', '--http-stream-keep-alive-ms', '250', '--http-min-free-memory', '0'],
      ...['--drain-delay-ms', '50000', '--drain-timeout-ms', '55000', '--http-spare-children', '0'],
      ...(hasId ? ['--replica-id', name] : []),
    ],
    env: { TMPDIR: tmp, CLOAK_PLAYWRIGHT_MCP_HTTP_AUTH_TOKEN: token },
  });
  return { name, server, url: await waitForListening(server) };
}
