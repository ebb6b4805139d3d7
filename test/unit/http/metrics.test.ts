import { describe, expect, it } from 'vitest';

import { errorTable } from '../../../src/core/errors.ts';
import { Metrics, type Readings } from '../../../src/http/metrics.ts';

const quiet: Readings = {
  sessions: { open: 0, closing: 0 },
  sessionsMax: 32,
  isDraining: false,
  callsInFlight: 0,
  cdpConnections: 0,
  startQueue: { running: 0, waiting: 0 },
  spares: { children: 0, browsers: 0 },
  bridge: { memoryBytes: 90_000_000, cpuSeconds: 1.5, startedAt: 1_800_000_000.25 },
  children: { count: 0, memoryBytes: 0 },
};

function makeMetrics(read: () => Promise<Readings> = () => Promise.resolve(quiet)): Metrics {
  return new Metrics({ version: '1.2.3', endReasons: ['deleted', 'idle'], lossReasons: ['exit'], read });
}

/** All samples by their name with labels, without the prefix that each of them has. */
async function scrape(metrics: Metrics): Promise<ReadonlyMap<string, number>> {
  const lines = (await metrics.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const [, name = '', value] = /^cloakbrowser_mcp_(\S+(?: \S+)*) (\S+)$/.exec(line) ?? [];
      return [name, Number(value)];
    }),
  );
}

