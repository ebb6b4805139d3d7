import { expect, it } from 'vitest';
import { Metrics, routes } from '../../src/http/metrics.ts';

/** Labels whose values are names of errors, statuses or versions: listed elsewhere, or without end. */
const openLabels = new Set(['reason', 'code', 'status', 'version']);

function makeMetrics(): Metrics {
  const metrics = new Metrics({
    version: '0.0.0',
    endReasons: [],
    lossReasons: [],
    read: () =>
      Promise.resolve({
        sessions: { open: 0, closing: 0 },
        sessionsMax: 0,
        isDraining: false,
        callsInFlight: 0,
        cdpConnections: 0,
        startQueue: { running: 0, waiting: 0 },
        spares: { children: 0, browsers: 0 },
        bridge: { memoryBytes: 0, cpuSeconds: 0, startedAt: 0 },
        children: { count: 0, memoryBytes: 0 },
      }),
  });
  for (const route of routes) metrics.requestDone(route, 200);
  return metrics;
}

/** The labels of a metric, each with its values where they are few and fixed. */
function describeLabels(lines: readonly string[], name: string): string {
  const values = new Map<string, Set<string>>();
  const samples = lines.filter(
    (line) => line.startsWith(name) && /^(_bucket|_count|_sum)?[ {]/.test(line.slice(name.length)),
  );
  for (const [, label = '', value = ''] of samples.join('\n').matchAll(/(\w+)="([^"]*)"/g)) {
    values.set(label, (values.get(label) ?? new Set()).add(value));
  }
  const described = [...values].map(([label, words]) =>
    openLabels.has(label) ? `\`${label}\`` : `\`${label}\`: ${[...words].join(', ')}`,
  );
  return described.join('; ');
}

function describePage(text: string): string {
  const lines = text.split('\n');
  const rows = lines.flatMap((line) => {
    const [, name, help = ''] = /^# HELP (\w+) (.+)$/.exec(line) ?? [];
    if (name === undefined) return [];
    const type = lines.find((other) => other.startsWith(`# TYPE ${name} `))?.split(' ')[3] ?? '';
    return [`| \`${name}\` | ${type} | ${describeLabels(lines, name)} | ${help} |`];
  });
  return [
    '# Metrics',
    '',
    'Written from the code by `npm run docs`; do not edit.',
    '',
    'What `GET /metrics` of the HTTP server tells in the text format of Prometheus. It needs a token where the endpoint needs one. Every label has a closed list of values: `reason` of refusals and `code` are names of [errors](errors.md). What the processes of the sessions use is measured at most every 10 s.',
    '',
    '| Name | Type | Labels | What |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

it('the page of the metrics is what the code says', async () => {
  await expect(describePage(await makeMetrics().text())).toMatchFileSnapshot('../../docs/reference/metrics.md');
});
