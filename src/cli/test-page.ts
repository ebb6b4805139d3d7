import { once } from 'node:events';
import { createServer } from 'node:http';

/** A page on loopback. */
export interface TestPage {
  readonly url: string;
  /** True once a browser has asked for the page. */
  readonly isVisited: () => boolean;
  readonly close: () => Promise<void>;
}

/** Serves one page on a loopback port that the system chooses. */
export async function serveTestPage(html: string): Promise<TestPage> {
  let isVisited = false;
  const server = createServer((request, response) => {
    if (request.url !== '/') {
      response.writeHead(404).end();
      return;
    }
    isVisited = true;
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(html);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('a TCP server has a port');
  return {
    url: `http://127.0.0.1:${address.port}/`,
    isVisited: () => isVisited,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
