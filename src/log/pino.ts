import { pino } from 'pino';

import type { LogFields, Logger } from '../core/logger.ts';
import type { Redactor } from '../core/redact.ts';

/** What a logger is made with. */
export interface LogParts {
  readonly level: string;
  readonly redactor: Redactor;
  /** Takes one finished line with its newline. */
  write(line: string): void;
}

/** A logger of JSON lines, from which every known secret is removed by value. */
export function createLogger(parts: LogParts): Logger {
  const options = { level: parts.level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const log = pino(options, {
    write: (line: string) => {
      parts.write(line);
    },
  });
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: LogFields = {}): void => {
      log[level](cleanFields(fields, parts.redactor), parts.redactor.clean(event));
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** The fields without secrets: the texts only, since a secret such as `1234` must not break a number or a name. */
function cleanFields(fields: LogFields, redactor: Redactor): LogFields {
  const cleaned = Object.entries(fields).map(([name, value]) => [
    name,
    typeof value === 'string' ? redactor.clean(value) : (value as unknown),
  ]);
  return Object.fromEntries(cleaned) as LogFields;
}
