import type { SettingName } from './options.ts';
import { type GivenSource, type Problem, problem, type SettingSource } from './problem.ts';

/** Where each setting came from. */
export type SettingSources = Readonly<Record<SettingName, SettingSource>>;

/** What is wrong, and what somebody may have meant otherwise. */
export interface Findings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
}

/** Collects findings, each named by where a setting was given; what nobody gave is never at fault. */
export class Finder {
  readonly problems: Problem[] = [];
  readonly warnings: string[] = [];
  readonly #sources: SettingSources;

  constructor(sources: SettingSources) {
    this.#sources = sources;
  }

  given(name: SettingName): GivenSource | undefined {
    const source = this.#sources[name];
    return source.kind === 'default' ? undefined : source;
  }

  refuse(name: SettingName, text: string): void {
    const source = this.given(name);
    if (source !== undefined) this.problems.push(problem(source, text));
  }

  warn(name: SettingName, text: string): void {
    const source = this.given(name);
    if (source !== undefined) this.warnings.push(`${source.name}: ${text}`);
  }
}
