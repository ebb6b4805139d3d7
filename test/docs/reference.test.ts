import { describe, expect, it } from 'vitest';
import { errorsPage } from '../../src/config/error-reference.ts';
import { options } from '../../src/config/options.ts';
import { helpText, optionsPage } from '../../src/config/reference.ts';
import { configSchema } from '../../src/config/schema-page.ts';
import { upstreamFlags } from '../../src/config/upstream-flags.ts';

const folder = '../../docs/reference';

describe('the reference pages are what the code says', () => {
  it('options', async () => {
    await expect(optionsPage()).toMatchFileSnapshot(`${folder}/options.md`);
  });

  it('errors', async () => {
    await expect(errorsPage()).toMatchFileSnapshot(`${folder}/errors.md`);
  });

  it('schema of the config file', async () => {
    await expect(`${JSON.stringify(configSchema(), null, 2)}\n`).toMatchFileSnapshot(`${folder}/config.schema.json`);
  });
});

describe('the help', () => {
  it('names every option and every flag that is passed on', () => {
    const help = helpText();
    for (const flag of options.flatMap((option) => option.flags)) expect(help).toContain(`--${flag}`);
    for (const { name } of upstreamFlags.filter(({ role }) => role === 'pass')) expect(help).toContain(`--${name}`);
  });

  it('fits a terminal of 80 columns', () => {
    const tooLong = helpText()
      .split('\n')
      .filter((line) => line.length > 80);
    expect(tooLong).toEqual([]);
  });
});
