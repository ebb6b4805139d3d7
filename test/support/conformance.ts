import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const tool = join(repository, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const preload = new URL('glob-sync.mjs', import.meta.url).href;

/** The frozen requirement set of the newest revision that has sessions. */
const revision = '2025-11-25';

/** What the set runs against a server: 30 scenarios that count, and 3 that the tool runs without counting them. */
export const scenarioCount = 33;

/** One verdict of the conformance tool. */
export interface Check {
  readonly scenario: string;
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED';
  readonly errorMessage?: string;
}

/** A whole run of the tool. */
export interface ConformanceRun {
  readonly exitCode: number | null;
  /** In the order of the scenarios' names; within a scenario as the tool made them. */
  readonly checks: readonly Check[];
  readonly output: string;
}

/** Where the tool keeps the checks of a scenario: `server-<scenario>-<time>`. */
const folderPattern = /^server-(?<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/;

function readChecks(folder: string): Check[] {
  return fs
    .readdirSync(folder)
    .toSorted()
    .flatMap((name) => {
      const scenario = folderPattern.exec(name)?.groups?.['scenario'];
      if (scenario === undefined) throw new Error(`The conformance tool wrote an unexpected ${name}`);
      const checks = JSON.parse(fs.readFileSync(join(folder, name, 'checks.json'), 'utf8')) as Omit<
        Check,
        'scenario'
      >[];
      return checks.map((check) => ({ ...check, scenario }));
    });
}

/** Runs the conformance tool against the server at `url`; what it writes goes to a new folder `folder`. */
export function runConformance(options: {
  url: string;
  folder: string;
  expectedFailures?: string;
}): Promise<ConformanceRun> {
  fs.mkdirSync(options.folder);
  const baseline = options.expectedFailures === undefined ? [] : ['--expected-failures', options.expectedFailures];
  const child = spawn(
    process.execPath,
    [
      ...('globSync' in fs ? [] : ['--import', preload]),
      ...[tool, 'server', '--url', options.url, '--requirements', revision, '-o', options.folder],
      ...baseline,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => {
      resolve({ exitCode, checks: readChecks(options.folder), output });
    });
  });
}

/** The scenarios that were run. */
export function scenariosOf(run: ConformanceRun): string[] {
  return [...new Set(run.checks.map(({ scenario }) => scenario))];
}

/** `scenario:check status`, one a check: what two servers are compared by. */
export function verdictsOf(run: ConformanceRun): string[] {
  return run.checks.map(({ scenario, id, status }) => `${scenario}:${id} ${status}`);
}

/** The checks with this status, as text that tells what was wrong. */
export function checksWith(run: ConformanceRun, status: Check['status']): string[] {
  return run.checks
    .filter((check) => check.status === status)
    .map(({ scenario, id, errorMessage }) => `${scenario}:${id}: ${errorMessage ?? ''}`);
}

/** The end of what the tool printed if it counts the run as failed, else an empty text. */
export function complaintOf({ exitCode, output }: ConformanceRun): string {
  return exitCode === 0 ? '' : `exit code ${exitCode}: ${output.slice(-3000)}`;
}
