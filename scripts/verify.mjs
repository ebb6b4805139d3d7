// @ts-check
// Runs the named steps one after the other, all of them even if one fails, and ends with "N passed, N failed".
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @type {Record<string, string[]>} */
const checks = {
  types: ['tsc', '-p', '.'],
  lint: ['oxlint'],
  format: ['prettier', '--check', '--log-level', 'warn', '.'],
  knip: ['knip'],
};
const testProjects = ['unit', 'docs', 'system', 'browser'];

const folder = mkdtempSync(join(tmpdir(), 'verify-'));
const total = { passed: 0, failed: 0, skipped: 0 };
/** @type {string[]} */
const failures = [];
/** What a log that keeps only its end would lose. @type {string[]} */
const details = [];
for (const step of process.argv.slice(2)) {
  const started = performance.now();
  const counts = testProjects.includes(step) ? runTests(step) : runCheck(step);
  total.passed += counts.passed;
  total.failed += counts.failed;
  total.skipped += counts.skipped;
  if (counts.failed > 0) failures.push(step);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== ${step}: ${counts.failed > 0 ? 'failed' : 'passed'} in ${seconds} s\n`);
}
rmSync(folder, { recursive: true });
for (const detail of details) console.log(`${detail}\n`);
if (failures.length > 0) console.log(`failed steps: ${failures.join(', ')}`);
console.log(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`);
process.exitCode = total.failed > 0 ? 1 : 0;

/**
 * A check that is no test run counts as one.
 * @param {string} step
 */
function runCheck(step) {
  const command = checks[step];
  if (command === undefined) throw new Error(`no such step: ${step}`);
  const isPassed = run(command) === 0;
  return { passed: isPassed ? 1 : 0, failed: isPassed ? 0 : 1, skipped: 0 };
}

/** @param {string} project */
function runTests(project) {
  const file = join(folder, `${project}.json`);
  const status = run([
    'vitest',
    'run',
    '--project',
    project,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ]);
  const counts = readCounts(file);
  // A file that cannot be loaded, an error outside of a test, or no test at all fails the run without a failed test.
  if (status !== 0 && counts.failed === 0) counts.failed = 1;
  return counts;
}

/** @param {string} file */
function readCounts(file) {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    const skipped = report.numPendingTests + report.numTodoTests;
    for (const { name, message, assertionResults } of report.testResults) {
      const failed = assertionResults.filter((/** @type {{ status: string }} */ { status }) => status === 'failed');
      if (failed.length === 0 && message !== '') details.push(`${name}: ${message}`);
      for (const { fullName, failureMessages } of failed) {
        details.push(`${name}: ${fullName}\n${failureMessages.join('\n').slice(0, 3000)}`);
      }
    }
    return { passed: report.numPassedTests, failed: report.numFailedTests, skipped };
  } catch {
    // The runner ended before it wrote its report; its exit code tells.
    return { passed: 0, failed: 0, skipped: 0 };
  }
}

/** @param {string[]} command */
function run(command) {
  const [program = '', ...parameters] = command;
  const result = spawnSync(join('node_modules', '.bin', program), parameters, {
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32',
  });
  if (result.error !== undefined) console.error(result.error.message);
  return result.status ?? 1;
}
