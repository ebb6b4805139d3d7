import { describe, expect, it } from 'vitest';

import { hashCapability, mintCapability } from '../../../src/cdp/capability.ts';
import { Door, type DoorLimits, Doors, type DoorTarget } from '../../../src/cdp/door.ts';
import { makePolicy } from '../../../src/cdp/policy.ts';
import type { Splice, SpliceFacts } from '../../../src/cdp/splice.ts';
import type { Logger } from '../../../src/core/logger.ts';

const limits: DoorLimits = {
  maxConnections: 2,
  maxRequestBytes: 1000,
  maxAnswerBytes: 1000,
  bufferBytes: 1000,
  stallTimeoutMs: 1000,
  pingIntervalMs: 1000,
  httpMax: 16,
  httpMaxBytes: 1000,
  httpTimeoutMs: 1000,
  handshakeTimeoutMs: 1000,
};
const facts: SpliceFacts = {
  id: 1,
  code: 1000,
  bytesIn: 0,
  bytesOut: 0,
  messagesIn: 0,
  messagesOut: 0,
  durationMs: 0,
};

interface Bed {
  readonly door: Door;
  readonly events: string[];
  readonly logged: (readonly [level: string, method: string | undefined])[];
}

function make(): Bed {
  const events: string[] = [];
  const logged: (readonly [string, string | undefined])[] = [];
  const at =
    (level: string): Logger['info'] =>
    (_event, fields) =>
      void logged.push([level, fields?.method]);
  const door = new Door({
    settings: { policy: makePolicy({ name: 'full', allow: [], deny: [] }), limits },
    events: {
      onActivity: () => void events.push('activity'),
      onOpened: () => void events.push('opened'),
      onClosed: ({ code }) => void events.push(`closed ${code}`),
    },
    logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
  });
  return { door, events, logged };
}

function target(generation: number): DoorTarget {
  return { generation, port: 41_000, browserId: `browser-${generation}` };
}

function publish(door: Door, generation = 1): string {
  const capability = door.stage(target(generation));
  door.publish();
  return capability;
}

interface FakeSplice {
  readonly splice: Splice;
  readonly closes: string[];
  readonly end: () => void;
}

/** Stands for two joined sockets: a door only closes them and hears of their end. */
function makeSplice(): FakeSplice {
  const closes: string[] = [];
  let end = (): void => undefined;
  const closed = new Promise<SpliceFacts>((resolve) => {
    end = () => {
      resolve(facts);
    };
  });
  const close = (code: number, reason: string): void => void closes.push(`${code} ${reason}`);
  return { splice: { closed, close } as unknown as Splice, closes, end };
}

describe('a capability of a door', () => {
  it('is staged, then live, then past; a new one each time', () => {
    const { door } = make();
    const first = door.stage(target(1));
    expect([door.find(hashCapability(first)), door.capability]).toEqual(['staged', undefined]);
    door.publish();
    expect([door.find(hashCapability(first)), door.capability]).toEqual(['live', first]);
    expect(door.target).toEqual(target(1));
    door.withdraw(4001, 'ended');
    expect([door.find(hashCapability(first)), door.capability, door.target]).toEqual(['past', undefined, undefined]);
    const second = publish(door, 2);
    expect(second).not.toBe(first);
    expect([door.find(hashCapability(first)), door.find(hashCapability(second))]).toEqual(['past', 'live']);
  });

  it('that was never published is never past: nobody was told of it', () => {
    const { door } = make();
    const staged = door.stage(target(1));
    door.withdraw(4001, 'not published');
    expect(door.find(hashCapability(staged))).toBe(undefined);
    door.publish();
    expect(door.capability).toBe(undefined);
  });

  it('is remembered as past for eight browsers', () => {
    const { door } = make();
    const told = Array.from({ length: 10 }, (_none, index) => publish(door, index));
    const states = told.map((capability) => door.find(hashCapability(capability)));
    expect(states).toEqual([undefined, 'past', 'past', 'past', 'past', 'past', 'past', 'past', 'past', 'live']);
  });

  it('is forgotten when the door closes, and none becomes live after that', () => {
    const { door } = make();
    const told = publish(door);
    door.close();
    expect(door.find(hashCapability(told))).toBe(undefined);
    publish(door, 2);
    expect(door.capability).toBe(undefined);
  });
});

