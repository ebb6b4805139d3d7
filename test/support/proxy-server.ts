import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A loopback web proxy that wants a user name and a password. */
export interface ProxyServer {
  /** Host and port. */
  readonly address: string;
  /** The addresses that were asked for with the right credentials. */
  readonly served: readonly string[];
  close(): Promise<void>;
}

/** Answers every http address itself with a page titled `Behind the proxy`, if asked with the credentials. */
export async function startProxyServer(credentials: { username: string; password: string }): Promise<ProxyServer> {
  const token = Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64');
  const served: string[] = [];
  const server = createServer((request, response) => {
    if (request.headers['proxy-authorization'] !== `Basic ${token}`) {
      response.writeHead(407, { 'proxy-authenticate': 'Basic realm="tests"' }).end();
      return;
    }
    served.push(request.url ?? '');
    response.writeHead(200, { 'content-type': 'text/html' }).end('<title>Behind the proxy</title>reached');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    served,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}
