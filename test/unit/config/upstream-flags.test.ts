import { describe, expect, it } from 'vitest';
import { parseCommandLine } from '../../../src/cli/command.ts';
import {
  ownedVariables,
  passOn,
  type PassedOn,
  upstreamFlags,
  variableWarnings,
} from '../../../src/config/upstream-flags.ts';

function pass(argv: readonly string[], engine: 'cloak' | 'playwright' = 'cloak'): PassedOn {
  const { flags } = parseCommandLine(argv);
  expect(flags.problems).toEqual([]);
  return passOn(flags.upstream, flags.rest, engine);
}

function argvOf(name: string, arity: string): string[] {
  return arity === 'none' ? [`--${name}`] : [`--${name}`, 'x'];
}

describe("upstream's flags", () => {
  it.each(upstreamFlags.filter(({ role }) => role === 'pass'))('--$name is passed on', ({ name, arity }) => {
    expect(pass(argvOf(name, arity))).toEqual({ args: argvOf(name, arity), problems: [], warnings: [] });
  });

  it.each(upstreamFlags.filter(({ role }) => role === 'own'))("--$name is the bridge's own", ({ name, arity }) => {
    const { flags } = parseCommandLine(argvOf(name, arity));
    expect(flags.given).toHaveLength(1);
    expect(flags.upstream).toEqual([]);
  });

  it.each(upstreamFlags.filter(({ role }) => role === 'otherBrowser'))('--$name is refused', ({ name, arity }) => {
    const { args, problems } = pass(argvOf(name, arity));
    expect(args).toEqual([]);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({
      kind: 'flag',
      source: `--${name}`,
      message: expect.stringContaining('remove it') as string,
    });
  });

  it.each(upstreamFlags.filter(({ role }) => role === 'sharedBrowser'))(
    '--$name is dropped with a warning',
    ({ name, arity }) => {
      expect(pass(argvOf(name, arity))).toEqual({
        args: [],
        problems: [],
        warnings: [`--${name}: ignored, has no effect, each session has a browser of its own`],
      });
    },
  );

  it('keep the form in which they were given, with all values of a variadic one', () => {
    const argv = [
      '--caps=vision,pdf',
      '--init-page',
      'a.ts',
      'b.ts',
      '--grant-permissions',
      'geolocation',
      '--no-webmcp',
    ];
    expect(pass(argv).args).toEqual(argv);
  });

  it('choose the browser only where upstream does', () => {
    const argv = ['--browser', 'firefox'];
    expect(pass(argv, 'playwright')).toEqual({ args: argv, problems: [], warnings: [] });
    expect(pass(argv, 'cloak')).toEqual({
      args: [],
      problems: [],
      warnings: [expect.stringContaining('--browser-engine playwright')],
    });
  });
});

describe('what follows --', () => {
  it('is passed on unread', () => {
    expect(pass(['--', '--brand-new', 'x', '--caps', 'pdf']).args).toEqual(['--brand-new', 'x', '--caps', 'pdf']);
  });

  it.each(['--port=1', '--headless', '--executable-path', '--cdp-endpoint'])(
    'cannot take %s from the bridge',
    (flag) => {
      const name = flag.replace(/=.*/, '');
      expect(pass(['--', flag]).problems.map(({ message }) => message)).toEqual([
        `${name} after "--": the bridge decides this; give it before "--"`,
      ]);
    },
  );
});

describe("upstream's variables", () => {
  it.each([
    'CDP_ENDPOINT',
    'CDP_HEADERS',
    'CDP_TIMEOUT',
    'REMOTE_HEADERS',
    'EXTENSION',
    'EXTENSION_TOKEN',
    'PROFILE_DIR_NAME',
    'SHARED_BROWSER_CONTEXT',
  ])('%s is kept from the child with a warning that shows no value', (name) => {
    const variable = `PLAYWRIGHT_MCP_${name}`;
    for (const engine of ['cloak', 'playwright'] as const) {
      expect(ownedVariables(engine)).toContain(variable);
      expect(variableWarnings(engine, { [variable]: '31337' })).toEqual([
        expect.stringMatching(`^${variable}: ignored, (?!.*31337)`),
      ]);
      expect(variableWarnings(engine, { [variable]: '' })).toEqual([]);
    }
  });

  it.each([
    'HEADLESS',
    'ISOLATED',
    'SANDBOX',
    'USER_DATA_DIR',
    'OUTPUT_DIR',
    'PROXY_SERVER',
    'PROXY_BYPASS',
    'CONFIG',
    'CLI_PATH',
    'BROWSER_ENGINE',
    'PORT',
    'HOST',
    'ALLOWED_HOSTS',
  ])("%s is a setting of the bridge's and kept without a word", (name) => {
    expect(ownedVariables('cloak')).toContain(`PLAYWRIGHT_MCP_${name}`);
    expect(variableWarnings('cloak', { [`PLAYWRIGHT_MCP_${name}`]: 'x' })).toEqual([]);
  });

  it.each(['BROWSER', 'EXECUTABLE_PATH'])('%s passes where upstream chooses the browser', (name) => {
    const variable = `PLAYWRIGHT_MCP_${name}`;
    expect(ownedVariables('playwright')).not.toContain(variable);
    expect(variableWarnings('playwright', { [variable]: 'x' })).toEqual([]);
    expect(ownedVariables('cloak')).toContain(variable);
    expect(variableWarnings('cloak', { [variable]: 'x' })).toHaveLength(1);
  });

  it('that are no concern of the bridge pass', () => {
    expect(ownedVariables('cloak')).not.toContain('PLAYWRIGHT_MCP_CAPS');
    expect(variableWarnings('cloak', { PLAYWRIGHT_MCP_CAPS: 'pdf' })).toEqual([]);
  });
});
