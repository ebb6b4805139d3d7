import { Counter, Gauge, Histogram, Registry } from 'prom-client';

import { refusals } from '../core/cdp-errors.ts';
import { errorTable } from '../core/errors.ts';

const prefix = 'cloakbrowser_mcp_';
/** A call that needs no page takes milliseconds; clients commonly give up after 60 s. */
const callBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** A child needs most of a second; one that waits for the download of a browser, most of a minute. */
const startBuckets = [0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60];
/** What a word outside of its list counts as, so that nothing can add a series by itself. */
const otherWord = 'other';

/** The routes that requests are counted by; whatever else was asked for is `other`. */
export const routes = ['mcp', 'files', 'cdp', 'healthz', 'readyz', 'metrics', 'status', otherWord] as const;

/** What a request was for. */
export type Route = (typeof routes)[number];

const outcomes = ['answered', 'undelivered'] as const;

/** How a call ended: with an answer that was sent, or with one for which its connection was gone. */
export type CallOutcome = (typeof outcomes)[number];

const directions = ['in', 'out'] as const;

/** Where bytes went: `in` from clients, `out` to them. */
export type Direction = (typeof directions)[number];

/** What is read at the moment of a scrape. */
export interface Readings {
  readonly sessions: { readonly open: number; readonly closing: number };
  readonly sessionsMax: number;
  readonly isDraining: boolean;
  readonly callsInFlight: number;
  /** WebSockets of CDP clients. */
  readonly cdpConnections: number;
  /** Children that are starting now, and those that wait for their turn. */
  readonly startQueue: { readonly running: number; readonly waiting: number };
  /** Children that wait for an owner: without and with a running browser. */
  readonly spares: { readonly children: number; readonly browsers: number };
  /** Resident memory in bytes, processor time in seconds, and the start as a Unix time in seconds. */
  readonly bridge: { readonly memoryBytes: number; readonly cpuSeconds: number; readonly startedAt: number };
  /** All processes that sessions and spares started; their proportional memory in bytes. */
  readonly children: { readonly count: number; readonly memoryBytes: number };
}

/** What the metrics are made with. */
export interface MetricsParts {
  readonly version: string;
  /** The reasons that a session can end for. */
  readonly endReasons: readonly string[];
  /** The reasons that a generation can be lost for. */
  readonly lossReasons: readonly string[];
  /** Asked once for each scrape; may take as long as a look at the processes of the children does. */
  readonly read: () => Promise<Readings>;
}

interface Shown {
  readonly name: string;
  readonly help: string;
  readonly label?: string;
  /** The value, or with a label the value for each of its words. */
  readonly value: (readings: Readings) => number | Readonly<Record<string, number>>;
}

const gauges: readonly Shown[] = [
  { name: 'sessions', help: 'Sessions by state.', label: 'state', value: ({ sessions }) => sessions },
  { name: 'sessions_limit', help: 'How many sessions may be open.', value: ({ sessionsMax }) => sessionsMax },
  { name: 'draining', help: '1 while no new sessions are taken.', value: ({ isDraining }) => Number(isDraining) },
  { name: 'calls_in_flight', help: 'Calls that wait for an answer.', value: ({ callsInFlight }) => callsInFlight },
  { name: 'cdp_connections', help: 'Open WebSockets of CDP clients.', value: ({ cdpConnections }) => cdpConnections },
  {
    name: 'start_queue',
    help: 'Upstream processes that are starting, and those that wait to be started.',
    label: 'state',
    value: ({ startQueue }) => startQueue,
  },
  {
    name: 'spares',
    help: 'Upstream processes started ahead, without and with a running browser.',
    label: 'kind',
    value: ({ spares }) => spares,
  },
  {
    name: 'children',
    help: 'Processes that sessions and spares started, browsers included.',
    value: ({ children }) => children.count,
  },
  {
    name: 'children_memory_bytes',
    help: 'Memory of those processes; of a shared page each has its part (Pss).',
    value: ({ children }) => children.memoryBytes,
  },
  {
    name: 'bridge_memory_bytes',
    help: 'Resident memory of the bridge itself.',
    value: ({ bridge }) => bridge.memoryBytes,
  },
  {
    name: 'bridge_start_time_seconds',
    help: 'When the bridge was started, as a Unix time.',
    value: ({ bridge }) => bridge.startedAt,
  },
];

function cdpWord(code: string): string {
  return `cdp_${code}`;
}

/** Counts of one event by the words of a closed list; each word is there from the start, so that rates can be told. */
class WordCounter {
  readonly #counter: Counter;
  readonly #label: string;
  readonly #words: ReadonlySet<string>;

