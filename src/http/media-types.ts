/** The ranges of an Accept header without their parameters; one with `q=0` asks for the opposite and is left out. */
function rangesOf(accept: string | undefined): readonly string[] {
  return (accept ?? '')
    .toLowerCase()
    .split(',')
    .filter((range) => !/;\s*q=0(\.0*)?\s*(;|$)/.test(range))
    .map((range) => (range.split(';', 1)[0] ?? '').trim());
}

function accepts(accept: string | undefined, type: string): boolean {
  const whole = `${type.split('/', 1)[0] ?? ''}/*`;
  return rangesOf(accept).some((range) => range === type || range === whole || range === '*/*');
}

/** True if a client takes event streams. Wildcards count, a missing header does not (MCP: the client MUST list them). */
export function acceptsEvents(accept: string | undefined): boolean {
  return accepts(accept, 'text/event-stream');
}

/** True if a client takes JSON. */
export function acceptsJson(accept: string | undefined): boolean {
  return accepts(accept, 'application/json');
}

/** True for `application/json` with whatever parameters, and for nothing that only contains it. */
export function isJson(contentType: string | undefined): boolean {
  return (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
}
