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
}

/** Where events go. The event is a past-tense phrase; `info` for lifecycle, `debug` per call, `warn` recovered, `error` act. */
export interface Logger {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}
