import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { findUpstream } from '../../../src/upstream/package.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'package-'));
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function put(path: string, text: string): string {
  const full = join(root, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

function nowhere(): string {
  throw new Error('Cannot find module');
}

describe('the upstream program', () => {
  it('is the installed package, with its version and that of the core beside it', () => {
    const manifest = put('node_modules/@playwright/mcp/package.json', '{"name":"@playwright/mcp","version":"0.0.83"}');
    put('node_modules/playwright-core/package.json', '{"version":"1.60.0"}');
    expect(findUpstream(undefined, () => manifest)).toEqual({
      name: '@playwright/mcp',
      version: '0.0.83',
      cliPath: join(dirname(manifest), 'cli.js'),
      coreVersion: '1.60.0',
      isOverridden: false,
    });
  });

  it('is known with the core that it brings itself before one beside it', () => {
    const manifest = put('node_modules/@playwright/mcp/package.json', '{"name":"x","version":"1"}');
    put('node_modules/playwright-core/package.json', '{"version":"1.0.0"}');
    put('node_modules/@playwright/mcp/node_modules/playwright-core/package.json', '{"version":"2.0.0"}');
    expect(findUpstream(undefined, () => manifest).coreVersion).toBe('2.0.0');
  });

  it('is the given one before the installed one', () => {
    const cliPath = put('own/cli.js', '');
    put('own/package.json', '{"name":"fork","version":"9"}');
    expect(findUpstream(cliPath, nowhere)).toMatchObject({ name: 'fork', version: '9', cliPath, isOverridden: true });
  });

  it('needs no manifest', () => {
    const cliPath = put('own/cli.js', '');
    expect(findUpstream(cliPath, nowhere)).toEqual({
      name: cliPath,
      version: 'unknown',
      cliPath,
      coreVersion: undefined,
      isOverridden: true,
    });
  });

  it.each(['absent.js', '.'])('is missing where the given path is no file: %s', (path) => {
    const given = join(root, path);
    expect(() => findUpstream(given, nowhere)).toThrowError(
      expect.objectContaining({ code: 'upstream_missing', message: expect.stringContaining(given) }),
    );
  });

  it('is missing where it is not installed and nothing is given', () => {
    expect(() => findUpstream(undefined, nowhere)).toThrowError(
      expect.objectContaining({ code: 'upstream_missing', hint: expect.stringContaining('--upstream-cli') }),
    );
  });
});
