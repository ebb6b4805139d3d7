import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { hostIdentity } from '../../../src/core/host-identity.ts';
import type { Host } from '../../../src/core/host.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { ChildFactory } from '../../../src/session/child-factory.ts';
import { chooseWorkingFolder } from '../../../src/session/working-folder.ts';
import { Workspace, openWorkspace, sweepWorkspaces } from '../../../src/session/workspace.ts';
import type { Child, ChildCommand } from '../../../src/upstream/child.ts';

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
/** Above what Linux gives to processes, so that the test's own numbers name nobody. */
const [living, dead] = [4_200_001, 4_200_002];

let root: string;

beforeEach(() => {
  root = mkdtempSync('/tmp/ws-');
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function makeHost(parts: Partial<Host> = {}): Host {
  return {
    platform: 'linux',
    execPath: '/node',
    pid: process.pid,
    uid: process.getuid?.(),
    hostname: 'here',
    homeDir: join(root, 'home'),
    tempDir: root,
    cwd: root,
    env: {},
    kill: (pid) => {
      if (pid === dead) throw Object.assign(new Error('no such process'), { code: 'ESRCH' });
    },
    ...parts,
  };
}

/** What a pid means something in: the host of these tests, and another one. */
const hostOf = (hostname: string): string => hostIdentity({ hostname } as Host);
const [here, there] = [hostOf('here'), hostOf('there')];

/** Leaves a session's folder behind as another bridge would. */
function leave(name: string, owner: unknown): string {
  const folder = join(root, `cbmcp-${name}`);
  mkdirSync(join(folder, 't1'), { recursive: true });
  if (owner !== undefined) writeFileSync(join(folder, 'owner.json'), JSON.stringify(owner));
  return folder;
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

describe('the folder of a session', () => {
  it('is private and names its owner', () => {
    const { folder } = openWorkspace(makeHost(), silent);
    expect(dirname(folder)).toBe(root);
    expect(basename(folder)).toMatch(new RegExp(`^cbmcp-${process.pid}-`));
    expect([modeOf(folder), modeOf(join(folder, 'owner.json'))]).toEqual([0o700, 0o600]);
    expect(JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8'))).toMatchObject({
      pid: process.pid,
      host: here,
    });
  });

  it('goes with everything in it', () => {
    const workspace = openWorkspace(makeHost(), silent);
    writeFileSync(join(workspace.openGeneration(1).folder, 'file'), 'x');
    workspace.close();
    workspace.close();
    expect(readdirSync(root)).toEqual([]);
  });

  it('goes in the background with everything in it, however often that is asked for', async () => {
    const workspace = openWorkspace(makeHost(), silent);
    writeFileSync(join(workspace.openGeneration(1).folder, 'file'), 'x');
    const removal = workspace.remove();
    expect(existsSync(workspace.folder)).toBe(true);
    await Promise.all([removal, workspace.remove()]);
    expect(readdirSync(root)).toEqual([]);
  });

  it('has private folders for each generation, which go by themselves', async () => {
    const workspace = openWorkspace(makeHost(), silent);
    const [first, second] = [workspace.openGeneration(1), workspace.openGeneration(2)];
    expect([first.folder, first.tempDir, second.tempDir].map(modeOf)).toEqual([0o700, 0o700, 0o700]);
    await first.release();
    await first.release();
    expect([first.folder, first.tempDir, second.folder, second.tempDir].map((path) => existsSync(path))).toEqual([
      false,
      false,
      true,
      true,
    ]);
  });

  it('gives a second start of the same number an empty folder', () => {
    const workspace = openWorkspace(makeHost(), silent);
    writeFileSync(join(workspace.openGeneration(1).folder, 'config.json'), '{}');
    expect(readdirSync(workspace.openGeneration(1).folder)).toEqual([]);
  });

  it('lies in the system folder when the path for the sockets of a browser would be too long', () => {
    // 28 characters and the 34 that are reserved make the 62 that Chromium allows.
    for (const [length, isOwn] of [
      [28, true],
      [29, false],
    ] as const) {
      const tempDir = join(root, 'x'.repeat(length - root.length - 1));
      mkdirSync(tempDir);
      const workspace = openWorkspace(makeHost({ tempDir }), silent);
      const inner = workspace.openGeneration(99).tempDir;
      workspace.close();
      expect(dirname(workspace.folder)).toBe(isOwn ? tempDir : '/tmp');
      expect(inner.length).toBeLessThanOrEqual(62);
    }
  });

  it('that cannot be removed is told and ends nothing', () => {
    writeFileSync(join(root, 'file'), '');
    const told: unknown[] = [];
    const warn: Logger['warn'] = (event, fields) => void told.push([event, fields?.path]);
    const path = join(root, 'file', 'below');
    new Workspace(path, { ...silent, warn }).close();
    expect(told).toEqual([['folder not removed', path]]);
  });

  it('that cannot be made is an error which names the place and the mend', () => {
    expect(() => openWorkspace(makeHost({ tempDir: join(root, 'absent') }), silent)).toThrowError(
      expect.objectContaining({
        code: 'folder_unwritable',
        message: expect.stringContaining(join(root, 'absent')),
        hint: expect.stringContaining('TMPDIR'),
      }),
    );
  });
});

describe('the sweep', () => {
  const sweep = (parts: Partial<Host> = {}): Promise<number> => sweepWorkspaces(makeHost(parts), silent);

  it('removes what dead owners left', async () => {
    leave('one', { pid: dead, host: here });
    leave('two', { pid: dead, startTime: '5', host: here });
    expect(await sweep()).toBe(2);
    expect(readdirSync(root)).toEqual([]);
  });

  it('removes what an owner left whose pid is now somebody else', async () => {
    leave('one', { pid: process.pid, startTime: '1', host: here });
    expect(await sweep()).toBe(process.platform === 'linux' ? 1 : 0);
  });

  it('never touches what has a living owner', async () => {
    const own = openWorkspace(makeHost(), silent);
    const other = leave('other', { pid: living, host: here });
    expect(await sweep()).toBe(0);
    expect([own.folder, other].every((path) => existsSync(join(path, 'owner.json')))).toBe(true);
  });

  it('never touches what belongs to another host, another user, nobody yet, or is not ours', async () => {
    leave('foreign', { pid: dead, host: there });
    leave('unfinished', undefined);
    mkdirSync(join(root, 'other'));
    writeFileSync(join(root, 'other', 'owner.json'), JSON.stringify({ pid: dead, host: here }));
    writeFileSync(join(root, 'cbmcp-file'), 'x');
    writeFileSync(join(leave('broken', undefined), 'owner.json'), '{');
    expect(await sweep()).toBe(0);
    leave('users', { pid: dead, host: here });
    expect(await sweep({ uid: (process.getuid?.() ?? 0) + 1 })).toBe(0);
    expect(readdirSync(root)).toHaveLength(6);
  });

  it('does not follow a link', async () => {
    const target = join(root, 'precious');
    mkdirSync(target);
    writeFileSync(join(target, 'owner.json'), JSON.stringify({ pid: dead, host: here }));
    symlinkSync(target, join(root, 'cbmcp-link'));
    expect(await sweep()).toBe(0);
    expect(existsSync(join(target, 'owner.json'))).toBe(true);
  });
});

describe('the working folder of a child', () => {
  const choose = (parts: Partial<Host>): ReturnType<typeof chooseWorkingFolder> =>
    chooseWorkingFolder(makeHost(parts), join(root, 'session'));

  it("is the user's own, without a word", () => {
    expect(choose({ cwd: root })).toEqual({ path: root, note: undefined });
  });

  it.each([
    ['linux', {}, 'home/.local/share/cloakbrowser-mcp/work'],
    ['darwin', {}, 'home/Library/Application Support/cloakbrowser-mcp/work'],
    ['win32', {}, 'home/AppData/Local/cloakbrowser-mcp/work'],
  ] as const)('is one of the user on %s where the program was started in the root', (platform, env, expected) => {
    const chosen = choose({ cwd: '/', platform, env });
    expect(chosen.path).toBe(join(root, expected));
    expect(modeOf(chosen.path)).toBe(0o700);
    expect(chosen.note).toContain('the root of the file system');
    expect(chosen.note).toContain(chosen.path);
  });

  it.each([
    ['linux', 'XDG_DATA_HOME'],
    ['win32', 'LOCALAPPDATA'],
  ] as const)('follows the variable of %s', (platform, name) => {
    const env = { [name]: join(root, 'data') };
    expect(choose({ cwd: '/', platform, env }).path).toBe(join(root, 'data/cloakbrowser-mcp/work'));
  });

  it('is one of the user where the own one is gone', () => {
    expect(choose({ cwd: join(root, 'gone') }).note).toContain('not writable');
  });

  it('is a temporary one, which is said, where the user can have none', () => {
    writeFileSync(join(root, 'home'), 'a file is in the way');
    const chosen = choose({ cwd: '/' });
    expect(chosen.path).toBe(join(root, 'session/work'));
    expect(chosen.note).toContain('removed at the end');
    expect(existsSync(chosen.path)).toBe(true);
  });
});

describe('the child factory', () => {
  function makeFactory(spawn: (command: ChildCommand) => Child): ChildFactory {
    return new ChildFactory({ host: makeHost(), logger: silent, cliPath: '/cli.js', maxMessageBytes: 7, spawn });
  }

  const plan = { args: ['--x'], env: { A: '1' }, cwd: '/w' };

  it('starts a child in folders of its own, which go with it', async () => {
    const commands: ChildCommand[] = [];
    const child = { exited: Promise.resolve() } as unknown as Child;
    const factory = makeFactory((command) => {
      commands.push(command);
      return child;
    });
    expect(readdirSync(root)).toEqual([]);
    let temp = '';
    const started = factory.start(4, (folders) => {
      expect(dirname(folders.generation)).toBe(folders.session);
      expect([folders.generation, folders.temp].every((path) => existsSync(path))).toBe(true);
      temp = folders.temp;
      return plan;
    });
    expect(started.child).toBe(child);
    expect(commands).toEqual([{ cliPath: '/cli.js', ...plan, tempDir: temp, maxMessageBytes: 7 }]);
    await started.release();
    expect(readdirSync(factory.folder)).toEqual(['owner.json']);
    factory.close();
    expect(readdirSync(root)).toEqual([]);
  });

  it('uses one session folder for all its children', () => {
    const factory = makeFactory(() => ({ exited: Promise.resolve() }) as unknown as Child);
    factory.start(1, () => plan);
    factory.start(2, () => plan);
    expect(readdirSync(root)).toHaveLength(1);
    expect(readdirSync(factory.folder).toSorted()).toEqual(['g1', 'g2', 'owner.json', 't1', 't2']);
  });

  it('leaves nothing of a start that failed', () => {
    const factory = makeFactory(() => {
      throw new Error('no spawn');
    });
    expect(() => factory.start(1, () => plan)).toThrow('no spawn');
    expect(() =>
      factory.start(1, () => {
        throw new Error('no plan');
      }),
    ).toThrow('no plan');
    expect(readdirSync(factory.folder)).toEqual(['owner.json']);
  });

  it('kills what still runs, and removes the folder, when it is forced', async () => {
    const killed: string[] = [];
    const names = ['one', 'two'];
    const factory = makeFactory(() => {
      const name = names.shift() ?? '';
      return { exited: Promise.resolve(), kill: () => void killed.push(name) } as unknown as Child;
    });
    await factory.start(1, () => plan).release();
    factory.start(2, () => plan);
    factory.force();
    expect(killed).toEqual(['two']);
    expect(readdirSync(root)).toEqual([]);
    expect(() => factory.start(3, () => plan)).toThrowError(expect.objectContaining({ code: 'closing' }));
  });

  it('waits at its end until the system has told the end of every child, but not for ever', async () => {
    vi.useFakeTimers();
    try {
      let tellEnd = (): void => undefined;
      const exits = [new Promise<void>((resolve) => (tellEnd = resolve)), new Promise<void>(() => undefined)];
      const factory = makeFactory(() => ({ exited: exits.shift() }) as unknown as Child);
      const order: string[] = [];
      factory.start(1, () => plan);
      const first = factory.settle().then(() => order.push('first'));
      await vi.advanceTimersByTimeAsync(1000);
      expect(order).toEqual([]);
      tellEnd();
      await first;
      factory.start(2, () => plan);
      const second = factory.settle().then(() => order.push('second'));
      await vi.advanceTimersByTimeAsync(1999);
      expect(order).toEqual(['first']);
      await vi.advanceTimersByTimeAsync(1);
      await second;
    } finally {
      vi.useRealTimers();
    }
  });

  it('starts nothing after the session has ended', () => {
    const factory = makeFactory(() => ({ exited: Promise.resolve() }) as unknown as Child);
    factory.close();
    expect(() => factory.start(1, () => plan)).toThrowError(expect.objectContaining({ code: 'closing' }));
    expect(readdirSync(root)).toEqual([]);
  });
});
