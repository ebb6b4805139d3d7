import { describe, expect, it } from 'vitest';

import { BridgeError, type ErrorCode, errorTable } from '../../../src/core/errors.ts';
import { errorLine, failureLine, notificationLine, resultLine } from '../../../src/relay/answers.ts';

function parse(parts: readonly (Buffer | string)[]): unknown {
  return JSON.parse(parts.join(''));
}

const failure = new BridgeError('start_pending', 'Not "ready"\nyet.', { hint: 'Try again.', data: { seconds: 3 } });

describe('an answer of the bridge', () => {
  it.each(['1', '0', '"a\\"b"', '90071992547409931', '1.50'])('echoes the id %s as it was written', (idText) => {
    expect(resultLine(idText, '{"x":1}').join('')).toBe(`{"jsonrpc":"2.0","id":${idText},"result":{"x":1}}`);
    expect(errorLine(idText, failure).join('')).toContain(`"id":${idText},`);
  });

  it('with an error has code, reason, hint and facts', () => {
    expect(parse(errorLine('1', failure))).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -32015,
        message: 'Not "ready"\nyet.',
        data: { reason: 'start_pending', hint: 'Try again.', seconds: 3 },
      },
    });
  });

  it('with an error leaves out the hint where there is none', () => {
    expect(parse(errorLine('1', new BridgeError('closing', 'x')))).toMatchObject({
      error: { data: { reason: 'closing' } },
    });
    expect(errorLine('1', new BridgeError('closing', 'x')).join('')).not.toContain('hint');
  });

  it('to nobody that could be told has the id null', () => {
    expect(parse(errorLine(undefined, failure))).toMatchObject({ id: null });
  });

  it.each(Object.keys(errorTable))('to a call that failed with %s is a result that a model can read', (code) => {
    const error = new BridgeError(code as ErrorCode, 'What.', { hint: 'How.' });
    expect(parse(failureLine('"c"', 'tools/call', error))).toEqual({
      jsonrpc: '2.0',
      id: 'c',
      result: { content: [{ type: 'text', text: 'What.\nHow.' }], isError: true },
    });
  });

  it('to another method that failed is a JSON-RPC error', () => {
    expect(parse(failureLine('1', 'resources/read', failure))).toEqual(parse(errorLine('1', failure)));
  });

  it('needs no parameters to be a notification', () => {
    expect(parse(notificationLine('notifications/x'))).toEqual({ jsonrpc: '2.0', method: 'notifications/x' });
    expect(parse(notificationLine('notifications/x', { a: 1 }))).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/x',
      params: { a: 1 },
    });
  });
});
