/** Levels of log messages in MCP (those of RFC 5424), the least important first. */
const logLevels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;

/** How important a log message to the client is. */
export type LogLevel = (typeof logLevels)[number];

/** The bridge's own log messages to one client, of the importance that it asked for. */
export class ClientLog {
  readonly #notify: (method: string, params: Readonly<Record<string, unknown>>) => void;
  #level: string | undefined;
  #lastProgress: string | undefined;

  constructor(notify: (method: string, params: Readonly<Record<string, unknown>>) => void) {
    this.#notify = notify;
  }

  /** The level that the client asked for, to be repeated to a new child. */
  get level(): string | undefined {
    return this.#level;
  }

  /** Notes the level, also where upstream has no logging. */
  setLevel(level: unknown): void {
    if (typeof level === 'string') this.#level = level;
  }

  /** Tells of an event, unless the client asked for more important ones only. */
  tell(level: LogLevel, data: Readonly<Record<string, unknown>>): void {
    if (this.#wants(level)) this.#send(level, data);
  }

  /** Tells how something goes on, to a client that asked for log messages; a repeated text tells nothing. */
  tellProgress(message: string): void {
    if (this.#lastProgress === message || this.#level === undefined || !this.#wants('info')) return;
    this.#lastProgress = message;
    this.#send('info', message);
  }

  #wants(level: LogLevel): boolean {
    return logLevels.indexOf(level) >= logLevels.indexOf(this.#level as LogLevel);
  }

  #send(level: LogLevel, data: unknown): void {
    this.#notify('notifications/message', { level, logger: 'cloakbrowser-mcp', data });
  }
}
