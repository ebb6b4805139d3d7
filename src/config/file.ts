import { brokenLine } from '../core/json-line.ts';
import { type Problem, problem } from './problem.ts';

interface FileLayer {
  readonly values: ReadonlyMap<string, unknown>;
  readonly problems: readonly Problem[];
}

function failed(path: string, text: string): FileLayer {
  return { values: new Map(), problems: [problem({ kind: 'file', name: `config file ${path}` }, text)] };
}

/** Reads the settings of a config file; whatever is wrong with it becomes a problem. */
export function readConfigFile(path: string, readFile: (path: string) => string): FileLayer {
  let text: string;
  try {
    text = readFile(path).replace(/^\uFEFF/, '');
  } catch (thrown) {
    const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : 'unknown reason';
    return failed(path, `cannot be read (${code})`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (thrown) {
    return failed(path, `is not valid JSON${brokenLine(text, thrown)}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    return failed(path, 'must hold one JSON object');
  // `$schema` is for editors.
  return { values: new Map(Object.entries(parsed).filter(([key]) => key !== '$schema')), problems: [] };
}
