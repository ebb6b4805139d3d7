import type { Exit, LineClient } from './client.ts';
import { waitUntil } from './waiting.ts';

/** The URL of a server that tells it in a line `Listening on <url>` on stderr, as upstream and the bridge do. */
export async function waitForListening(server: LineClient, ms = 30_000): Promise<string> {
  let exit: Exit | undefined;
  void server.exited.then((seen) => {
    exit = seen;
  });
  return waitUntil(
    'the line Listening on ...',
    () => {
      if (exit !== undefined) throw new Error(`The server ended (${exit.code ?? exit.signal}): ${server.stderr}`);
      return /^Listening on (?<url>\S+)$/m.exec(server.stderr)?.groups?.['url'];
    },
    ms,
  );
}
