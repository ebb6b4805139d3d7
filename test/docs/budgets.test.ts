import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const readmeLines = 250;
const pageLines = 300;

it('the README can be read in one sitting', () => {
  expect(countLines('README.md')).toBeLessThanOrEqual(readmeLines);
});

it('every page that is written by hand is short', () => {
  const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
  const long = pages.filter((name) => countLines(`docs/${name}`) > pageLines);
  expect(pages.length).toBeGreaterThan(0);
  expect(long).toEqual([]);
});

function countLines(file: string): number {
  return readFileSync(join(root, file), 'utf8').trimEnd().split('\n').length;
}
