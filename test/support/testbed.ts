import { existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LineClient, type JsonObject, type Message } from './client.ts';
import { listEntries, makeFolders, type TestFolders } from './folders.ts';
import { isRunning, processesOf } from './processes.ts';
import { waitUntil } from './waiting.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The built program. */
export const bridgeProgram = join(repository, 'dist', 'main.js');

/** The children in `test/fixtures`. */
export type ChildName = 'fake-upstream' | 'dying-child' | 'noisy-child' | 'slow-child';

/** The files of the catalogs learned so far. */
const learnedCatalogs = new Map<ChildName, readonly (readonly [name: string, text: string])[]>();

/** The path of a program in `test/fixtures`. */
function fixture(name: ChildName): string {
  return join(repository, 'test', 'fixtures', `${name}.mjs`);
}

/** What a fake child wrote down. */
export interface FakeEvent extends JsonObject {
  readonly event: string;
  readonly pid: number;
  readonly method?: string;
  readonly tool?: string;
}

/** How a bridge of a test is started. */
export interface BridgeOptions {
  readonly child?: ChildName;
  /** `playwright` unless a test wants the bridge to find the browser. */
  readonly engine?: 'cloak' | 'playwright';
  /** Flags of the bridge. */
  readonly args?: readonly string[];
  /** Settings of the fake child, without their `FAKE_UPSTREAM_`. */
  readonly fake?: Readonly<Record<string, string>>;
  /** More environment of the bridge. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** The folders of one test and everything that was started in them. */
export class Testbed {
  readonly folders: TestFolders;
  readonly #clients: LineClient[] = [];

  private constructor(folders: TestFolders) {
    this.folders = folders;
  }

  static async make(): Promise<Testbed> {
    return new Testbed(await makeFolders());
  }

