import { describe, expect, it } from 'vitest';
import { resolveCacheDir, resolveJob, resolveWorkerEnv, secretsOf } from '../../../src/browser/wrapper-settings.ts';
import type { BinarySettings } from '../../../src/browser/wrapper-settings.ts';

const settings: BinarySettings = {
  engine: 'cloak',
  releaseChannel: 'preview',
  autoUpdate: true,
  stallTimeoutMs: 1000,
  headless: true,
  stealthArgs: true,
  extraArgs: [],
  env: {
    PATH: '/bin',
    NODE_OPTIONS: '--max-old-space-size=100',
    CLOAKBROWSER_BINARY_PATH: '/old',
    CLOAKBROWSER_VERSION: 'old',
    CLOAKBROWSER_AUTO_UPDATE: 'true',
    CLOAKBROWSER_LICENSE_KEY: 'key-of-a-test',
    GONE: undefined,
  },
};

describe('the worker’s environment', () => {
  it('carries what was resolved, not what the wrapper would read itself', () => {
    expect(resolveWorkerEnv('plan', settings, '/cache')).toEqual({
      PATH: '/bin',
      CLOAKBROWSER_CACHE_DIR: '/cache',
      CLOAKBROWSER_RELEASE_CHANNEL: 'preview',
      CLOAKBROWSER_AUTO_UPDATE: 'false',
      CLOAKBROWSER_LICENSE_KEY: 'key-of-a-test',
    });
  });

  it('lets the wrapper look for updates in an update run only', () => {
    expect(resolveWorkerEnv('install', settings, '/cache')).toHaveProperty('CLOAKBROWSER_AUTO_UPDATE', 'false');
    expect(resolveWorkerEnv('update', settings, '/cache')).not.toHaveProperty('CLOAKBROWSER_AUTO_UPDATE');
  });

  it('names the browser and the version of the user', () => {
    const env = resolveWorkerEnv('plan', { ...settings, binaryPath: '/new', browserVersion: '1.2.3.4' }, '/cache');
    expect(env).toMatchObject({ CLOAKBROWSER_BINARY_PATH: '/new', CLOAKBROWSER_VERSION: '1.2.3.4' });
  });
});

describe('the settings', () => {
  it('give the cache folder of the wrapper', () => {
    expect(resolveCacheDir({}, '/home/me')).toBe('/home/me/.cloakbrowser');
    expect(resolveCacheDir({ CLOAKBROWSER_CACHE_DIR: '' }, '/home/me')).toBe('/home/me/.cloakbrowser');
    expect(resolveCacheDir({ CLOAKBROWSER_CACHE_DIR: '/c' }, '/home/me')).toBe('/c');
  });

  it('give the secrets, and the proxy without its credentials in the address', () => {
    const withProxy = { ...settings, proxy: { server: 'http://me:s3cret-word@127.0.0.1:1' } };
    expect(secretsOf(withProxy)).toEqual(['key-of-a-test', 's3cret-word']);
    expect(resolveJob('plan', withProxy).proxy?.server).toBe('http://127.0.0.1:1');
  });
});
