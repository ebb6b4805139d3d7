/** Arguments of Chromium that managed CDP decides, or that would let pages use its port. */
const decided = /^--(?:remote-debugging-(?:port|pipe|address|socket-name)|remote-allow-origins|user-data-dir)(?:=|$)/;

/** The first argument that managed CDP cannot be combined with, without its value; undefined when there is none. */
export function debuggingConflict(args: readonly unknown[]): string | undefined {
  const found = args.find((arg) => typeof arg === 'string' && decided.test(arg));
  return typeof found === 'string' ? found.split('=', 1)[0] : undefined;
}
