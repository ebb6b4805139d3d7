import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { ParsedFlags } from '../config/layers.ts';
import { type Resolved, describeSettings } from '../config/resolve.ts';
import { Inspection } from '../inspection.ts';
import type { Check, CheckParts } from './check.ts';
import {
  checkBrowser,
  checkDisplay,
  checkLicence,
  checkNode,
  checkProxy,
  checkSandbox,
  checkSettings,
  checkUpstream,
} from './doctor-checks.ts';
import { checkFolders } from './doctor-folders.ts';
import { checkLaunch, skippedLaunch } from './doctor-launch.ts';
import { makeReport, reportAsJson, reportAsText } from './doctor-report.ts';
import { currentHost } from './host.ts';
import { printText } from './print.ts';
import { runStoppable } from './stoppable.ts';

function neededNode(): string {
  // By its own name, so that it is found from the sources and from the bundle.
  const path = createRequire(import.meta.url).resolve('cloakbrowser-mcp/package.json');
  const { engines } = JSON.parse(readFileSync(path, 'utf8')) as { engines: { node: string } };
  return engines.node;
}

async function examine(parts: CheckParts, flags: ParsedFlags, signal: AbortSignal): Promise<Check[]> {
  const finding = await parts.inspection.browser();
  const checks = [
    checkNode(process.versions.node, neededNode()),
    ...checkSettings(parts),
    checkUpstream(parts),
    checkBrowser(parts, finding),
    await checkLicence(parts),
    checkDisplay(parts),
    await checkSandbox(parts, finding),
    ...(await checkFolders(parts, finding)),
    await checkProxy(parts),
  ];
  const isInstalled = finding.info?.installed ?? true;
  checks.push(skippedLaunch(checks, isInstalled) ?? (await checkLaunch(parts, flags, signal)));
  return checks;
}

/** Checks everything between this program and a loaded page, and prints what it found. Returns the exit code. */
export async function doctor(resolved: Resolved, flags: ParsedFlags, json: boolean): Promise<number> {
  const host = currentHost();
  const inspection = new Inspection(resolved, host);
  return runStoppable(async (signal) => {
    const checks = await examine({ resolved, inspection, host }, flags, signal);
    const report = makeReport(checks, describeSettings(inspection));
    await printText(json ? reportAsJson(report, inspection.redactor) : reportAsText(report, inspection.redactor));
    return report.status === 'error' ? 1 : 0;
  });
}
