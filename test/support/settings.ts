import { parseCommandLine } from '../../src/cli/command.ts';
import { type Resolved, resolveSettings } from '../../src/config/resolve.ts';

/** Where a test gives settings. */
export interface Given {
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Content of /etc/bridge.json, which the bridge is told of by a variable; a text is taken as it is. */
  readonly file?: unknown;
}

const fileVariable = { CLOAK_PLAYWRIGHT_MCP_CONFIG_FILE: '/etc/bridge.json' };

/** The settings of these sources, in a computer that has no other file. */
export function resolveFrom({ argv = [], env = {}, file }: Given): Resolved {
  const text = typeof file === 'string' ? file : JSON.stringify(file);
  return resolveSettings({
    flags: parseCommandLine(argv).flags,
    env: file === undefined ? env : { ...fileVariable, ...env },
    cwd: '/srv',
    readFile: (path) => {
      if (path !== '/etc/bridge.json' || file === undefined)
        throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
      return text;
    },
  });
}

/** What is wrong with these settings, a line each. */
export function messagesFrom(given: Given): string[] {
  return resolveFrom(given).problems.map(({ message }) => message);
}
