import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { LogFields, Logger } from '../../src/core/logger.ts';
import { Listener, type ListenerSettings } from '../../src/http/listener.ts';
import { replyJson } from '../../src/http/reply.ts';
import { RawConnection } from './raw-connection.ts';

/** The limits of a listener whose time is short enough to be waited for. */
export const shortLimits = {
  maxHeaderBytes: 4096,
  headerTimeoutMs: 400,
  bodyTimeoutMs: 800,
  keepAliveTimeoutMs: 60_000,
};

/** A listener within the test, and all that it told. */
export interface ListenerBed {
  readonly listener: Listener;
  readonly url: string;
  readonly port: number;
  readonly refused: string[];
  readonly logged: { readonly level: string; readonly event: string; readonly fields: LogFields | undefined }[];
  /** A connection that is given up at the end of the test. */
  readonly connect: () => Promise<RawConnection>;
}

type Served = (req: IncomingMessage, res: ServerResponse) => void | Promise<void>;

const opened: { close(): void | Promise<void> }[] = [];

/** Opens a listener on a free loopback port; without `serve` it answers every request with its method and path. */
export async function openListener(
  serve: Served = echo,
  settings: Partial<ListenerSettings> = {},
): Promise<ListenerBed> {
  const logged: ListenerBed['logged'] = [];
  const refused: string[] = [];
  const at =
    (level: string) =>
    (event: string, fields?: LogFields): void =>
      void logged.push({ level, event, fields });
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const listener = new Listener({
    protocol: 'http',
    host: '127.0.0.1',
    port: 0,
    limits: shortLimits,
    onRequest: serve,
    onRefused: (code) => void refused.push(code),
    logger,
    readFile: (path) => readFileSync(path),
    ...settings,
  });
  opened.push(listener);
  const { url, port } = await listener.open();
  const connect = async (): Promise<RawConnection> => {
    const connection = await RawConnection.open(port);
    opened.push(connection);
    return connection;
  };
  return { listener, url, port, refused, logged, connect };
}

/** Gives up all connections and closes all listeners of a test. */
export async function closeListeners(): Promise<void> {
  for (const thing of opened.splice(0).toReversed()) await thing.close();
}

function echo(req: IncomingMessage, res: ServerResponse): void {
  replyJson(res, 200, { method: req.method, path: req.url });
}
