/**
 * Where a JSON text is broken, as ` (line 3)`; empty if that is not known. Only the position is taken from the parser's
 * message: the rest quotes the text, and with it perhaps a password.
 */
export function brokenLine(text: string, thrown: unknown): string {
  const position = thrown instanceof Error ? /position (\d+)/.exec(thrown.message)?.[1] : undefined;
  return position === undefined ? '' : ` (line ${text.slice(0, Number(position)).split('\n').length})`;
}
