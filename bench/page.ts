import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const page = '<!doctype html><title>Benchmark</title><h1>Benchmark</h1><p>A page with a <a href="/">link</a>.</p>';

/** Serves one small page on loopback while `use` runs. */
export async function withPage<T>(use: (url: string) => Promise<T>): Promise<T> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end(page);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
