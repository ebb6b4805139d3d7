import { execFileSync, spawn } from 'node:child_process';
import { accessSync, constants, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { descendantsOf, isRunning } from './processes.ts';
import { waitUntil, withDeadline } from './waiting.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const certificates = join(repository, 'test', 'fixtures', 'tls');

/** The configurations in `deploy/`, by the names of their files. */
export const balancerFiles = ['haproxy.cfg', 'haproxy-prefix.cfg', 'nginx.conf'] as const;

/** One of them. */
export type BalancerFile = (typeof balancerFiles)[number];

/** A server behind a balancer: `host:port`, and the prefix of its session ids. */
export interface BalancedServer {
  readonly address: string;
  readonly id: string;
}

/** How a balancer is started. */
export interface BalancerOptions {
  /** For its files; it is also its working folder. */
  readonly folder: string;
  /** The public name, which the balancer passes on and checks its servers with. */
  readonly host: string;
  readonly servers: readonly [BalancedServer, BalancedServer];
}

/** A running balancer. */
export interface Balancer {
  readonly port: number;
  readonly pid: number;
  /** What it wrote so far. */
  readonly output: () => string;
  /** Lets it read its files anew, as after a new certificate, and waits until new processes have taken over. */
  readonly reload: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** HAProxy hands its stick table to its successor once it has looked for others to learn from, twice 5 s after a start. */
const oldEnoughToTeachMs = 10_500;

/** The certificate that the balancers of the tests have, for 127.0.0.1 and localhost. */
export const balancerCertificate = readFileSync(join(certificates, 'first-cert.pem'));

/** Debian keeps both programs where the path of an ordinary user does not lead. */
const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin'];

function find(name: string): string | undefined {
  return folders
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Makes sure that HAProxy and nginx are installed; as root it installs them, else it says what to do. */
export function provideBalancers(): void {
  const missing = ['haproxy', 'nginx'].filter((name) => find(name) === undefined);
  if (missing.length === 0) return;
  const sentence = `These tests need ${missing.join(' and ')}: install the packages with "apt-get install haproxy nginx" as root.`;
  if (process.getuid?.() !== 0) throw new Error(sentence);
  try {
    execFileSync(join(repository, 'scripts', 'install-balancers.sh'), { stdio: 'inherit' });
  } catch (cause) {
    throw new Error(sentence, { cause });
  }
}

/** A port of 127.0.0.1 that nobody listens on; somebody may take it meanwhile. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {
      resolve(false);
    });
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** The settings that the files in `deploy/` name. */
async function settingsFor(port: number, { folder, host, servers }: BalancerOptions): Promise<Record<string, string>> {
  const certificate = join(folder, 'balancer.crt');
  const key = join(folder, 'balancer.key');
  copyFileSync(join(certificates, 'first-cert.pem'), certificate);
  copyFileSync(join(certificates, 'first-key.pem'), key);
  return {
    MCP_BIND: `127.0.0.1:${port}`,
    MCP_CERTIFICATE: certificate,
    MCP_CERTIFICATE_KEY: key,
    MCP_HOST: host,
    MCP_PEER: `127.0.0.1:${await freePort()}`,
    MCP_REPLICA_1: servers[0].address,
    MCP_REPLICA_1_ID: servers[0].id,
    MCP_REPLICA_2: servers[1].address,
    MCP_REPLICA_2_ID: servers[1].id,
  };
}

/** What includes our file, in place of Debian's /etc/nginx/nginx.conf; relative paths lie in the working folder. */
const nginxFrame = `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 2;
pid nginx.pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  include balancer.conf;
}
`;

function nginxArguments(folder: string, settings: Readonly<Record<string, string>>): string[] {
  const template = readFileSync(join(repository, 'deploy', 'nginx.conf'), 'utf8');
  const text = template.replaceAll(/\$\{(MCP_\w+)\}/g, (_all, name: string) => {
    const value = settings[name];
    if (value === undefined) throw new Error(`nginx.conf names ${name}, which the tests do not know`);
    return value;
  });
  writeFileSync(join(folder, 'balancer.conf'), text);
  writeFileSync(join(folder, 'nginx.conf'), nginxFrame);
  return ['-e', 'stderr', '-p', folder, '-c', 'nginx.conf'];
}

/** Starts HAProxy or nginx with a file of `deploy/`, and waits until it takes connections. */
export async function startBalancer(file: BalancerFile, options: BalancerOptions): Promise<Balancer> {
  const { folder } = options;
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const settings = await settingsFor(port, options);
  const name = file === 'nginx.conf' ? 'nginx' : 'haproxy';
  const program = find(name);
  if (program === undefined) throw new Error(`${name} is not installed`);
  const args = name === 'nginx' ? nginxArguments(folder, settings) : ['-W', '-f', join(repository, 'deploy', file)];
  const balancer = spawn(program, args, { cwd: folder, env: settings, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [balancer.stdout, balancer.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  let isEnded = false;
  const ended = new Promise<void>((resolve) => {
    balancer.on('error', (failure) => (output += failure.message));
    balancer.on('close', () => {
      isEnded = true;
      resolve();
    });
  });
  await waitUntil(`${file} to listen`, async () => {
    if (isEnded) throw new Error(`${name} ended: ${output}`);
    return (await isListening(port)) ? true : undefined;
  });
  const startedAt = performance.now();
  const takenOver = name === 'nginx' ? /gracefully shutting down/g : /Loading success/g;
  const countTakenOver = (): number => output.match(takenOver)?.length ?? 0;
  return {
    port,
    pid: balancer.pid ?? 0,
    output: () => output,
    reload: async () => {
      await waitUntil(
        `${name} to be old enough`,
        () => (performance.now() - startedAt > oldEnoughToTeachMs ? true : undefined),
        oldEnoughToTeachMs * 2,
      );
      const before = countTakenOver();
      balancer.kill(name === 'nginx' ? 'SIGHUP' : 'SIGUSR2');
      await waitUntil(`new processes of ${name}`, () => (countTakenOver() > before ? true : undefined));
    },
    close: async () => {
      const workers = descendantsOf(balancer.pid ?? 0).map(({ pid }) => pid);
      balancer.kill('SIGTERM');
      try {
        await withDeadline(`the end of ${name}`, ended);
      } catch (failure) {
        balancer.kill('SIGKILL');
        for (const pid of workers.filter((each) => isRunning(each))) process.kill(pid, 'SIGKILL');
        throw failure;
      }
    },
  };
}
