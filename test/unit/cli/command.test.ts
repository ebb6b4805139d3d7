import { describe, expect, it } from 'vitest';
import { type CommandLine, parseCommandLine } from '../../../src/cli/command.ts';

function messagesOf(argv: readonly string[]): string[] {
  return parseCommandLine(argv).flags.problems.map(({ message }) => message);
}

function given(argv: readonly string[]): [string, string][] {
  const { flags } = parseCommandLine(argv);
  expect(flags.problems).toEqual([]);
  return flags.given.map(({ option, value }) => [option, value]);
}

describe('the command', () => {
  it.each<[string[], Partial<CommandLine>]>([
    [[], { command: 'serve', json: false }],
    [['serve'], { command: 'serve' }],
    [['doctor'], { command: 'doctor', json: false }],
    [['doctor', '--json'], { command: 'doctor', json: true }],
    [['--headless', 'false', 'doctor', '--json'], { command: 'doctor', json: true }],
    [['--headless', 'doctor'], { command: 'doctor' }],
    [['demo'], { command: 'demo' }],
    [['demo', 'https://example.org/'], { command: 'demo', url: 'https://example.org/' }],
    [['--isolated', 'demo', '--no-headless', 'file:///x.html'], { command: 'demo', url: 'file:///x.html' }],
    [['status'], { command: 'status', json: false }],
    [['status', '--json', 'https://h:8443/'], { command: 'status', json: true, url: 'https://h:8443/' }],
    [['--http-port', '0', 'status', 'HTTP://h'], { command: 'status', url: 'HTTP://h' }],
    [['--help'], { command: 'help' }],
    [['-h'], { command: 'help' }],
    [['doctor', '--help'], { command: 'help' }],
    [['--bogus', '--help'], { command: 'help' }],
    [['--version'], { command: 'version' }],
    [['-V'], { command: 'version' }],
    [['--', '--help'], { command: 'serve' }],
  ])('of %j', (argv, expected) => {
    expect(parseCommandLine(argv)).toMatchObject(expected);
  });

  it.each([
    [['doctr'], 'command line: unexpected argument "doctr"; did you mean doctor?'],
    [['serve', 'x'], 'command line: unexpected argument "x"'],
    [['demo', 'https://a', 'b'], 'command line: unexpected argument "b"'],
    [['demo', 'example.org'], 'command line: demo takes a full address such as https://example.org, got "example.org"'],
    [['status', 'http://a', 'b'], 'command line: unexpected argument "b"'],
    [['status', 'h:1'], 'command line: status takes a full address such as http://127.0.0.1:3000, got "h:1"'],
    [
      ['status', 'file:///x'],
      'command line: status takes a full address such as http://127.0.0.1:3000, got "file:///x"',
    ],
    [['--json'], '--json: belongs to the commands doctor and status'],
    [['demo', '--json'], '--json: belongs to the commands doctor and status'],
    [['--port'], '--port: needs a value'],
    [['-x'], '-x: unknown flag; a flag of another upstream version goes after "--"'],
    [['--bogus', 'value'], '--bogus: unknown flag; a flag of another upstream version goes after "--"'],
    [['--vision=1'], '--vision: takes no value'],
    [['--no-headless=true'], '--no-headless: takes no value'],
    [['--no-log-level'], '--no-log-level: unknown flag; did you mean --log-level?'],
    [['--help=x'], '--help: takes no value'],
    [['--caps'], '--caps: needs a value'],
    [['--caps', '--', 'x'], '--caps: needs a value'],
    [
      ['--user-data-dir', '--isolated=true'],
      '--user-data-dir: needs a value, but --isolated=true follows; write --user-data-dir=--isolated=true if that is meant',
    ],
  ])('of %j is refused', (argv, line) => {
    expect(messagesOf(argv)).toEqual([line]);
  });

  it('tells every mistake', () => {
    expect(messagesOf(['--one', '--two=2', '--caps'])).toHaveLength(3);
  });
});

describe('flags', () => {
  it.each([
    [['--headless'], 'true'],
    [['--headless', 'false'], 'false'],
    [['--headless=false'], 'false'],
    [['--headless', 'TRUE'], 'TRUE'],
    [['--no-headless'], 'false'],
    [['--headless', 'yes'], 'yes'],
    [['--headless='], ''],
  ])('%j switch', (argv, value) => {
    expect(given(argv)).toEqual([['headless', value]]);
  });

  it.each([
    [['--log-level', 'debug'], 'logLevel', 'debug'],
    [['--log-level=debug'], 'logLevel', 'debug'],
    [['--extra-args', '--disable-gpu'], 'extraArgs', '--disable-gpu'],
    [['--extra-args=--a=b'], 'extraArgs', '--a=b'],
    [['--close-grace-ms', '-1'], 'closeGraceMs', '-1'],
    [['--cache-dir='], 'cacheDir', ''],
    [['--executable-path', '/b'], 'binaryPath', '/b'],
    [['--no-sandbox'], 'sandbox', 'false'],
    [['--sandbox'], 'sandbox', 'true'],
    [['--port', '8931'], 'httpPort', '8931'],
    [['--host=::1'], 'httpHost', '::1'],
    [['--allowed-hosts', 'a,b'], 'httpAllowedHosts', 'a,b'],
  ])('%j take a value', (argv, option, value) => {
    expect(given(argv)).toEqual([[option, value]]);
  });

  it('of a list that upstream ends at the next flag take every word until there', () => {
    const line = ['--allowed-hosts', 'a', 'b', '--isolated', '--http-allowed-hosts', 'c', 'doctor'];
    const { flags, command } = parseCommandLine(line);
    expect(flags.problems).toEqual([]);
    expect(flags.given.map(({ option, value }) => `${option} ${value}`)).toEqual([
      'httpAllowedHosts a',
      'httpAllowedHosts b',
      'isolated true',
      'httpAllowedHosts c',
    ]);
    expect(command).toBe('doctor');
  });

  it('end at --', () => {
    const { flags } = parseCommandLine(['--isolated', '--', '--x', 'y', '--', 'z']);
    expect(flags.rest).toEqual(['--x', 'y', '--', 'z']);
    expect(flags.given).toHaveLength(1);
  });
});
