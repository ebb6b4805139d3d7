import type { ServerStatus, SessionStatus } from '../core/server-status.ts';

/** Longer names of clients are cut, so that a line of the table stays a line. */
const longestName = 40;
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
/** Control characters: a client names itself, and must not write to the terminal of whoever looks. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** Milliseconds as a person says them: `45 s`, `12 min`, `2 h 5 min`, `3 d 4 h`. */
export function describeDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  const [big, bigUnit, small, smallUnit] =
    hours < 24 ? [hours, 'h', minutes % 60, 'min'] : [Math.floor(hours / 24), 'd', hours % 24, 'h'];
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

/** Bytes as a person says them: `812 KiB`, `1.3 GiB`. */
export function describeBytes(bytes: number): string {
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : value.toFixed(0)} ${units[power] ?? ''}`;
}

/** A text of somebody else on one line, without what a terminal would obey. */
export function showText(text: string): string {
  const plain = text.replace(control, '?');
  return plain.length > longestName ? `${plain.slice(0, longestName - 3)}...` : plain;
}

const columns: readonly (readonly [title: string, cell: (session: SessionStatus) => string])[] = [
  ['session', ({ hash }) => showText(hash)],
  ['state', ({ state }) => showText(state)],
  ['client', ({ client }) => showText(`${client.name} ${client.version}`)],
  ['age', ({ ageMs }) => describeDuration(ageMs)],
  ['idle', ({ idleMs }) => describeDuration(idleMs)],
  ['calls', ({ calls }) => String(calls)],
  ['in flight', ({ inFlight }) => String(inFlight)],
  ['browser', ({ generation }) => (generation === 0 ? 'none yet' : `no. ${generation}`)],
  ['memory', ({ memoryBytes }) => (memoryBytes === null ? '-' : describeBytes(memoryBytes))],
];

function describeTable(sessions: readonly SessionStatus[]): string[] {
  const rows = [
    columns.map(([title]) => title),
    ...sessions.map((session) => columns.map(([, describe]) => describe(session))),
  ];
  const widths = columns.map((_column, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
  return rows.map((row) => `  ${row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')}`.trimEnd());
}

function describeState({ draining, sessions, limits }: ServerStatus): string {
  if (draining) return 'draining: no new sessions, ends when the open ones are done';
  return sessions.length >= limits.sessions ? 'full: no new sessions until one ends' : 'ready';
}

function describeMemory({ memoryBytes, sessions }: ServerStatus): string {
  const known = sessions.flatMap((session) => session.memoryBytes ?? []);
  const ofSessions = known.reduce((sum, bytes) => sum + bytes, 0);
  return `${describeBytes(memoryBytes)} the bridge${known.length === 0 ? '' : `, ${describeBytes(ofSessions)} the sessions`}`;
}

/** The status for people: what the server is and how it is, then a line for each session. */
export function statusAsText(status: ServerStatus): string {
  const { version, uptimeMs, url, replica, sessions, limits, startQueue, spares } = status;
  const facts: readonly (readonly [string, string])[] = [
    ['state', describeState(status)],
    ['address', showText(url)],
    ...(replica === null ? [] : [['replica', showText(replica)] as const]),
    ['up for', describeDuration(uptimeMs)],
    ['sessions', `${sessions.length} of ${limits.sessions}`],
    ['starts', `${startQueue.running} of ${limits.starts} at once, ${startQueue.waiting} waiting`],
    ['spares', `${spares.children} without and ${spares.browsers} with a running browser`],
    ['memory', describeMemory(status)],
  ];
  return [
    `cloakbrowser-mcp ${showText(version)}`,
    ...facts.map(([name, text]) => `  ${name.padEnd('sessions'.length)}  ${text}`),
    ...(sessions.length === 0 ? [] : ['', ...describeTable(sessions)]),
  ].join('\n');
}

/** What the server told, for programs. */
export function statusAsJson(told: unknown): string {
  const escape = (letter: string): string =>
    letter === '\n' ? letter : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(told, null, 2).replace(control, escape);
}