  constructor(counter: Counter, label: string, words: readonly string[]) {
    this.#counter = counter;
    this.#label = label;
    this.#words = new Set([...words, otherWord]);
    for (const word of this.#words) this.add(word, 0);
  }

  add(word: string, count = 1): void {
    this.#counter.inc({ [this.#label]: this.#words.has(word) ? word : otherWord }, count);
  }
}

/** Counts what happens and tells it in the text format of Prometheus. Every label has a closed list of values. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #read: MetricsParts['read'];
  readonly #gauges: ReadonlyMap<Shown, Gauge>;
  readonly #cpu: Counter;
  readonly #opened: Counter;
  readonly #ended: WordCounter;
  readonly #refused: WordCounter;
  readonly #requests: Counter;
  readonly #starts: Histogram;
  readonly #startsFailed: WordCounter;
  readonly #lost: WordCounter;
  readonly #calls: Histogram;
  readonly #bytes: Counter;

  constructor(parts: MetricsParts) {
    const codes = Object.keys(errorTable);
    this.#read = parts.read;
    this.#gauges = new Map(gauges.map((shown) => [shown, this.#gauge(shown)]));
    this.#cpu = this.#counter('bridge_cpu_seconds_total', 'Processor time of the bridge itself.');
    this.#opened = this.#counter('sessions_opened_total', 'Sessions that were opened.');
    this.#ended = this.#words('sessions_ended_total', 'Sessions that ended.', 'reason', parts.endReasons);
    const reasons = [...codes, ...Object.keys(refusals).map(cdpWord)];
    this.#refused = this.#words('refusals_total', 'Requests that were refused.', 'reason', reasons);
    this.#requests = this.#counter('http_requests_total', 'Answered HTTP requests.', ['route', 'status']);
    this.#starts = this.#histogram(
      'starts_seconds',
      'How long sessions waited for an upstream process: download, turn and boot, or the hand-over of a spare.',
      startBuckets,
    );
    this.#startsFailed = this.#words('starts_failed_total', 'Starts of upstream that failed.', 'code', codes);
    this.#lost = this.#words('generations_lost_total', 'Lost children and browsers.', 'reason', parts.lossReasons);
    this.#calls = this.#histogram(
      'calls_seconds',
      'How long tool calls took, from their arrival to their answer.',
      callBuckets,
      ['outcome'],
    );
    for (const outcome of outcomes) this.#calls.zero({ outcome });
    this.#bytes = this.#counter('bytes_total', 'Bytes of messages, in from clients and out to them.', ['direction']);
    for (const direction of directions) this.#bytes.inc({ direction }, 0);
    this.#gauge({ name: 'info', help: 'The version that runs.', label: 'version' }).set({ version: parts.version }, 1);
  }

  /** What the answer of `text` is called in `Content-Type`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** A session was opened. */
  sessionOpened(): void {
    this.#opened.inc();
  }

  /** A session ended. */
  sessionEnded(reason: string): void {
    this.#ended.add(reason);
  }

  /** A request was refused; the reason is the code of the error. */
  refused(reason: string): void {
    this.#refused.add(reason);
  }

  /** A request of a CDP client was refused; the reason is the code of the refusal. */
  cdpRefused(reason: string): void {
    this.#refused.add(cdpWord(reason));
  }

  /** A request was answered, or broken off with the status that it had by then. */
  requestDone(route: Route, status: number): void {
    this.#requests.inc({ route, status: String(status) });
  }

  /** A child became ready after so many milliseconds. */
  started(ms: number): void {
    this.#starts.observe(ms / 1000);
  }

  /** A child did not become ready; the code is that of the error. */
  startFailed(code: string): void {
    this.#startsFailed.add(code);
  }

  /** A generation was lost. */
  lost(reason: string): void {
    this.#lost.add(reason);
  }

  /** A tool call ended after so many milliseconds. */
  callDone(ms: number, outcome: CallOutcome): void {
    this.#calls.observe({ outcome }, ms / 1000);
  }

  /** So many bytes of messages came from a client or went to one. */
  bytes(direction: Direction, count: number): void {
    this.#bytes.inc({ direction }, count);
  }

  /** Everything in the text format of Prometheus. */
  async text(): Promise<string> {
    const readings = await this.#read();
    for (const [{ label = '', value }, gauge] of this.#gauges) {
      const shown = value(readings);
      if (typeof shown === 'number') gauge.set(shown);
      else for (const [word, count] of Object.entries(shown)) gauge.set({ [label]: word }, count);
    }
    this.#cpu.reset();
    this.#cpu.inc(readings.bridge.cpuSeconds);
    return this.#registry.metrics();
  }

  #gauge({ name, help, label }: Pick<Shown, 'name' | 'help' | 'label'>): Gauge {
    const labelNames = label === undefined ? [] : [label];
    return new Gauge({ name: prefix + name, help, labelNames, registers: [this.#registry] });
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name: prefix + name, help, labelNames, registers: [this.#registry] });
  }

  #words(name: string, help: string, label: string, words: readonly string[]): WordCounter {
    return new WordCounter(this.#counter(name, help, [label]), label, words);
  }

  #histogram(name: string, help: string, buckets: number[], labelNames: string[] = []): Histogram {
    return new Histogram({ name: prefix + name, help, buckets, labelNames, registers: [this.#registry] });
  }
}
