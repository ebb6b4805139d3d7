/** Field names that may appear in a log line, so that a log can be searched by one spelling. */
export interface LogFields {
  sessionId?: string | undefined;
  generation?: number | undefined;
  pid?: number | undefined;
  port?: number | undefined;
  durationMs?: number | undefined;
  code?: string | number | null | undefined;
  signal?: string | null | undefined;
  reason?: string | undefined;
  method?: string | undefined;
  path?: string | undefined;
  bytes?: number | undefined;
  count?: number | undefined;
  version?: string | undefined;
  line?: string | undefined;
  hint?: string | undefined;
  host?: string | undefined;
}

/** Where events go. The event is a past-tense phrase; `info` for lifecycle, `debug` per call, `warn` recovered, `error` act. */
export interface Logger {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

/**
 * A logger that adds the same fields to every event, e.g. the session that it is about. `clean` takes out of the other
 * texts what only this owner knows to be secret.
 */
export function withFields(logger: Logger, added: LogFields, clean: (text: string) => string = (text) => text): Logger {
  const at =
    (level: keyof Logger) =>
    (event: string, fields: LogFields = {}): void => {
      const cleaned = Object.entries(fields).map(([name, value]) => [
        name,
        typeof value === 'string' ? clean(value) : (value as unknown),
      ]);
      logger[level](event, { ...added, ...(Object.fromEntries(cleaned) as LogFields) });
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** A logger whose events can be given to another one later, for what changes its owner. */
export class HandedLogger implements Logger {
  #target: Logger;

  constructor(target: Logger) {
    this.#target = target;
  }

  /** From now on events go there. */
  hand(target: Logger): void {
    this.#target = target;
  }

  debug(event: string, fields?: LogFields): void {
    this.#target.debug(event, fields);
  }

  info(event: string, fields?: LogFields): void {
    this.#target.info(event, fields);
  }

  warn(event: string, fields?: LogFields): void {
    this.#target.warn(event, fields);
  }

  error(event: string, fields?: LogFields): void {
    this.#target.error(event, fields);
  }
}
