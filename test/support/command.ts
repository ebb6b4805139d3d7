import { spawn } from 'node:child_process';
import { bridgeProgram } from './testbed.ts';

/** What a command printed and how it ended. */
export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command is run. */
export interface CommandOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Another copy of the program than the built one. */
  readonly program?: string;
  /** Called with the pid of the running program. */
  readonly onStart?: (pid: number) => void;
}

/** Runs a command of the built program, such as `doctor`, to its end. */
export function runCommand(args: readonly string[], options: CommandOptions): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [options.program ?? bridgeProgram, ...args], {
      cwd: options.cwd,
      env: options.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      resolve({ code, stdout, stderr });
    });
    if (child.pid !== undefined) options.onStart?.(child.pid);
  });
}
