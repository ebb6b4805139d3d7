import { within } from '../core/deadline.ts';
import { BridgeError } from '../core/errors.ts';
import type { Host } from '../core/host.ts';
import type { Logger } from '../core/logger.ts';
import type { Child, ChildCommand } from '../upstream/child.ts';
import type { StartedChild } from './generation.ts';
import type { Workspace } from './workspace.ts';
import { openWorkspace } from './workspace.ts';

/** Time for the system to end a killed process. */
const exitMs = 2000;

/** What a child is told by files and flags, decided once its folders are known. */
export interface ChildPlan {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** Folders that a child's plan may name. */
export interface ChildFolders {
  /** The session's folder. */
  readonly session: string;
  /** The generation's own, for its configuration. */
  readonly generation: string;
  /** The child's TMPDIR. */
  readonly temp: string;
}

/** What a factory is made with. */
export interface ChildFactoryParts {
  readonly host: Host;
  readonly logger: Logger;
  readonly cliPath: string;
  readonly maxMessageBytes: number;
  readonly spawn: (command: ChildCommand) => Child;
}

/** Starts children in folders of their own below the session's folder, which is made when the first one needs it. */
export class ChildFactory {
  readonly #parts: ChildFactoryParts;
  #workspace: Workspace | undefined;
  readonly #children = new Set<Child>();
  readonly #exits = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(parts: ChildFactoryParts) {
    this.#parts = parts;
  }

  /** The session's folder, made if need be. Throws `folder_unwritable`, or `closing` when the session has ended. */
  get folder(): string {
    return this.#open().folder;
  }

  /** Starts a child in new folders; `plan` may write into them. With a failure nothing is left. */
  start(number: number, plan: (folders: ChildFolders) => ChildPlan): StartedChild {
    const workspace = this.#open();
    const opened = workspace.openGeneration(number);
    try {
      const { cliPath, maxMessageBytes } = this.#parts;
      const { args, env, cwd } = plan({ session: workspace.folder, generation: opened.folder, temp: opened.tempDir });
      const child = this.#parts.spawn({ cliPath, args, env, cwd, tempDir: opened.tempDir, maxMessageBytes });
      this.#children.add(child);
      const exit: Promise<void> = child.exited.then(() => {
        this.#exits.delete(exit);
      });
      this.#exits.add(exit);
      const release = (): Promise<void> => {
        this.#children.delete(child);
        return opened.release();
      };
      return { child, release };
    } catch (cause) {
      opened.discard();
      throw cause;
    }
  }

  /** Kills what runs and removes the session's folder, without waiting, for somebody who does not want to wait. */
  force(): void {
    for (const child of this.#children) child.kill();
    this.close();
  }

  /** Waits until the system has told the end of every child, at most 2 s, so that none stays behind as a zombie. */
  async settle(): Promise<void> {
    await within(Promise.all(this.#exits), exitMs);
  }

  /** Removes the session's folder at once. */
  close(): void {
    this.#isClosed = true;
    this.#workspace?.close();
  }

  /** Removes the session's folder, and lets everybody else go on meanwhile. */
  async remove(): Promise<void> {
    this.#isClosed = true;
    await this.#workspace?.remove();
  }

  #open(): Workspace {
    if (this.#isClosed) throw new BridgeError('closing', 'The session is ending.');
    this.#workspace ??= openWorkspace(this.#parts.host, this.#parts.logger);
    return this.#workspace;
  }
}
