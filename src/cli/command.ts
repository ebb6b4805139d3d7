import { parseArgs } from 'node:util';
import type { GivenFlag, ParsedFlags } from '../config/layers.ts';
import { type Option, options } from '../config/options.ts';
import { type Problem, problem, showValue, suggestion } from '../config/problem.ts';
import { type GivenUpstreamFlag, type UpstreamFlag, upstreamFlags } from '../config/upstream-flags.ts';

/** What the program is asked to do; `serve` is what it does when nothing is asked. */
export type Command = 'serve' | 'doctor' | 'demo' | 'status' | 'help' | 'version';

/** A command line, split but not validated. */
export interface CommandLine {
  readonly command: Command;
  /** `doctor --json`, `status --json`. */
  readonly json: boolean;
  /** The page of `demo`, the server of `status`. */
  readonly url?: string;
  readonly flags: ParsedFlags;
}

type Meaning =
  | { readonly kind: 'option'; readonly option: Option }
  | { readonly kind: 'negated'; readonly option: Option }
  | { readonly kind: 'upstream'; readonly flag: UpstreamFlag }
  | { readonly kind: 'program'; readonly name: 'json' | 'help' | 'version' };

const variadicFlags = new Set(upstreamFlags.filter(({ arity }) => arity === 'variadic').map(({ name }) => name));

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];
type FlagToken = Extract<Token, { kind: 'option' }>;

const commandLine = { kind: 'flag', name: 'command line' } as const;
const commands: readonly Command[] = ['serve', 'doctor', 'demo', 'status'];
/** Commands that take an address, with what it looks like. */
const addresses: ReadonlyMap<Command | undefined, { readonly form: RegExp; readonly example: string }> = new Map([
  ['demo', { form: /^(https?|file):/i, example: 'https://example.org' }],
  ['status', { form: /^https?:\/\//i, example: 'http://127.0.0.1:3000' }],
]);
/** Words after a switch that are meant as its value, the wrong ones too, so that they are refused as such. */
const switchWord = /^(true|false|yes|no|on|off|0|1)$/i;

function meanings(): Map<string, Meaning> {
  const known = new Map<string, Meaning>(upstreamFlags.map((flag) => [flag.name, { kind: 'upstream', flag }]));
  for (const option of options) {
    for (const flag of option.flags) {
      known.set(flag, { kind: 'option', option });
      if (option.form.kind === 'switch') known.set(`no-${flag}`, { kind: 'negated', option });
    }
  }
  for (const name of ['json', 'help', 'version'] as const) known.set(name, { kind: 'program', name });
  return known;
}

function takesValue(meaning: Meaning): boolean {
  if (meaning.kind === 'upstream') return meaning.flag.arity !== 'none';
  return meaning.kind === 'option' && meaning.option.form.kind !== 'switch';
}

/** Reads the tokens of one command line from left to right. */
class Reader {
  readonly given: GivenFlag[] = [];
  readonly upstream: GivenUpstreamFlag[] = [];
  readonly problems: Problem[] = [];
  readonly positionals: string[] = [];
  readonly program = new Set<string>();
  readonly #known = meanings();
  readonly #tokens: readonly Token[];
  #next = 0;

  constructor(argv: readonly string[]) {
    const flags = [...this.#known].map(
      ([name, meaning]) => [name, { type: takesValue(meaning) ? 'string' : 'boolean' }] as const,
    );
    const short = { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'V' } } as const;
    // Not strict, so that every mistake is found and not only the first one.
    this.#tokens = parseArgs({
      args: [...argv],
      options: { ...Object.fromEntries(flags), ...short },
      strict: false,
      tokens: true,
    }).tokens;
  }

  read(): void {
    for (let token = this.#take(); token !== undefined; token = this.#take()) {
      if (token.kind === 'positional') this.positionals.push(token.value);
      else if (token.kind === 'option') this.#readFlag(token);
    }
  }

  #take(): Token | undefined {
    this.#next += 1;
    return this.#tokens[this.#next - 1];
  }

  #takePositional(isWanted: (value: string) => boolean): string | undefined {
    const token = this.#tokens[this.#next];
    if (token?.kind !== 'positional' || !isWanted(token.value)) return undefined;
    this.#next += 1;
    return token.value;
  }

  #refuse(spelling: string, text: string): void {
    this.problems.push(problem({ kind: 'flag', name: spelling }, text));
  }

  #readFlag(token: FlagToken): void {
    const meaning = this.#known.get(token.name);
    if (meaning === undefined) {
      const names = [...this.#known.keys()].map((name) => `--${name}`);
      const hint = suggestion(token.name, names) || '; a flag of another upstream version goes after "--"';
      this.#refuse(token.rawName, `unknown flag${hint}`);
      // The word after it most likely is its value; one mistake is told once.
      this.#takePositional((word) => !commands.some((command) => command === word));
    } else if (takesValue(meaning)) this.#readValue(token, meaning);
    else if (meaning.kind === 'option') this.#readSwitch(token, meaning.option);
    else if (token.inlineValue === true) this.#refuse(token.rawName, 'takes no value');
    else if (meaning.kind === 'negated')
      this.given.push({ option: meaning.option.name, spelling: token.rawName, value: 'false' });
    else if (meaning.kind === 'upstream') this.upstream.push({ flag: meaning.flag, args: [token.rawName] });
    else this.program.add(meaning.name);
  }

  #readSwitch(token: FlagToken, option: Option): void {
    const value = token.value ?? this.#takePositional((word) => switchWord.test(word)) ?? 'true';
    this.given.push({ option: option.name, spelling: token.rawName, value });
  }

  #readValue(token: FlagToken, meaning: Meaning): void {
    const { rawName, value, inlineValue } = token;
    if (value === undefined || (inlineValue !== true && this.#isFlag(value))) {
      const follows = value === undefined ? '' : `, but ${value} follows; write ${rawName}=${value} if that is meant`;
      this.#refuse(rawName, `needs a value${follows}`);
    } else if (meaning.kind === 'option') {
      const { name } = meaning.option;
      const values = [value];
      // Upstream's spelling of a list takes several words, as it does there.
      if (variadicFlags.has(token.name)) this.#takeAll(values);
      for (const one of values) this.given.push({ option: name, spelling: rawName, value: one });
    } else if (meaning.kind === 'upstream') {
      const args = inlineValue === true ? [`${rawName}=${value}`] : [rawName, value];
      if (meaning.flag.arity === 'variadic') this.#takeAll(args);
      this.upstream.push({ flag: meaning.flag, args });
    }
  }

  #takeAll(args: string[]): void {
    for (let word = this.#takePositional(() => true); word !== undefined; word = this.#takePositional(() => true))
      args.push(word);
  }

  #isFlag(value: string): boolean {
    return value.startsWith('--') && this.#known.has(value.slice(2).replace(/=.*/s, ''));
  }
}

