import { describe, expect, it } from 'vitest';

import { childEnvironment } from '../../../src/upstream/environment.ts';

type Parts = Parameters<typeof childEnvironment>[0];

function make(env: Parts['env'], some: Partial<Parts> = {}): Record<string, string> {
  return childEnvironment({ env, added: [], owned: [], isCaseless: false, tempDir: '/t', extra: {}, ...some });
}

function namesOf(env: Record<string, string>): string[] {
  return Object.keys(env).filter((name) => !['TMPDIR', 'TEMP', 'TMP'].includes(name));
}

describe('the environment of a child', () => {
  it.each([
    'PATH',
    'HOME',
    'DISPLAY',
    'LC_ALL',
    'XDG_RUNTIME_DIR',
    'HTTPS_PROXY',
    'https_proxy',
    'PLAYWRIGHT_MCP_CAPS',
    'PLAYWRIGHT_BROWSERS_PATH',
    'NODE_EXTRA_CA_CERTS',
    'PROGRAMFILES(X86)',
    'SYSTEMROOT',
  ])('has %s of the host', (name) => {
    expect(make({ [name]: 'v' })).toMatchObject({ [name]: 'v' });
  });

  it.each([
    'AWS_SECRET_ACCESS_KEY',
    'GITHUB_TOKEN',
    'CLOAKBROWSER_LICENSE_KEY',
    'CLOAK_PLAYWRIGHT_MCP_HEADLESS',
    'NODE_OPTIONS',
    'LD_PRELOAD',
    'XPATH',
    'PATH2',
    'MY_PLAYWRIGHT_X',
    'LC',
    'Path',
    'home',
  ])('has no %s', (name) => {
    expect(namesOf(make({ [name]: 'v' }))).toEqual([]);
  });

  it('goes by the letters alone on Windows, and keeps the spelling', () => {
    const env = { Path: 'p', SystemRoot: 's', playwright_mcp_caps: 'c', Secret: 'x' };
    expect(namesOf(make(env, { isCaseless: true }))).toEqual(['Path', 'SystemRoot', 'playwright_mcp_caps']);
    const named = { isCaseless: true, owned: ['PLAYWRIGHT_MCP_CAPS'], added: ['SECRET'] };
    expect(namesOf(make(env, named))).toEqual(['Path', 'SystemRoot', 'Secret']);
  });

  it('has what the operator adds', () => {
    expect(namesOf(make({ MY_TOKEN: 'v', OTHER: 'v' }, { added: ['MY_TOKEN', 'ABSENT'] }))).toEqual(['MY_TOKEN']);
  });

  it('has nothing that the bridge sets by flag, even when the operator adds it', () => {
    const owned = ['PLAYWRIGHT_MCP_HEADLESS'];
    expect(namesOf(make({ PLAYWRIGHT_MCP_HEADLESS: '1' }, { owned, added: owned }))).toEqual([]);
  });

  it('has no variable that is not set', () => {
    expect(namesOf(make({ HOME: undefined, PATH: '' }))).toEqual(['PATH']);
  });

  it("has the child's own temporary folder in place of the host's", () => {
    expect(make({ TMPDIR: '/host', TEMP: '/host', TMP: '/host' }, { added: ['TMPDIR'] })).toEqual({
      TMPDIR: '/t',
      TEMP: '/t',
      TMP: '/t',
    });
  });

  it('has what the browser needs over everything else', () => {
    expect(make({ LANG: 'C' }, { extra: { LANG: 'de', KEY: 'k' } })).toMatchObject({ LANG: 'de', KEY: 'k' });
  });
});
