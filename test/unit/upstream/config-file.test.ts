import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  checkDebugging,
  listingConfig,
  mergeConfig,
  readUserChoices,
  readUserConfig,
  secretsIn,
  writeConfig,
} from '../../../src/upstream/config-file.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'config-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function readText(text: string): ReturnType<typeof readUserConfig> {
  const path = join(folder, 'user.json');
  writeFileSync(path, text);
  return readUserConfig(path);
}

describe("a user's own configuration", () => {
  it('is read as it is, also with the mark that some editors put first', () => {
    expect(readText('\uFEFF{"capabilities":["pdf"],"later":{"x":1}}')).toEqual({
      capabilities: ['pdf'],
      later: { x: 1 },
    });
  });

  it('has its scripts relative to its own folder', () => {
    expect(readText('{"browser":{"initPage":["a.ts","/abs.ts"],"initScript":["../b.js"],"isolated":true}}')).toEqual({
      browser: { initPage: [join(folder, 'a.ts'), '/abs.ts'], initScript: [join(folder, '../b.js')], isolated: true },
    });
  });

  it.each(['{', '', 'headless=true'])('that is no JSON is refused with its name: %j', (text) => {
    expect(() => readText(text)).toThrowError(
      expect.objectContaining({ code: 'config', message: expect.stringContaining(join(folder, 'user.json')) }),
    );
  });

  it.each([
    ['"proxy": {\n"password" "hunter22"}}', /user\.json is not valid JSON \(line 3\)\.$/],
    ['"proxy": {\n"password": hunter22}}', /user\.json is not valid JSON\.$/],
  ])('that is no JSON is refused without a word of it', (text, expected) => {
    let thrown: unknown;
    try {
      readText(`{\n${text}}`);
    } catch (failure) {
      thrown = failure;
    }
    expect(thrown).toMatchObject({ code: 'config', message: expect.stringMatching(expected) });
    expect(inspect(thrown)).not.toContain('hunter22');
  });

  it('that is absent is refused with its name', () => {
    const path = join(folder, 'absent.json');
    expect(() => readUserConfig(path)).toThrowError(
      expect.objectContaining({ message: expect.stringContaining(path) }),
    );
  });
});

describe('the choices of a user', () => {
  it('are read where they have the right kind', () => {
    const browser = { launchOptions: { headless: false }, isolated: true, userDataDir: '/p' };
    expect(readUserChoices({ browser })).toEqual({ headless: false, isolated: true, userDataDir: '/p' });
  });

  it.each([{}, { browser: null }, { browser: { launchOptions: { headless: 'no' }, isolated: 1, userDataDir: {} } }])(
    'are none in %j',
    (config) => {
      expect(readUserChoices(config)).toEqual({ headless: undefined, isolated: undefined, userDataDir: undefined });
    },
  );
});

describe('the configuration of a child', () => {
  const owned = {
    browserName: 'chromium',
    headless: true,
    args: ['--fingerprint=1'],
    ignoreDefaultArgs: ['--enable-automation'],
  };

  it("has the bridge's part", () => {
    expect(mergeConfig({}, owned)).toEqual({
      browser: {
        browserName: 'chromium',
        launchOptions: {
          headless: true,
          args: ['--fingerprint=1'],
          ignoreDefaultArgs: ['--enable-automation'],
        },
      },
    });
  });

  it("keeps all of the user's that the bridge does not own, and puts its own over the rest", () => {
    const user = {
      capabilities: ['pdf'],
      later: 1,
      browser: {
        browserName: 'firefox',
        // Said by flag, the file's own choice among them.
        isolated: true,
        userDataDir: '/p',
        contextOptions: { locale: 'de' },
        launchOptions: { headless: false, slowMo: 5, channel: 'msedge', args: ['--lang=de'] },
      },
    };
    expect(mergeConfig(user, owned)).toEqual({
      capabilities: ['pdf'],
      later: 1,
      browser: {
        browserName: 'chromium',
        contextOptions: { locale: 'de' },
        launchOptions: {
          headless: true,
          slowMo: 5,
          args: ['--lang=de', '--fingerprint=1'],
          ignoreDefaultArgs: ['--enable-automation'],
        },
      },
    });
    expect(user.browser.launchOptions.channel).toBe('msedge');
  });

  it('tells every password in it', () => {
    const config = {
      browser: {
        launchOptions: { proxy: { server: 'http://p', username: 'u', password: 'one' } },
        contextOptions: {
          proxy: { server: 'http://p', password: 'two' },
          httpCredentials: { username: 'u', password: 'three' },
        },
      },
      secrets: { TOKEN: 'four', COUNT: 5 },
    };
    expect(secretsIn(config)).toEqual(['one', 'two', 'three', 'four']);
    expect(secretsIn({})).toEqual([]);
  });

  it('has nothing that would drive another browser or open a port', () => {
    const merged = mergeConfig(
      {
        server: { port: 1 },
        extension: true,
        sharedBrowserContext: true,
        browser: { cdpEndpoint: 'x', cdpHeaders: {}, cdpTimeout: 1, remoteEndpoint: 'y', kept: 1 },
      },
      { headless: true },
    );
    expect(merged).toEqual({ browser: { kept: 1, launchOptions: { headless: true } } });
  });

  it('leaves the browser to the user where the bridge does not choose it', () => {
    const user = { browser: { browserName: 'firefox', launchOptions: { channel: 'x', args: ['--a'] } } };
    expect(mergeConfig(user, { headless: false })).toEqual({
      browser: { browserName: 'firefox', launchOptions: { channel: 'x', args: ['--a'], headless: false } },
    });
  });

  it('has the proxy with its credentials', () => {
    const proxy = { server: 'http://p:1', username: 'u', password: 'w' };
    expect(mergeConfig({}, { proxy })).toEqual({ browser: { launchOptions: { proxy } } });
  });

  it('that only lists its tools has nothing about a browser', () => {
    const user = {
      capabilities: ['pdf'],
      browser: { isolated: true },
      server: {},
      extension: 1,
      sharedBrowserContext: 1,
    };
    expect(listingConfig(user)).toEqual({ capabilities: ['pdf'] });
  });

  it('is written for its owner alone, and never over another file', () => {
    const path = writeConfig(folder, { browser: { x: 'ü' } });
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ browser: { x: 'ü' } });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(() => writeConfig(folder, {})).toThrow('EEXIST');
  });
});

describe("a user's own configuration under managed CDP", () => {
  it('may say what it likes of everything else', () => {
    const browser = { browserName: 'chromium', launchOptions: { args: ['--mute-audio'], ignoreDefaultArgs: ['--x'] } };
    expect(() => {
      checkDebugging({ browser }, '/c.json');
    }).not.toThrow();
  });

  it.each([
    [
      { launchOptions: { args: ['--a', '--remote-debugging-port=1'] } },
      'browser.launchOptions.args: --remote-debugging-port is decided by managed CDP',
    ],
    [
      { launchOptions: { args: ['--user-data-dir=/secret'] } },
      'browser.launchOptions.args: --user-data-dir is decided by managed CDP',
    ],
    [
      { launchOptions: { ignoreDefaultArgs: true } },
      'browser.launchOptions.ignoreDefaultArgs: true takes upstream its own connection',
    ],
    [{ browserName: 'firefox' }, 'browser.browserName: only chromium has CDP'],
  ])('is refused with its file and key: %j', (browser, text) => {
    expect(() => {
      checkDebugging({ browser }, '/c.json');
    }).toThrowError(expect.objectContaining({ code: 'config', message: `--config: /c.json: ${text}.` }) as Error);
  });
});
