import { describe, expect, it } from 'vitest';

import { bridgeArguments, loopbackBypass } from '../../../src/cli/bridge-arguments.ts';
import { parseCommandLine } from '../../../src/cli/command.ts';
import type { Settings } from '../../../src/config/options.ts';

function argumentsOf(line: string[], changes: Parameters<typeof bridgeArguments>[1]): string[] {
  return bridgeArguments(parseCommandLine(line).flags, changes);
}

describe('the command line of a bridge that a command starts', () => {
  it("has the user's own flags in their full form", () => {
    expect(argumentsOf(['--headless', 'false', '--isolated', '--log-level=debug'], {})).toEqual([
      '--transport=stdio',
      '--headless=false',
      '--isolated=true',
      '--log-level=debug',
    ]);
  });

  it('has the changes in place of what the user gave for them', () => {
    expect(argumentsOf(['--extra-args=--a', '--extra-args=--b', '--isolated'], { extraArgs: '--c' })).toEqual([
      '--transport=stdio',
      '--isolated=true',
      '--extra-args=--c',
    ]);
  });

  it('passes on what is for upstream, and everything after the two dashes', () => {
    expect(argumentsOf(['--caps=vision', '--isolated', '--', '--later', 'x'], { headless: 'true' })).toEqual([
      '--transport=stdio',
      '--isolated=true',
      '--headless=true',
      '--caps=vision',
      '--',
      '--later',
      'x',
    ]);
  });

  it('speaks stdio and holds no token, even if the user serves over HTTP', () => {
    const line = [
      '--transport',
      'streamable-http',
      '--port=1',
      '--http-auth-token',
      'secret-secret-secret',
      '--isolated',
    ];
    expect(argumentsOf(line, {})).toEqual(['--transport=stdio', '--isolated=true']);
  });

  it('is read as the same flags again', () => {
    const line = ['--transport=stdio', '--headless=false', '--caps=vision', '--', '--later'];
    expect(argumentsOf(argumentsOf(line, {}), {})).toEqual(argumentsOf(line, {}));
  });
});

describe('a page of our own', () => {
  it.each([
    [{}, {}],
    [{ proxyBypass: 'x' }, {}],
    [{ proxyServer: 'http://p' }, { proxyBypass: '127.0.0.1' }],
    [{ proxyServer: 'http://p', proxyBypass: '.example.com' }, { proxyBypass: '.example.com,127.0.0.1' }],
  ])('with the settings %j goes past a proxy by %j', (settings, expected) => {
    expect(loopbackBypass(settings as Settings)).toEqual(expected);
  });
});
