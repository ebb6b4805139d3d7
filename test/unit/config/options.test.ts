import { describe, expect, it } from 'vitest';
import { options, settingsSchema } from '../../../src/config/options.ts';
import { upstreamFlags } from '../../../src/config/upstream-flags.ts';
import { resolveFrom } from '../../support/settings.ts';

describe('the options', () => {
  it.each(options)('$name has a text that says something, in a sentence', ({ description }) => {
    expect(description).toMatch(/^[A-Z`].{15,}\.$/s);
  });

  it.each(options)('$name has a default or says what happens without a value, not both', (option) => {
    expect(Number(option.default !== undefined) + Number(option.unset !== undefined)).toBe(1);
  });

  it('cover every field of the schema', () => {
    expect(options.map(({ name }) => name)).toEqual(Object.keys(settingsSchema().shape));
  });

  it('have defaults that the schema accepts', () => {
    const defaults = Object.fromEntries(
      options.flatMap(({ name, default: value }) => (value === undefined ? [] : [[name, value]])),
    );
    expect(settingsSchema().parse({})).toEqual(settingsSchema().parse(defaults));
    expect(resolveFrom({}).settings).toEqual(settingsSchema().parse({}));
  });

  it('have spellings of their own', () => {
    const flags = options.flatMap((option) => option.flags);
    const variables = options.flatMap((option) => option.variables.map(({ name }) => name));
    expect(new Set(flags).size).toBe(flags.length);
    expect(new Set(variables).size).toBe(variables.length);
  });

  it("share a flag with upstream only where it is the bridge's to decide", () => {
    const own = new Set(options.flatMap((option) => option.flags));
    const shared = upstreamFlags.filter(({ name }) => own.has(name.replace(/^no-/, '')));
    expect(new Set(shared.map(({ role }) => role))).toEqual(new Set(['own']));
    expect(shared).toHaveLength(upstreamFlags.filter(({ role }) => role === 'own').length);
  });
});
