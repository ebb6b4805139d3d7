import { describe, expect, it } from 'vitest';

import { BridgeError, describeError, errorTable, messageOf, toBridgeError } from '../../../src/core/errors.ts';

const codes = Object.entries(errorTable);
/** JSON-RPC 2.0, section 5.1. */
const standard = new Set([-32700, -32600, -32601, -32602, -32603]);

describe('the error table', () => {
  it.each(codes)('gives %s a JSON-RPC code of ours or of the standard', (_code, { rpc }) => {
    expect(standard.has(rpc) || (rpc >= -32019 && rpc <= -32010)).toBe(true);
  });

  it.each(codes)('says in a sentence when %s is met', (_code, { when }) => {
    expect(when).toMatch(/^[A-Z].{20,}\.$/);
  });

  it.each(codes)('gives %s an exit code and an HTTP status that fit', (code, { exit, http, fault }) => {
    // 2 is what shells know as a wrong use; whatever is the host's or ours is no 4xx, which would blame the client.
    expect(exit).toBe(['usage', 'config', 'tls'].includes(code) ? 2 : 1);
    expect(http).toBeGreaterThanOrEqual(fault === 'user' ? 400 : 500);
    expect(http).toBeLessThan(600);
  });

  it('blames no client for what is not its fault', () => {
    const clientCodes = new Set<number>([-32700, -32600, -32601, -32602]);
    expect(codes.filter(([, { fault, rpc }]) => fault !== 'user' && clientCodes.has(rpc))).toEqual([]);
  });
});

describe('BridgeError', () => {
  it('keeps code, hint, cause and facts', () => {
    const cause = new Error('inner');
    const error = new BridgeError('config', 'bad', { hint: 'mend it', cause, data: { x: 1 } });
    expect(error).toMatchObject({ name: 'BridgeError', code: 'config', hint: 'mend it', cause, data: { x: 1 } });
  });

  it('has no cause and no facts when there are none', () => {
    const error = new BridgeError('config', 'bad');
    expect('cause' in error).toBe(false);
    expect(error.data).toEqual({});
  });

  it('is described with its hint where it has one', () => {
    expect(describeError(new BridgeError('config', 'bad', { hint: 'mend it' }))).toBe('bad\nmend it');
    expect(describeError(new BridgeError('config', 'bad'))).toBe('bad');
  });
});

describe('toBridgeError', () => {
  it('leaves one as it is', () => {
    const error = new BridgeError('config', 'bad');
    expect(toBridgeError(error)).toBe(error);
  });

  it('calls anything else internal, and keeps it as the cause', () => {
    const thrown = new TypeError('no');
    expect(toBridgeError(thrown)).toMatchObject({ code: 'internal', message: 'no', cause: thrown });
    expect(toBridgeError('text')).toMatchObject({ code: 'internal', message: 'text' });
  });

  it('reads the text of anything thrown', () => {
    expect([new Error('a'), 'b', 7, undefined].map(messageOf)).toEqual(['a', 'b', '7', 'undefined']);
  });
});
