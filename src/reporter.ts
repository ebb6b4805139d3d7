import { Redactor } from './core/redact.ts';
import { DeferredLogger } from './log/deferred.ts';
import { ErrorOutput, openOutput } from './stdio/output.ts';

/** What the program says to people and to logs, on standard error and without secrets. */
export class Reporter {
  readonly redactor = new Redactor();
  readonly logger: DeferredLogger;
  readonly #errors: ErrorOutput;

  /** Takes over the descriptor of standard error. */
  constructor(level: string) {
    this.#errors = new ErrorOutput(openOutput(2));
    this.logger = new DeferredLogger({
      level,
      redactor: this.redactor,
      write: (line) => {
        this.#errors.print(line);
      },
    });
  }

  /** Prints a text as it is, e.g. what was meant for standard output. */
  print(text: string): void {
    this.#errors.print(text);
  }

  /** Prints a sentence for people. */
  tell(text: string): void {
    this.#errors.print(`cloakbrowser-mcp: ${this.redactor.clean(text)}\n`);
  }

  /** Waits until everything has left. */
  async close(): Promise<void> {
    await this.logger.close();
    await this.#errors.close();
  }
}
