import { describe, expect, it } from 'vitest';

import {
  describeBytes,
  describeDuration,
  showText,
  statusAsJson,
  statusAsText,
} from '../../../src/cli/status-report.ts';
import type { ServerStatus, SessionStatus } from '../../../src/core/server-status.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const mebibyte = 1024 ** 2;

const busy: SessionStatus = {
  hash: '1f00ab12',
  state: 'open',
  client: { name: 'claude-code', version: '2.1.0' },
  ageMs: 2 * hour + 5 * minute,
  idleMs: 3000,
  calls: 112,
  inFlight: 1,
  generation: 2,
  pid: 4711,
  memoryBytes: 410 * mebibyte,
};

const fresh: SessionStatus = {
  hash: 'c0ffee00',
  state: 'closing',
  client: { name: 'x', version: '1' },
  ageMs: 900,
  idleMs: 900,
  calls: 0,
  inFlight: 0,
  generation: 0,
  pid: null,
  memoryBytes: null,
};

function makeStatus(parts: Partial<ServerStatus> = {}): ServerStatus {
  return {
    name: 'cloakbrowser-mcp',
    version: '1.2.3',
    uptimeMs: 3 * day + 4 * hour,
    url: 'http://127.0.0.1:3000/mcp',
    replica: null,
    draining: false,
    memoryBytes: 92 * mebibyte,
    sessions: [],
    limits: { sessions: 32, starts: 4 },
    startQueue: { running: 0, waiting: 0 },
    spares: { children: 1, browsers: 0 },
    ...parts,
  };
}

describe('describeDuration', () => {
  it.each([
    [0, '0 s'],
    [999, '0 s'],
    [59_999, '59 s'],
    [minute, '1 min'],
    [hour - 1, '59 min'],
    [hour, '1 h'],
    [2 * hour + 5 * minute, '2 h 5 min'],
    [day - 1, '23 h 59 min'],
    [day, '1 d'],
    [3 * day + 4 * hour + 59 * minute, '3 d 4 h'],
  ])('of %d ms is %s', (ms, text) => {
    expect(describeDuration(ms)).toBe(text);
  });
});

describe('describeBytes', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [812 * 1024, '812 KiB'],
    [1.3 * 1024 * mebibyte, '1.3 GiB'],
    [2 ** 60, '1048576 TiB'],
  ])('of %d is %s', (bytes, text) => {
    expect(describeBytes(bytes)).toBe(text);
  });
});

describe('the text of somebody else', () => {
  it('cannot command the terminal', () => {
    expect(showText('a\u001b[2J\u009b1m\nb\u202ec')).toBe('a?[2J?1m?b?c');
  });

  it('is cut after 40 characters', () => {
    expect(showText('x'.repeat(40))).toBe('x'.repeat(40));
    expect(showText('x'.repeat(41))).toBe(`${'x'.repeat(37)}...`);
  });
});

describe('the status for people', () => {
  it('tells of a server without sessions in a few lines', () => {
    expect(statusAsText(makeStatus())).toBe(`cloakbrowser-mcp 1.2.3
  state     ready
  address   http://127.0.0.1:3000/mcp
  up for    3 d 4 h
  sessions  0 of 32
  starts    0 of 4 at once, 0 waiting
  spares    1 without and 0 with a running browser
  memory    92 MiB the bridge`);
  });

  it('has a line for each session, in columns', () => {
    const lines = statusAsText(makeStatus({ sessions: [busy, fresh], replica: 'a' })).split('\n');
    expect(lines).toContain('  replica   a');
    expect(lines).toContain('  memory    92 MiB the bridge, 410 MiB the sessions');
    expect(lines.slice(-3)).toEqual([
      '  session   state    client             age        idle  calls  in flight  browser   memory',
      '  1f00ab12  open     claude-code 2.1.0  2 h 5 min  3 s   112    1          no. 2     410 MiB',
      '  c0ffee00  closing  x 1                0 s        0 s   0      0          none yet  -',
    ]);
  });

  it.each([
    [{ draining: true }, /^ {2}state {5}draining: no new sessions/m],
    [{ sessions: [busy], limits: { sessions: 1, starts: 4 } }, /^ {2}state {5}full: no new sessions/m],
    [{ sessions: [busy], limits: { sessions: 2, starts: 4 } }, /^ {2}state {5}ready$/m],
  ])('says whether new sessions are taken (%#)', (parts, line) => {
    expect(statusAsText(makeStatus(parts))).toMatch(line);
  });

  it('keeps what a client called itself on its line', () => {
    const client = { name: 'evil\u001b]0;title\u0007\nroot', version: '1'.repeat(500) };
    const text = statusAsText(makeStatus({ sessions: [{ ...busy, client }] }));
    expect(text.split('\n')).toHaveLength(11);
    expect(text).not.toContain('\u001b');
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThan(150);
  });
});

describe('the status for programs', () => {
  it('is what the server told, with what is new in it', () => {
    const told = { ...makeStatus({ sessions: [busy] }), later: [1] };
    expect(JSON.parse(statusAsJson(told))).toEqual(told);
  });

  it('writes what a terminal would obey as JSON escapes', () => {
    const told = { name: 'a\u009b\u202e\nb' };
    const text = statusAsJson(told);
    expect(text).toContain(String.raw`a\u009b\u202e\nb`);
    expect(JSON.parse(text)).toEqual(told);
  });
});
