import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** The text of a file, by its path from the root of the repository. */
export function readDocument(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

/** A block of code of a document. */
interface Block {
  readonly language: string;
  readonly text: string;
}

/** The blocks of code of a document. */
export function blocksOf(markdown: string): Block[] {
  const found = markdown.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```$/gm);
  return [...found].map(([, language = '', text = '']) => ({ language, text }));
}

/** A document without its blocks of code. */
export function proseOf(markdown: string): string {
  return markdown.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
}

/** Everything that is set as code, in a line or in a block. */
export function codeOf(markdown: string): string {
  const spans = [...proseOf(markdown).matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);
  return [...spans, ...blocksOf(markdown).map(({ text }) => text)].join('\n');
}

/** A document from the heading with this title to the next one of the same or a higher level. */
export function sectionOf(title: string, markdown: string): string {
  const [, level = '', rest = ''] = new RegExp(`^(#+) ${title}\\n([\\s\\S]*)`, 'm').exec(markdown) ?? [];
  const next = new RegExp(`^#{1,${Math.max(1, level.length)}} `, 'm').exec(rest);
  return next === null ? rest : rest.slice(0, next.index);
}

/** The cells of the rows of every table whose head begins with these words. */
export function rowsUnder(head: string, markdown: string): string[][] {
  const tables = markdown.split(/\n\n+/).filter((paragraph) => new RegExp(`^\\| ${head} +\\|`).test(paragraph));
  const rows = tables.flatMap((table) => table.trim().split('\n').slice(2));
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
