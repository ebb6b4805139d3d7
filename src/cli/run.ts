import { fstatSync, readFileSync } from 'node:fs';

import { resolveSettings } from '../config/resolve.ts';
import { describeError, errorTable, toBridgeError } from '../core/errors.ts';
import { bridgeVersion } from '../core/version.ts';
import { parseCommandLine } from './command.ts';
import { currentFolder } from './host.ts';
import { serve, serveHttp } from './serve.ts';

/**
 * Prints the help. With a pipe as standard input a client may be driving the program with a wrong flag, and its standard
 * output carries the protocol or nothing.
 */
function printHelp(text: string): void {
  const input = fstatSync(0);
  const isDriven = input.isFIFO() || input.isSocket();
  (isDriven ? process.stderr : process.stdout).write(`${text.trimEnd()}\n`);
}

async function start(argv: readonly string[]): Promise<number> {
  const { command, flags, json, url } = parseCommandLine(argv);
  const { path: cwd, note } = currentFolder();
  const given = resolveSettings({ flags, env: process.env, cwd, readFile: (path) => readFileSync(path, 'utf8') });
  const resolved = note === undefined ? given : { ...given, warnings: [...given.warnings, note] };
  // A server for many must not start half configured; one over stdio tells its only client instead.
  const isService = command === 'serve' && resolved.settings.transport === 'streamable-http';
  if (isService ? resolved.problems.length > 0 : resolved.problems.some((problem) => problem.kind === 'flag')) {
    for (const problem of resolved.problems) process.stderr.write(`cloakbrowser-mcp: ${problem.message}\n`);
    process.stderr.write('cloakbrowser-mcp: see cloakbrowser-mcp --help\n');
    return errorTable.usage.exit;
  }
  if (command === 'version') {
    process.stdout.write(`${bridgeVersion}\n`);
    return 0;
  }
  if (command === 'help') {
    const { helpText } = await import('../config/reference.ts');
    printHelp(helpText());
    return 0;
  }
  if (command === 'doctor') return (await import('./doctor.ts')).doctor(resolved, flags, json);
  if (command === 'status') return (await import('./status.ts')).status(resolved, url, json);
  if (command === 'demo') return (await import('./demo.ts')).demo(resolved, flags, url);
  return isService ? serveHttp(resolved) : serve(resolved);
}

/** Runs the program and ends it with its exit code; a failure is one line on stderr, never a stack trace. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    process.exitCode = await start(argv);
  } catch (failure) {
    const error = toBridgeError(failure);
    process.exitCode = errorTable[error.code].exit;
    process.stderr.write(`cloakbrowser-mcp: ${describeError(error)}\n`);
  }
  // Nothing that a library left open may keep the program from ending.
  process.exit();
}
