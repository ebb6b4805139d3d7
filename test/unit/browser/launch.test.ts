import { describe, expect, it } from 'vitest';
import { describeBinary } from '../../../src/browser/binary-info.ts';
import type { WrapperLaunch } from '../../../src/browser/binary-job.ts';
import { drawSeed, planLaunch, separateCredentials, withSeed } from '../../../src/browser/launch.ts';
import type { PlanParts } from '../../../src/browser/launch.ts';
import type { BinarySettings } from '../../../src/browser/wrapper-settings.ts';

const settings: BinarySettings = {
  engine: 'cloak',
  releaseChannel: 'stable',
  autoUpdate: false,
  stallTimeoutMs: 1000,
  headless: true,
  stealthArgs: true,
  extraArgs: [],
  env: {},
};
const facts = { wrapperVersion: '1.0.0', platform: 'linux-x64', tier: 'free', version: '1.2.3.4' } as const;
const infoParts = {
  facts,
  path: '/cache/chromium-1.2.3.4/chrome',
  installed: true,
  source: 'cache',
  settings,
  cacheDir: '/cache',
  download: { state: 'ready' },
} as const;
const launch: WrapperLaunch = {
  executablePath: '/cache/chromium-1.2.3.4/chrome',
  headless: true,
  args: ['--no-sandbox', '--fingerprint=12345', '--disable-setuid-sandbox'],
  ignoreDefaultArgs: ['--enable-automation'],
};

function planWith(changes: Partial<PlanParts>): ReturnType<typeof planLaunch> {
  const info = describeBinary(infoParts);
  return planLaunch({ launch, info, extraArgs: [], sandbox: undefined, detected: { enabled: true }, ...changes });
}

describe('planLaunch', () => {
  it('never leaves a sandbox argument in the command line', () => {
    expect(planWith({}).args).toEqual(['--fingerprint=12345']);
  });

  it('follows the detection and says once why the sandbox is off', () => {
    expect(planWith({})).toMatchObject({ chromiumSandbox: true, notes: [] });
    const plan = planWith({ detected: { enabled: false, reason: 'this is a test' } });
    expect(plan.chromiumSandbox).toBe(false);
    expect(plan.notes).toEqual([expect.stringMatching(/sandbox is off: this is a test.*--sandbox/)]);
  });

  it('lets the user decide, without a note', () => {
    expect(planWith({ sandbox: true, detected: { enabled: false } })).toMatchObject({
      chromiumSandbox: true,
      notes: [],
    });
    expect(planWith({ sandbox: false })).toMatchObject({ chromiumSandbox: false, notes: [] });
    expect(planWith({ extraArgs: ['--no-sandbox'] })).toMatchObject({ chromiumSandbox: false, notes: [] });
  });

  it('lets --sandbox win over an extra argument and says so', () => {
    const plan = planWith({ sandbox: true, extraArgs: ['--no-sandbox'] });
    expect(plan.chromiumSandbox).toBe(true);
    expect(plan.notes).toEqual([expect.stringContaining('was dropped')]);
  });

  it('passes proxy and environment on only if the builder gave them', () => {
    expect(planWith({})).not.toHaveProperty('proxy');
    expect(planWith({ launch: { ...launch, env: {} } })).not.toHaveProperty('env');
    const given = { proxy: { server: 'http://127.0.0.1:1' }, env: { CLOAKBROWSER_LICENSE_KEY: 'k' } };
    expect(planWith({ launch: { ...launch, ...given } })).toMatchObject(given);
  });
});

describe('describeBinary', () => {
  it('reads version and tier from the folder that is launched', () => {
    const path = '/cache/chromium-9.8.7.6.5-pro/chrome';
    expect(describeBinary({ ...infoParts, path })).toMatchObject({ version: '9.8.7.6.5', tier: 'pro' });
  });

  it('keeps what the wrapper says for a browser elsewhere', () => {
    const changed = { path: '/usr/bin/chromium', facts: { ...facts, tier: 'unknown', version: 'unknown' } } as const;
    expect(describeBinary({ ...infoParts, ...changed })).toMatchObject({ version: 'unknown', tier: 'unknown' });
  });

  it('knows nothing before anything was looked at', () => {
    const nothing = { facts: undefined, path: undefined, installed: false, source: 'none' } as const;
    expect(describeBinary({ ...infoParts, ...nothing })).toMatchObject({ version: 'unknown', source: 'none' });
  });
});

describe('separateCredentials', () => {
  it.each([
    ['http://127.0.0.1:3128', { server: 'http://127.0.0.1:3128' }],
    ['127.0.0.1:3128', { server: '127.0.0.1:3128' }],
    ['http://me:word@127.0.0.1:3128', { server: 'http://127.0.0.1:3128', username: 'me', password: 'word' }],
    ['me:word@127.0.0.1:3128', { server: '127.0.0.1:3128', username: 'me', password: 'word' }],
    ['socks5://me@[::1]:1080', { server: 'socks5://[::1]:1080', username: 'me' }],
    ['http://me:p%40ss%3A@127.0.0.1:1', { server: 'http://127.0.0.1:1', username: 'me', password: 'p@ss:' }],
    ['http://me:p@ss:100%@127.0.0.1:1', { server: 'http://127.0.0.1:1', username: 'me', password: 'p@ss:100%' }],
  ])('splits %s', (server, parts) => {
    expect(separateCredentials({ server })).toEqual(parts);
  });

  it('prefers credentials that are given apart', () => {
    const proxy = { server: 'http://me:word@127.0.0.1:1', username: 'you', password: 'other', bypass: '.local' };
    expect(separateCredentials(proxy)).toEqual({ ...proxy, server: 'http://127.0.0.1:1' });
  });
});

describe('a fingerprint seed', () => {
  it('is drawn from five digits, and not the same each time', () => {
    const drawn = Array.from({ length: 300 }, () => drawSeed());
    expect(drawn.filter((seed) => !Number.isInteger(seed) || seed < 10_000 || seed > 99_999)).toEqual([]);
    expect(new Set(drawn).size).toBeGreaterThan(200);
  });

  it('takes the place of the one that the wrapper drew, and the plan for others stays', () => {
    const plan = planWith({});
    expect(withSeed(plan, 54_321)).toEqual({ ...plan, args: ['--fingerprint=54321'] });
    expect(plan.args).toEqual(['--fingerprint=12345']);
  });

  it('is not added where the wrapper drew none, and touches nothing that only looks like it', () => {
    const args = ['--fingerprint-platform=linux', '--no-fingerprint=1'];
    expect(withSeed({ ...planWith({}), args }, 54_321).args).toEqual(args);
  });

  it("stays where it is among the user's own arguments", () => {
    const plan = planWith({});
    expect(withSeed(plan, 54_321, ['--x', '--fingerprint=12345'])).toBe(plan);
    expect(withSeed(plan, 54_321, ['--fingerprint-platform=linux']).args).toEqual(['--fingerprint=54321']);
  });
});
