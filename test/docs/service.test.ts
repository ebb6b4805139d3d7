import { describe, expect, it } from 'vitest';
import { parseCommandLine } from '../../src/cli/command.ts';
import { sessionSettingNames } from '../../src/config/http-session-options.ts';
import { options } from '../../src/config/options.ts';
import { resolveSettings } from '../../src/config/resolve.ts';
import { readSessionSettings } from '../../src/config/session-settings.ts';
import { type ErrorCode, errorTable } from '../../src/core/errors.ts';
import { blocksOf, readDocument, rowsUnder } from '../support/markdown.ts';

const page = readDocument('docs/service.md');
const inside = readDocument('docs/architecture-http.md');
const blocks = blocksOf(page);

const factors: Readonly<Record<string, number>> = {
  s: 1000,
  min: 60_000,
  h: 3_600_000,
  KiB: 1024,
  MiB: 1_048_576,
};

/** A value as the table writes it, in the unit that its option has; undefined for what is no number. */
function valueOf(written: string): number | undefined {
  const [, digits, unit] = /^(\d+)(?: (\w+))?$/.exec(written) ?? [];
  const factor = unit === undefined ? 1 : factors[unit];
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}

/** Each status that stands in front of the name of an error, or of several. */
function statusesOf(markdown: string): (readonly [code: string, status: number])[] {
  const found = markdown.matchAll(/\b([45]\d\d) ((?:`[a-z_]+`(?:, (?=`[a-z_]+`))?)+)/g);
  return [...found].flatMap(([, status = '', codes = '']) =>
    [...codes.matchAll(/`([a-z_]+)`/g)].map(([, code = '']) => [code, Number(status)] as const),
  );
}

describe('the table of limits', () => {
  const rows = rowsUnder('Limit', page);

  it('gives the defaults that are in the code', () => {
    const limits = rows.flatMap(([, flags = '', values = '']) =>
      [...flags.matchAll(/`--([a-z-]+)`/g)].map(([, flag = ''], index) => ({ flag, value: values.split(', ')[index] })),
    );
    expect(limits.length).toBeGreaterThan(20);
    for (const { flag, value = '' } of limits) {
      const option = options.find(({ flags }) => flags[0] === flag);
      expect([flag, valueOf(value)]).toEqual([flag, option?.default]);
    }
  });

  it('has every option of the HTTP server that is a limit', () => {
    const told = rows.map(([, flags = '']) => flags).join(' ');
    const isLimit =
      /-(max|timeout-ms|ttl-ms|age-ms|delay-ms|bytes|events|memory|max-calls|per-token|retry-ms|alive-ms)$/;
    const limits = options.filter(({ group, flags: [flag = ''] }) => group === 'Streamable HTTP' && isLimit.test(flag));
    expect(limits.length).toBeGreaterThan(15);
    expect(limits.flatMap(({ flags: [flag] }) => (told.includes(`\`--${flag}\``) ? [] : [flag]))).toEqual([]);
  });
});

it.each([
  ['the page about the service', page],
  ['the page about the inside of the HTTP server', inside],
])('%s gives each refusal the status that it has', (_name, text) => {
  const statuses = statusesOf(text);
  expect(statuses.length).toBeGreaterThan(8);
  for (const [code, status] of statuses) expect([code, errorTable[code as ErrorCode]?.http]).toEqual([code, status]);
});

it('the example of session settings has all that there are, with values that are accepted', () => {
  const [example] = blocks.filter(({ text }) => text.includes('"_meta"'));
  const { _meta: meta } = JSON.parse(example?.text ?? '{}') as { _meta?: unknown };
  expect(Object.keys(readSessionSettings(meta, sessionSettingNames)).toSorted()).toEqual(
    [...sessionSettingNames].toSorted(),
  );
});

it('the systemd unit starts the program with a command line and an environment that are accepted', () => {
  const unit = blocks.find(({ language }) => language === 'ini')?.text ?? '';
  const [, args = ''] = /^ExecStart=\/\S+\/cloakbrowser-mcp (.+)$/m.exec(unit) ?? [];
  const [, file = ''] = /^EnvironmentFile=(.+)$/m.exec(unit) ?? [];
  const text = blocks.find((block) => /^CLOAK_\w+=/.test(block.text))?.text ?? '';
  const env = Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => line.split('=', 2)),
  );
  const { flags } = parseCommandLine(args.split(' '));
  const { problems, warnings, settings } = resolveSettings({ flags, env, cwd: '/', readFile: () => '{}' });
  expect([...problems, ...warnings]).toEqual([]);
  expect(page).toContain(`\`${file}\``);
  expect(settings).toMatchObject({ transport: 'streamable-http', httpAuthToken: ['the-token-that-clients-send'] });
  // Shorter than a drain and the end of the browsers, and the service would be killed in the middle of it.
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
  expect(Number(seconds) * 1000).toBeGreaterThan(settings.drainTimeoutMs + settings.closeGraceMs + 25_000);
});