describe('a request', () => {
  it('takes one of sixteen places, and gives it back once', () => {
    const { door } = make();
    const places = Array.from({ length: 16 }, () => door.admitRequest());
    expect(places).not.toContain(undefined);
    expect(door.admitRequest()).toBe(undefined);
    places[0]?.();
    places[0]?.();
    expect(door.admitRequest()).not.toBe(undefined);
    expect(door.admitRequest()).toBe(undefined);
  });
});

describe('a socket', () => {
  it('counts from its opening to its end', async () => {
    const { door, events } = make();
    publish(door);
    const { splice, end } = makeSplice();
    let open = (): void => undefined;
    const opening = new Promise<Splice>((resolve) => {
      open = () => {
        resolve(splice);
      };
    });
    const admitted = door.admitSocket(() => opening);
    expect([door.connections, events]).toEqual([1, []]);
    open();
    await admitted;
    expect([door.connections, events]).toEqual([1, ['opened']]);
    end();
    await splice.closed;
    expect([door.connections, events]).toEqual([0, ['opened', 'closed 1000']]);
  });

  it('that cannot be opened counts no more', async () => {
    const { door, events } = make();
    publish(door);
    await expect(door.admitSocket(() => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
    expect([door.connections, events]).toEqual([0, []]);
  });

  it('is told at once that its browser went', async () => {
    const { door } = make();
    publish(door);
    const { splice, closes } = makeSplice();
    await door.admitSocket(() => Promise.resolve(splice));
    door.withdraw(4001, 'browser generation 1 ended');
    expect(closes).toEqual(['4001 browser generation 1 ended']);
  });

  it('is closed when its browser went, or its session, while it was opened', async () => {
    for (const [isSessionOver, close] of [
      [false, '4001 browser generation 1 ended'],
      [true, '1001 the session ended'],
    ] as const) {
      const { door } = make();
      publish(door);
      const { splice, closes } = makeSplice();
      await door.admitSocket(() => {
        if (isSessionOver) door.close();
        else door.withdraw(4001, 'ended');
        if (!isSessionOver) publish(door, 2);
        return Promise.resolve(splice);
      });
      expect(closes).toEqual([close]);
    }
  });

  it('is not opened where nothing is published', async () => {
    const { door } = make();
    let opened = 0;
    const open = (): Promise<Splice> => {
      opened += 1;
      return Promise.resolve(makeSplice().splice);
    };
    await expect(door.admitSocket(open)).rejects.toMatchObject({ code: 'browser_unavailable' });
    door.stage(target(1));
    await expect(door.admitSocket(open)).rejects.toMatchObject({ code: 'browser_unavailable' });
    expect(opened).toBe(0);
  });

  it('is counted by its messages too', () => {
    const { door, events } = make();
    door.noteMessage();
    door.noteMessage();
    expect([door.messages, events]).toEqual([2, ['activity', 'activity']]);
  });
});

describe('a denied method', () => {
  it('is news once for each browser, however often it is sent', () => {
    const { door, logged } = make();
    publish(door);
    for (let count = 0; count < 1000; count += 1) door.noteDenied('Browser.close');
    expect(logged.filter(([level]) => level === 'info')).toEqual([['info', 'Browser.close']]);
    publish(door, 2);
    door.noteDenied('Browser.close');
    expect(logged.filter(([level]) => level === 'info')).toHaveLength(2);
  });

  it('does not fill the log by its length or by new names', () => {
    const { door, logged } = make();
    door.noteDenied('x'.repeat(1_000_000));
    expect(logged).toEqual([['info', 'x'.repeat(100)]]);
    for (let count = 0; count < 1000; count += 1) door.noteDenied(`Domain.method${count}`);
    expect(logged.filter(([level]) => level === 'info')).toHaveLength(50);
  });
});

describe('the doors of a listener', () => {
  it('are found by their capabilities as long as they are there', () => {
    const doors = new Doors();
    const [one, other] = [make().door, make().door];
    const [first, second] = [publish(one), publish(other)];
    const remove = doors.add(one);
    doors.add(other);
    expect(doors.find(first)).toEqual({ door: one, state: 'live' });
    expect(doors.find(second)).toEqual({ door: other, state: 'live' });
    other.withdraw(4001, 'ended');
    expect(doors.find(second)?.state).toBe('past');
    expect(doors.find(mintCapability())).toBe(undefined);
    remove();
    expect(doors.find(first)).toBe(undefined);
  });
});