  /** The environment that every program of this test gets. */
  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: this.folders.home,
      TMPDIR: this.folders.tmp,
    };
  }

  /** The command that starts the bridge in front of a fake child. */
  command(options: BridgeOptions = {}): { program: string; args: string[]; env: Record<string, string> } {
    const fake = {
      EVENTS: this.#file('events'),
      RECORD: this.#file('record'),
      SENT: this.#file('sent'),
      ...options.fake,
    };
    const settings = Object.entries(fake).map(([name, value]) => [`FAKE_UPSTREAM_${name}`, value] as const);
    return {
      program: bridgeProgram,
      args: [
        ...['--upstream-cli', fixture(options.child ?? 'fake-upstream')],
        ...['--browser-engine', options.engine ?? 'playwright', '--cache-dir', this.folders.cache],
        ...settings.flatMap(([name]) => ['--child-env', name]),
        ...(options.args ?? []),
      ],
      env: { ...this.env, ...Object.fromEntries(settings), ...options.env },
    };
  }

  /** Starts the bridge in front of a fake child. */
  start(options: BridgeOptions = {}): LineClient {
    return this.startProgram({ ...this.command(options), ...(options.cwd === undefined ? {} : { cwd: options.cwd }) });
  }

  /** Starts the fake child without a bridge. */
  startDirect(options: Pick<BridgeOptions, 'child' | 'fake'> = {}): LineClient {
    const settings = Object.entries(options.fake ?? {}).map(
      ([name, value]) => [`FAKE_UPSTREAM_${name}`, value] as const,
    );
    return this.startProgram({ program: fixture(options.child ?? 'fake-upstream'), env: Object.fromEntries(settings) });
  }

  /** Starts a program of Node with this test's folders. */
  startProgram(options: {
    program: string;
    args?: readonly string[];
    env?: Readonly<Record<string, string>>;
    cwd?: string;
  }): LineClient {
    const client = new LineClient({
      program: options.program,
      args: options.args ?? [],
      env: { ...this.env, ...options.env },
      cwd: options.cwd ?? this.folders.cwd,
    });
    this.#clients.push(client);
    return client;
  }

  /**
   * Stores the catalog of an otherwise healthy child, so that a session starts exactly one child and counts are exact.
   * It is learned by a bridge once for each kind of child in a test file, and copied from then on.
   */
  async learnCatalog(child: ChildName = 'fake-upstream'): Promise<void> {
    const learned = learnedCatalogs.get(child);
    if (learned !== undefined) {
      mkdirSync(this.folders.cache, { recursive: true });
      for (const [name, text] of learned) writeFileSync(join(this.folders.cache, name), text);
      return;
    }
    const quiet = { EVENTS: this.#file('learn'), RECORD: this.#file('learn'), SENT: this.#file('learn') };
    const client = this.start({ child, fake: quiet });
    await client.initialize();
    await client.request('tools/list');
    await client.close();
    const names = (await listEntries(this.folders.cache)).filter((name) => name.endsWith('.json'));
    if (names.length === 0) throw new Error('No catalog was stored');
    const files = names.map((name) => [name, readFileSync(join(this.folders.cache, name), 'utf8')] as const);
    learnedCatalogs.set(child, files);
  }

  /** Cuts every stored catalog in half. */
  async damageCatalog(): Promise<void> {
    const names = (await listEntries(this.folders.cache)).filter((name) => name.endsWith('.json'));
    if (names.length === 0) throw new Error('No catalog is stored');
    for (const name of names) {
      const path = join(this.folders.cache, name);
      truncateSync(path, Math.floor(statSync(path).size / 2));
    }
  }

  /** Everything that the fake children wrote down so far. */
  events(): FakeEvent[] {
    return this.#lines('events').map((line) => JSON.parse(line) as FakeEvent);
  }

  /** The events of one kind, with these fields. */
  eventsOf(event: string, fields: Readonly<Record<string, unknown>> = {}): FakeEvent[] {
    const wanted = Object.entries(fields);
    return this.events().filter(
      (entry) => entry.event === event && wanted.every(([key, value]) => entry[key] === value),
    );
  }

  /** Waits until a fake child wrote this down `count` times; returns the last of them. */
  waitForEvent(event: string, fields: Readonly<Record<string, unknown>> = {}, count = 1): Promise<FakeEvent> {
    return waitUntil(`${count} x ${event} ${JSON.stringify(fields)}`, () => this.eventsOf(event, fields)[count - 1]);
  }

  /** How many children were started, which calls reached one, and which it answered. */
  counts(): { started: number; calls: number; answered: number } {
    const received = this.eventsOf('received', { method: 'tools/call' });
    const answered = this.events().filter(({ event, tool }) => event === 'answered' && tool !== undefined);
    return { started: this.eventsOf('start').length, calls: received.length, answered: answered.length };
  }

  /** The raw lines that the children received. */
  received(): string[] {
    return this.#lines('record');
  }

  /** The raw lines that the children sent. */
  sent(): string[] {
    return this.#lines('sent');
  }

  /** Kills what still runs and removes the folders. To be called after each test. */
  async close(): Promise<void> {
    for (const { pid } of processesOf(this.folders.root)) kill(pid);
    for (const client of this.#clients) await client.exited;
    await waitUntil('the end of all', () =>
      processesOf(this.folders.root).some(({ pid }) => isRunning(pid)) ? undefined : true,
    );
    await this.folders.remove();
  }

  #file(name: string): string {
    return join(this.folders.root, name);
  }

  #lines(name: string): string[] {
    const file = this.#file(name);
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (failure) {
    // It may have ended since it was listed.
    if (!(failure instanceof Error && 'code' in failure && failure.code === 'ESRCH')) throw failure;
  }
}

/** The text of a tool's answer. */
export function textOf(answer: Message): string {
  const content = answer.result?.['content'];
  if (!Array.isArray(content)) throw new Error(`No content in ${JSON.stringify(answer).slice(0, 500)}`);
  return content.map((part: JsonObject) => (typeof part['text'] === 'string' ? part['text'] : '')).join('\n');
}

/** The structured content of a tool's answer. */
export function structuredOf(answer: Message): JsonObject {
  const content = answer.result?.['structuredContent'];
  if (typeof content !== 'object' || content === null)
    throw new Error(`No structured content in ${JSON.stringify(answer)}`);
  return content as JsonObject;
}
