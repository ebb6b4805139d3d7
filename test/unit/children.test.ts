import { describe, expect, it, vi } from 'vitest';

import type { BinarySource, LaunchPlan } from '../../src/browser/binary.ts';
import type { DownloadState } from '../../src/browser/download-state.ts';
import { BridgeError } from '../../src/core/errors.ts';
import type { Foundation } from '../../src/foundation.ts';
import type { Logger } from '../../src/core/logger.ts';
import { Children, type ChildrenParts, type Place, limitTurn } from '../../src/children.ts';
import type { ChildFactory, ChildFolders, ChildPlan } from '../../src/session/child-factory.ts';
import type { StartedChild } from '../../src/session/generation.ts';
import type { ChildPlanner } from '../../src/upstream/planner.ts';

const folders: ChildFolders = { session: '/s', generation: '/s/1', temp: '/s/1/tmp' };
const plan = { args: ['--fingerprint=1'], notes: ['a note of the launch'] } as unknown as LaunchPlan;
const started = { child: {}, release: () => undefined } as StartedChild;
const placed: Place = { cwd: '/s/work', profile: 'temporary', notes: ['a note of the place', undefined] };

interface Bed {
  readonly children: Children;
  /** What was asked of whom, in order. */
  readonly log: string[];
  readonly told: (string | undefined)[];
  /** What each child was planned with: places, launch and other output folder. */
  readonly plans: unknown[][];
  readonly start: (number?: number, signal?: AbortSignal) => Promise<StartedChild>;
}

interface Wish extends Partial<ChildrenParts> {
  readonly error?: BridgeError;
  readonly binary?: Partial<BinarySource> | undefined;
  readonly onStart?: () => void;
  readonly extraArgs?: readonly string[];
}

function makeBed({ error, onStart, extraArgs = [], ...some }: Wish = {}): Bed {
  const [log, told]: [string[], (string | undefined)[]] = [[], []];
  const plans: unknown[][] = [];
  const nothing = (): void => undefined;
  const logger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
  const binary = 'binary' in some ? some.binary : { resolve: () => Promise.resolve(plan) };
  const foundation = {
    setup: { error, settings: { extraArgs } },
    binary: (headless: boolean) => {
      log.push(`binary headless ${headless}`);
      return binary;
    },
    sweep: () => log.push('sweep'),
    tellOnce: (note: string | undefined) => told.push(note),
  };
  const planner = (outputDir?: string): unknown => ({
    plan: (...args: unknown[]) => plans.push([...args, outputDir]),
    with: (changes: { outputDir?: string }) => planner(changes.outputDir),
  });
  const factory = {
    folder: '/s',
    start: (number: number, make: (folders: ChildFolders) => ChildPlan) => {
      log.push(`start ${number}`);
      onStart?.();
      make(folders);
      return started;
    },
    force: () => log.push('force'),
    settle: () => Promise.resolve(void log.push('settle')),
    remove: () => Promise.resolve(void log.push('remove')),
  };
  const children = new Children({
    foundation: foundation as unknown as Foundation,
    logger,
    planner: planner() as ChildPlanner,
    headless: true,
    factory: factory as unknown as ChildFactory,
    place: () => placed,
    hasOwnSeed: false,
    ...some,
  });
  const start: Bed['start'] = (number = 1, signal = new AbortController().signal) => children.start(number, signal);
  return { children, log, told, plans, start };
}

/** A turn that the test gives. */
function makeTurn(): { takeTurn: NonNullable<ChildrenParts['takeTurn']>; give: () => void; settled: () => number } {
  let give: () => void = () => undefined;
  let settled = 0;
  const turn = new Promise<() => void>((resolve) => {
    give = () => {
      resolve(() => (settled += 1));
    };
  });
  return {
    takeTurn: (signal) =>
      Promise.race([
        turn,
        new Promise<never>((_resolve, reject) => {
          const refuse = (): void => {
            reject(new BridgeError('closing', 'Ending.'));
          };
          if (signal.aborted) refuse();
          else signal.addEventListener('abort', refuse);
        }),
      ]),
    give: () => {
      give();
    },
    settled: () => settled,
  };
}

