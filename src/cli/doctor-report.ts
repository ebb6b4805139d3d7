import type { DescribedSetting } from '../config/resolve.ts';
import type { Redactor } from '../core/redact.ts';
import { bridgeVersion } from '../core/version.ts';
import type { Check, CheckStatus } from './check.ts';

/** What the doctor found. */
export interface DoctorReport {
  readonly status: CheckStatus;
  readonly name: string;
  readonly version: string;
  readonly checks: readonly Check[];
  readonly settings: readonly DescribedSetting[];
}

/** Puts the findings together; the worst of them is the status of all. */
export function makeReport(checks: readonly Check[], settings: readonly DescribedSetting[]): DoctorReport {
  const has = (status: CheckStatus): boolean => checks.some((check) => check.status === status);
  const status = has('error') ? 'error' : has('warning') ? 'warning' : 'ok';
  return { status, name: 'cloakbrowser-mcp', version: bridgeVersion, checks, settings };
}

/** The report as one JSON text. Texts are cleaned before they are quoted, since quoting would hide a secret from the redactor. */
export function reportAsJson(report: DoctorReport, redactor: Redactor): string {
  const clean = (_key: string, value: unknown): unknown => (typeof value === 'string' ? redactor.clean(value) : value);
  return JSON.stringify(report, clean, 2);
}

function countOf(checks: readonly Check[], status: CheckStatus): string {
  return `${checks.filter((check) => check.status === status).length} ${status}`;
}

function describeCheck(check: Check, width: number): string[] {
  const indent = ' '.repeat(2 + 9 + width + 2);
  const output = check.status === 'error' ? check.details?.['output'] : undefined;
  // The first line of a browser's output is in the message already.
  const lines = Array.isArray(output) ? output.slice(1).map(String) : [];
  return [
    `  ${check.status.padEnd(9)}${check.name.padEnd(width)}  ${check.message.replace(/\s*\n\s*/g, ' ')}`,
    ...lines.map((line) => `${indent}| ${line}`),
    ...(check.status === 'ok' || check.mend === undefined
      ? []
      : [`${indent}mend: ${check.mend.replace(/\s*\n\s*/g, ' ')}`]),
  ];
}

/** The report for people: a line for each check, how to mend what failed, the settings that were given, a summary. */
export function reportAsText(report: DoctorReport, redactor: Redactor): string {
  const { name, version, checks, settings } = report;
  const width = Math.max(...checks.map((check) => check.name.length));
  const given = settings.filter(({ source }) => source !== 'default');
  const echo = given.map((setting) => `  ${setting.name} = ${JSON.stringify(setting.value)} (${setting.source})`);
  const lines = [
    `${name} ${version} doctor`,
    '',
    ...checks.flatMap((check) => describeCheck(check, width)),
    '',
    ...(given.length === 0
      ? ['All settings are at their defaults.']
      : ['Settings that differ from the defaults:', ...echo]),
    '',
    `${checks.length} checks: ${(['ok', 'warning', 'error'] as const).map((status) => countOf(checks, status)).join(', ')}`,
  ];
  return redactor.clean(lines.join('\n'));
}
