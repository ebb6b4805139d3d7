import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pages } from './pages.ts';

/** A loopback web server with the test pages. */
export interface PageServer {
  readonly url: string;
  /** Paths asked for so far, in order; favicons left out. */
  readonly hits: readonly string[];
  close(): Promise<void>;
}

/**
 * Serves `pages` by name, on a port that the system chooses. `/hang` accepts and never answers, `/slow?ms=` answers late,
 * `/large?bytes=` sends that many bytes, `/download` an attachment, `/count` the number of requests for it.
 */
export async function startPageServer(): Promise<PageServer> {
  const hits: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    if (pathname === '/favicon.ico') {
      response.writeHead(204).end(); // a 404 would be an error in the console, at a time that nobody knows
      return;
    }
    hits.push(pathname);
    if (pathname === '/hang') return;
    if (pathname === '/download') {
      response.writeHead(200, {
        'content-type': 'text/plain',
        'content-disposition': 'attachment; filename="note.txt"',
      });
      response.end('downloaded');
      return;
    }
    const html = pages[pathname.slice(1)] ?? special(pathname, searchParams, hits);
    setTimeout(
      () => {
        response.writeHead(html === undefined ? 404 : 200, { 'content-type': 'text/html; charset=utf-8' });
        response.end(html ?? 'no such page');
      },
      Number(searchParams.get('ms') ?? 0),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    hits,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}

function special(pathname: string, query: URLSearchParams, hits: readonly string[]): string | undefined {
  if (pathname === '/large') return `<title>Large</title><pre>${'x'.repeat(Number(query.get('bytes') ?? 0))}</pre>`;
  if (pathname === '/slow') return '<title>Slow</title>late';
  if (pathname === '/count') return `<title>Count</title>${hits.filter((hit) => hit === '/count').length}`;
  return undefined;
}
