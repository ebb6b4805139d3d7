import type { LogFields, Logger } from '../core/logger.ts';
import type { LogParts } from './pino.ts';

const order = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

type Level = keyof Logger;
type Entry = readonly [level: Level, event: string, fields: LogFields | undefined];

/**
 * A logger that loads pino with the first event that is to be written: that costs as much as the rest of our own start,
 * and until the client has its first answers there is nothing to log.
 */
export class DeferredLogger implements Logger {
  readonly #parts: LogParts;
  readonly #least: number;
  readonly #waiting: Entry[] = [];
  #logger: Logger | undefined;
  #loading: Promise<void> | undefined;

  constructor(parts: LogParts) {
    this.#parts = parts;
    this.#least = order.indexOf(parts.level);
  }

  debug(event: string, fields?: LogFields): void {
    this.#log('debug', event, fields);
  }

  info(event: string, fields?: LogFields): void {
    this.#log('info', event, fields);
  }

  warn(event: string, fields?: LogFields): void {
    this.#log('warn', event, fields);
  }

  error(event: string, fields?: LogFields): void {
    this.#log('error', event, fields);
  }

  /** Resolves when every event so far is written. */
  async close(): Promise<void> {
    await this.#loading;
  }

  #log(level: Level, event: string, fields: LogFields | undefined): void {
    if (order.indexOf(level) < this.#least) return;
    if (this.#logger !== undefined) {
      this.#logger[level](event, fields);
      return;
    }
    this.#waiting.push([level, event, fields]);
    this.#loading ??= this.#load();
  }

  async #load(): Promise<void> {
    const logger = await import('./pino.ts').then(
      ({ createLogger }) => createLogger(this.#parts),
      () => plainLogger(this.#parts),
    );
    for (const [level, event, fields] of this.#waiting.splice(0)) logger[level](event, fields);
    this.#logger = logger;
  }
}

/** Stands in when pino's file is gone, as after an update of the package under a running server. */
function plainLogger(parts: LogParts): Logger {
  const at =
    (level: Level) =>
    (event: string, fields: LogFields = {}): void => {
      const clean = (_key: string, value: unknown): unknown =>
        typeof value === 'string' ? parts.redactor.clean(value) : value;
      parts.write(`${JSON.stringify({ level, ...fields, msg: event }, clean)}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