describe('a start', () => {
  it('plans the child in its folders and place, with the launch of the browser', async () => {
    const bed = makeBed({ place: (folder) => ({ ...placed, cwd: `${folder}/work`, userDataDir: '/profile' }) });
    expect(bed.children.place).toBeUndefined();
    expect(await bed.start(3)).toBe(started);
    expect(bed.log).toEqual(['binary headless true', 'sweep', 'start 3']);
    expect(bed.plans).toEqual([
      [{ folder: '/s/1', tempDir: '/s/1/tmp', cwd: '/s/work', userDataDir: '/profile' }, plan, undefined],
    ]);
    expect([bed.children.place?.cwd, bed.children.launch]).toEqual(['/s/work', plan]);
    expect(bed.told).toEqual(['a note of the launch', 'a note of the place', undefined]);
  });

  it("has an output folder of its own where the place has one, and the operator's where not", async () => {
    const bed = makeBed({ place: () => ({ ...placed, outputDir: '/out/mine' }) });
    await bed.start();
    expect(bed.plans[0]?.[2]).toBe('/out/mine');
  });

  it('leaves the browser to upstream where that chooses it', async () => {
    const bed = makeBed({ binary: undefined, hasOwnSeed: true });
    await bed.start();
    expect([bed.plans[0]?.[1], bed.children.launch]).toEqual([undefined, undefined]);
  });

  it('fails before anything is done where the settings are wrong', async () => {
    const error = new BridgeError('config', 'Wrong.');
    const bed = makeBed({ error });
    await expect(bed.start()).rejects.toBe(error);
    expect(bed.log).toEqual(['binary headless true']);
  });

  it('takes its turn after the browser is there, and gives it back when the start has ended', async () => {
    const turn = makeTurn();
    let isFound = false;
    const resolve = (): Promise<LaunchPlan> => Promise.resolve(plan).finally(() => (isFound = true));
    const takeTurn: ChildrenParts['takeTurn'] = (signal) => {
      expect(isFound).toBe(true);
      return turn.takeTurn(signal);
    };
    const bed = makeBed({ binary: { resolve }, takeTurn });
    const starting = bed.start();
    await vi.waitFor(() => expect(isFound).toBe(true));
    expect(bed.log).not.toContain('start 1');
    turn.give();
    const { settled, child } = await starting;
    expect([child, turn.settled()]).toEqual([started.child, 0]);
    settled?.();
    expect(turn.settled()).toBe(1);
  });

  it('takes no turn of its own where its owner holds one for the first child, and one for each later child', async () => {
    let turns = 0;
    const bed = makeBed({
      hasFirstTurn: true,
      takeTurn: () => Promise.resolve(() => undefined).finally(() => (turns += 1)),
    });
    expect([(await bed.start(1)).settled, turns]).toEqual([undefined, 0]);
    for (const number of [2, 3]) (await bed.start(number)).settled?.();
    expect(turns).toBe(2);
  });

  it('gives its turn back when it fails', async () => {
    for (const failing of [
      { onStart: () => expect.fail('no process') },
      { place: (): Place => expect.fail('no folder') },
    ]) {
      const turn = makeTurn();
      const bed = makeBed({ ...failing, takeTurn: turn.takeTurn });
      turn.give();
      await expect(bed.start()).rejects.toThrow(/^no (process|folder)$/);
      expect(turn.settled()).toBe(1);
    }
  });

  it('that is broken off while it waits, or gets its turn too late, starts nothing', async () => {
    const [early, late] = [makeTurn(), makeTurn()];
    const aborts = [new AbortController(), new AbortController()];
    const beds = [
      makeBed({ takeTurn: early.takeTurn }),
      makeBed({ takeTurn: () => late.takeTurn(new AbortController().signal) }),
    ];
    const starts = beds.map((bed, index) => bed.start(1, aborts[index]?.signal));
    const results = Promise.allSettled(starts);
    await Promise.resolve();
    for (const abort of aborts) abort.abort();
    late.give();
    expect((await results).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect([early.settled(), late.settled(), ...beds.map(({ log }) => log.includes('start 1'))]).toEqual([
      0,
      1,
      false,
      false,
    ]);
  });
});

describe('the fingerprint', () => {
  const seedOf = (bed: Bed): string => bed.children.launch?.args[0] ?? '';

  it('is one for all children of a session, and another one for each session', async () => {
    const sessions = Array.from({ length: 5 }, () => makeBed({ hasOwnSeed: true }));
    const seeds: string[] = [];
    for (const bed of sessions) {
      await bed.start(1);
      seeds.push(seedOf(bed));
      await bed.start(2);
      expect(seedOf(bed)).toBe(seeds.at(-1));
      expect(bed.plans[1]?.[1]).toMatchObject({ args: [seedOf(bed)] });
    }
    expect(seeds.every((seed) => /^--fingerprint=\d{5}$/.test(seed))).toBe(true);
    expect(new Set(seeds).size).toBeGreaterThan(1);
  });

  it("is what the wrapper drew where there is one session only, and the operator's where he chose one", async () => {
    const [single, chosen] = [makeBed(), makeBed({ hasOwnSeed: true, extraArgs: ['--fingerprint=1'] })];
    await single.start();
    await chosen.start();
    expect([seedOf(single), seedOf(chosen)]).toEqual(['--fingerprint=1', '--fingerprint=1']);
  });
});

describe('what a call waits for', () => {
  it.each<[DownloadState, string]>([
    [{ state: 'ready' }, 'the browser server is being started'],
    [{ state: 'checking' }, 'looking for the installed CloakBrowser'],
    [{ state: 'failed', code: 'config', message: 'no net' }, 'the browser is not available: no net'],
  ])('is told of a browser that is %j', (download, words) => {
    expect(makeBed({ binary: { download } }).children.describeWait()).toBe(words);
  });

  it('are the starts of others while it has to wait for its turn, and no longer', async () => {
    const turn = makeTurn();
    const { signal } = new AbortController();
    const asked: AbortSignal[] = [];
    let ahead = 2;
    const turnsAhead = (waiting: AbortSignal): number => {
      asked.push(waiting);
      return ahead;
    };
    const bed = makeBed({ takeTurn: turn.takeTurn, turnsAhead });
    const own = 'the browser server is being started';
    expect(bed.children.describeWait()).toBe(own);
    const starting = bed.start(1, signal);
    await vi.waitFor(() => expect(bed.children.describeWait()).toMatch(/started first; 2 more of them have/));
    ahead = 0;
    expect(bed.children.describeWait()).toMatch(/started first; this one is next$/);
    expect(asked.every((waiting) => waiting === signal)).toBe(true);
    turn.give();
    (await starting).settled?.();
    expect(bed.children.describeWait()).toBe(own);
  });

  it('are no others any more when it was broken off', async () => {
    const abort = new AbortController();
    const bed = makeBed({ takeTurn: makeTurn().takeTurn, turnsAhead: () => 1 });
    const starting = bed.start(1, abort.signal);
    await vi.waitFor(() => expect(bed.children.describeWait()).toMatch(/first/));
    abort.abort();
    await expect(starting).rejects.toThrow('Ending.');
    expect(bed.children.describeWait()).toBe('the browser server is being started');
  });
});

it('gives back what its factory holds', async () => {
  const bed = makeBed();
  bed.children.force();
  await bed.children.settle();
  await bed.children.close();
  expect(bed.log.slice(1)).toEqual(['force', 'settle', 'remove']);
});

it('a turn ends by itself after ten seconds, or sooner when it is given back', () => {
  vi.useFakeTimers();
  let [first, second] = [0, 0];
  limitTurn(() => (first += 1));
  limitTurn(() => (second += 1))();
  expect([first, second]).toEqual([0, 1]);
  vi.advanceTimersByTime(9999);
  expect(first).toBe(0);
  vi.advanceTimersByTime(1);
  expect([first, second]).toEqual([1, 1]);
  vi.useRealTimers();
});
