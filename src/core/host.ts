/** What a module may know and do of the process it runs in; `cli/host.ts` makes it, so that no other file touches `process`. */
export interface Host {
  readonly platform: NodeJS.Platform;
  /** The Node program that runs us and that children are run with. */
  readonly execPath: string;
  readonly pid: number;
  readonly uid: number | undefined;
  readonly hostname: string;
  readonly homeDir: string;
  readonly tempDir: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Sends a signal; a negative pid means the process group. Throws as `process.kill` does. */
  kill(pid: number, signal: NodeJS.Signals | 0): void;
}