describe('metrics', () => {
  it('are a text in the format that Prometheus reads', async () => {
    const metrics = makeMetrics();
    expect(metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await metrics.text();
    expect(text.endsWith('\n')).toBe(true);
    for (const line of text.split('\n').filter((candidate) => candidate !== '')) {
      expect(line).toMatch(
        /^(# (HELP|TYPE) cloakbrowser_mcp_\w+ \S.*|cloakbrowser_mcp_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? \S+)$/,
      );
    }
  });

  it('carry the units and endings that Prometheus asks for', async () => {
    const types = [...(await makeMetrics().text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
    const named = (wanted: string): string[] =>
      types.flatMap(([, name = '', type = '']) => (type === wanted ? [name] : []));
    expect(named('counter').length + named('gauge').length + named('histogram').length).toBe(types.length);
    expect(named('counter').filter((name) => !name.endsWith('_total'))).toEqual([]);
    expect(named('histogram').filter((name) => !name.endsWith('_seconds'))).toEqual([]);
    expect(named('gauge').filter((name) => /_(total|ms|kb|count|sum|bucket)$/.test(name))).toEqual([]);
  });

  it('count each event', async () => {
    const metrics = makeMetrics();
    metrics.sessionOpened();
    metrics.sessionOpened();
    metrics.sessionEnded('idle');
    metrics.refused('sessions_full');
    metrics.requestDone('mcp', 200);
    metrics.requestDone('mcp', 200);
    metrics.requestDone('healthz', 503);
    metrics.startFailed('child_start_failed');
    metrics.lost('exit');
    metrics.bytes('in', 10);
    metrics.bytes('out', 200);
    metrics.bytes('out', 22);
    expect(Object.fromEntries(await scrape(metrics))).toMatchObject({
      sessions_opened_total: 2,
      'sessions_ended_total{reason="idle"}': 1,
      'refusals_total{reason="sessions_full"}': 1,
      'http_requests_total{route="mcp",status="200"}': 2,
      'http_requests_total{route="healthz",status="503"}': 1,
      'starts_failed_total{code="child_start_failed"}': 1,
      'generations_lost_total{reason="exit"}': 1,
      'bytes_total{direction="in"}': 10,
      'bytes_total{direction="out"}': 222,
    });
  });

  it('show every word at 0 before it was met, so that its first rise is seen', async () => {
    const samples = await scrape(makeMetrics());
    const words = [
      'sessions_opened_total',
      ...['deleted', 'idle', 'other'].map((reason) => `sessions_ended_total{reason="${reason}"}`),
      ...['exit', 'other'].map((reason) => `generations_lost_total{reason="${reason}"}`),
      ...Object.keys(errorTable).map((code) => `refusals_total{reason="${code}"}`),
      ...['in', 'out'].map((direction) => `bytes_total{direction="${direction}"}`),
      ...['answered', 'undelivered'].map((outcome) => `calls_seconds_count{outcome="${outcome}"}`),
      'starts_seconds_count',
    ];
    expect(words.map((word) => [word, samples.get(word)])).toEqual(words.map((word) => [word, 0]));
  });

  it('never get a series from a word that nobody knows', async () => {
    const metrics = makeMetrics();
    const before = [...(await scrape(metrics)).keys()];
    for (let number = 0; number < 50; number += 1) {
      metrics.refused(`made up ${number}`);
      metrics.sessionEnded(`made up ${number}`);
      metrics.startFailed(`made up ${number}`);
      metrics.lost(`made up ${number}`);
    }
    const after = await scrape(metrics);
    expect([...after.keys()]).toEqual(before);
    expect(after.get('refusals_total{reason="other"}')).toBe(50);
  });

  it('put a duration in milliseconds into buckets of seconds, up to a minute', async () => {
    const metrics = makeMetrics();
    metrics.callDone(5, 'answered');
    metrics.callDone(6, 'answered');
    metrics.callDone(60_000, 'undelivered');
    metrics.started(60_001);
    const samples = await scrape(metrics);
    expect(Object.fromEntries(samples)).toMatchObject({
      'calls_seconds_bucket{le="0.005",outcome="answered"}': 1,
      'calls_seconds_bucket{le="0.01",outcome="answered"}': 2,
      'calls_seconds_bucket{le="30",outcome="undelivered"}': 0,
      'calls_seconds_bucket{le="60",outcome="undelivered"}': 1,
      'calls_seconds_sum{outcome="answered"}': 0.011,
      'calls_seconds_count{outcome="undelivered"}': 1,
      'starts_seconds_bucket{le="60"}': 0,
      'starts_seconds_bucket{le="+Inf"}': 1,
    });
    expect(samples.has('starts_seconds_bucket{le="0.1"}')).toBe(true);
  });

  it('show what is read at the moment of the scrape', async () => {
    let readings: Readings = { ...quiet, sessions: { open: 3, closing: 1 }, callsInFlight: 2 };
    const metrics = makeMetrics(() => Promise.resolve(readings));
    expect(Object.fromEntries(await scrape(metrics))).toMatchObject({
      'info{version="1.2.3"}': 1,
      'sessions{state="open"}': 3,
      'sessions{state="closing"}': 1,
      sessions_limit: 32,
      draining: 0,
      calls_in_flight: 2,
      bridge_memory_bytes: 90_000_000,
      bridge_cpu_seconds_total: 1.5,
      bridge_start_time_seconds: 1_800_000_000.25,
    });
    readings = {
      ...quiet,
      isDraining: true,
      startQueue: { running: 4, waiting: 28 },
      spares: { children: 1, browsers: 2 },
      children: { count: 30, memoryBytes: 700_000_000 },
      bridge: { ...quiet.bridge, cpuSeconds: 2 },
    };
    expect(Object.fromEntries(await scrape(metrics))).toMatchObject({
      'sessions{state="open"}': 0,
      draining: 1,
      calls_in_flight: 0,
      'start_queue{state="running"}': 4,
      'start_queue{state="waiting"}': 28,
      'spares{kind="children"}': 1,
      'spares{kind="browsers"}': 2,
      children: 30,
      children_memory_bytes: 700_000_000,
      bridge_cpu_seconds_total: 2,
    });
  });

  it('of two servers in one process are apart', async () => {
    const one = makeMetrics();
    const other = makeMetrics();
    one.sessionOpened();
    expect((await scrape(other)).get('sessions_opened_total')).toBe(0);
  });

  it('fail the scrape and not the next one when something cannot be read', async () => {
    let isBroken = true;
    const metrics = makeMetrics(() => (isBroken ? Promise.reject(new Error('broken')) : Promise.resolve(quiet)));
    await expect(metrics.text()).rejects.toThrow('broken');
    isBroken = false;
    expect((await scrape(metrics)).get('sessions_limit')).toBe(32);
  });
});
