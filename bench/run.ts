import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { findTestBrowser } from '../test/support/browser.ts';
import { planCalls } from './calls.ts';
import { planCdp, planCdpCalls } from './cdp.ts';
import { Commands } from './commands.ts';
import { planHttpCalls } from './http/calls.ts';
import { planChurn } from './http/churn.ts';
import { HttpCommands } from './http/commands.ts';
import { findCompetitors } from './http/competitors.ts';
import { planFirstPage } from './http/first-page.ts';
import { planHttpMemory } from './http/memory.ts';
import { planOpening } from './http/opening.ts';
import { Program } from './program.ts';
import { describeAll, describeSection } from './report.ts';
import { type Bounds, type Plan, type Section, runSection } from './section.ts';
import { Server } from './server.ts';
import { planShutdown } from './shutdown.ts';
import { planOwnStart, planStart } from './start.ts';
import { judge } from './targets.ts';

const usage =
  'npm run bench -- [--quick] [--only SECTION,...] [--rounds N] [--bridge FILE]\n' +
  'Sections over stdio: start, own-start, calls, end-idle, end-browser, cdp, cdp-calls; over HTTP (`http` is all of them): http-open, ' +
  'http-calls, http-memory, http-churn, http-page.';

/**
 * Full bounds add up to less than twelve minutes over stdio and ten over HTTP, also on a slow machine; the quick ones to
 * about two and four.
 */
const bounds: Readonly<Record<string, { readonly full: Bounds; readonly quick: Bounds }>> = {
  start: { full: { rounds: 7, seconds: 180 }, quick: { rounds: 1, seconds: 20 } },
  'own-start': { full: { rounds: 9, seconds: 80 }, quick: { rounds: 1, seconds: 10 } },
  calls: { full: { rounds: 8, seconds: 90 }, quick: { rounds: 1, seconds: 12 } },
  'end-idle': { full: { rounds: 7, seconds: 40 }, quick: { rounds: 2, seconds: 8 } },
  'end-browser': { full: { rounds: 5, seconds: 50 }, quick: { rounds: 1, seconds: 8 } },
  cdp: { full: { rounds: 5, seconds: 120 }, quick: { rounds: 1, seconds: 30 } },
  'cdp-calls': { full: { rounds: 5, seconds: 90 }, quick: { rounds: 1, seconds: 20 } },
  'http-open': { full: { rounds: 5, seconds: 110 }, quick: { rounds: 1, seconds: 30 } },
  'http-calls': { full: { rounds: 4, seconds: 90 }, quick: { rounds: 1, seconds: 30 } },
  'http-memory': { full: { rounds: 2, seconds: 60 }, quick: { rounds: 1, seconds: 30 } },
  'http-churn': { full: { rounds: 1, seconds: 120 }, quick: { rounds: 1, seconds: 120 } },
  'http-page': { full: { rounds: 4, seconds: 120 }, quick: { rounds: 1, seconds: 30 } },
};

function versionOf(manifest: string): string {
  const parsed = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };
  return parsed.version;
}

/** Builds the bridge and copies it, so that a build of somebody else meanwhile changes nothing. */
function buildBridge(folder: string): string {
  execFileSync(process.execPath, ['scripts/build.mjs'], { stdio: 'ignore' });
  cpSync('dist', join(folder, 'dist'), { recursive: true });
  return join(folder, 'dist', 'main.js');
}

/** One start of each kind that nobody counts: it stores the catalog and brings the files into memory. */
async function warmUp(commands: Commands): Promise<void> {
  for (const upstream of ['instant', 'real'] as const) {
    for (const engine of ['cloak', 'playwright'] as const) {
      const server = new Server(commands.bridge({ engine, upstream, catalog: 'stored' }));
      await server.open();
      await server.end();
    }
  }
}

async function runAll(plans: readonly Plan[], rounds: number | undefined, isQuick: boolean): Promise<Section[]> {
  const sections: Section[] = [];
  for (const plan of plans) {
    const bound = bounds[plan.name]?.[isQuick ? 'quick' : 'full'] ?? { rounds: 1, seconds: 60 };
    const section = await runSection(plan, rounds === undefined ? bound : { ...bound, rounds });
    console.log(`${describeSection(section)}\n`);
    sections.push(section);
  }
  return sections;
}

function writeReport(sections: readonly Section[], browser: string): void {
  const setting = {
    date: new Date().toISOString(),
    bridge: versionOf('package.json'),
    upstream: versionOf('node_modules/@playwright/mcp/package.json'),
    node: process.versions.node,
    processors: availableParallelism(),
    browser,
  };
  const verdicts = judge(sections);
  const report = describeAll(setting, sections, verdicts);
  console.log(report.slice(report.indexOf('## Targets')));
  mkdirSync('bench/results', { recursive: true });
  const name = setting.date.replaceAll(/[:.]/g, '-');
  writeFileSync('bench/results/latest.md', report);
  writeFileSync(`bench/results/${name}.json`, JSON.stringify({ setting, verdicts, sections }, null, 1));
  console.log(`Written to bench/results/latest.md and bench/results/${name}.json.`);
}

/** The plans of these names; `http` stands for all over HTTP. */
function choosePlans(commands: Commands, wanted: readonly string[] | undefined): readonly Plan[] {
  const isWanted = (name: string): boolean => wanted === undefined || wanted.includes(name);
  const overStdio = [planStart(commands), planOwnStart(commands), planCalls(commands), ...planShutdown(commands)];
  const cdp = [planCdp(commands), planCdpCalls(commands)];
  const chosen = [...overStdio, ...cdp].filter((plan) => isWanted(plan.name));
  if (wanted?.some((name) => name.startsWith('http')) === false) return chosen;
  const http = new HttpCommands(commands, findCompetitors());
  const plans = [planOpening, planHttpCalls, planHttpMemory, planChurn, planFirstPage].map((plan) => plan(http));
  return [...chosen, ...plans.filter((plan) => isWanted('http') || isWanted(plan.name))];
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      rounds: { type: 'string' },
      bridge: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return;
  }
  // Below node_modules, where the built program finds the packages that stay outside of it.
  const parent = 'node_modules/.cache/cloakbrowser-mcp';
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(process.cwd(), parent, 'bench-'));
  process.once('exit', () => {
    Program.killAll();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  const browser = findTestBrowser();
  const commands = new Commands({
    bridge: values.bridge === undefined ? buildBridge(folder) : resolve(values.bridge),
    browser: browser.path,
    folder,
  });
  const chosen = choosePlans(commands, values.only?.split(','));
  await warmUp(commands);
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  writeReport(await runAll(chosen, rounds, values.quick), `${dirname(browser.path)} (${browser.source})`);
}

await main();