function checkWords(reader: Reader, words: readonly string[], isCommand: boolean): void {
  for (const word of words) {
    const hint = isCommand ? '' : suggestion(word, commands);
    reader.problems.push(problem(commandLine, `unexpected argument ${showValue(word)}${hint}`));
  }
}

function checkAddress(reader: Reader, command: Command, url: string | undefined): void {
  const wanted = addresses.get(command);
  if (url === undefined || wanted === undefined || wanted.form.test(url)) return;
  const text = `${command} takes a full address such as ${wanted.example}, got ${showValue(url)}`;
  reader.problems.push(problem(commandLine, text));
}

function commandOf(reader: Reader): Pick<CommandLine, 'command' | 'url'> {
  const named = commands.find((candidate) => candidate === reader.positionals[0]);
  const words = reader.positionals.slice(named === undefined ? 0 : 1);
  const url = addresses.has(named) ? words.shift() : undefined;
  if (named !== undefined) checkAddress(reader, named, url);
  checkWords(reader, words, named !== undefined);
  if (reader.program.has('json') && named !== 'doctor' && named !== 'status') {
    reader.problems.push(problem({ kind: 'flag', name: '--json' }, 'belongs to the commands doctor and status'));
  }
  if (reader.program.has('help')) return { command: 'help' };
  if (reader.program.has('version')) return { command: 'version' };
  const command = named ?? 'serve';
  return url === undefined ? { command } : { command, url };
}

/**
 * Splits a command line without the program's name. `node:util` does the splitting: commander costs 14 to 20 ms of CPU
 * in every start for its module and the 85 flags, and stops at the first mistake.
 */
export function parseCommandLine(argv: readonly string[]): CommandLine {
  // Cut off first: a flag that misses its value must not take the "--" for it.
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const rest = argv.slice(end + 1);
  const reader = new Reader(argv.slice(0, end));
  reader.read();
  const command = commandOf(reader);
  const { given, upstream, problems } = reader;
  return { ...command, json: reader.program.has('json'), flags: { given, upstream, rest, problems } };
}
