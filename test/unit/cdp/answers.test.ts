import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';

import { Refusal, refuse, refuseUpgrade, send } from '../../../src/cdp/answers.ts';
import { refusals } from '../../../src/core/cdp-errors.ts';
import { type Answer, makeAnswer, makeRequest } from '../http/http-bed.ts';

const wanted = { text: '{}', type: 'application/json', stallTimeoutMs: 1000 };

function make(headers: readonly string[] = [], method = 'GET'): Answer {
  const answer = makeAnswer(makeRequest(headers, '/', method));
  // Nothing stalls here: cdp-gateway-edges.test.ts has real sockets for that.
  Object.assign(answer.res.socket ?? {}, { setTimeout: () => undefined });
  return answer;
}

describe('an answer', () => {
  it('is kept by nobody on its way, and tells its length', () => {
    const { res, sent } = make();
    void send(res, 200, { ...wanted, text: '"ä"' });
    const head = sent().toLowerCase();
    for (const line of [
      'http/1.1 200 ok',
      'content-length: 4',
      'cache-control: no-store',
      'referrer-policy: no-referrer',
      'x-content-type-options: nosniff',
    ])
      expect(head).toContain(`${line}\r\n`);
    expect(head).not.toContain('access-control');
  });

  it('is given once', async () => {
    const { res, sent } = make();
    void send(res, 200, wanted);
    await send(res, 500, { ...wanted, text: 'again' });
    expect(sent()).not.toContain('again');
  });

  it('is not given to a client that has gone', async () => {
    const { res, sent } = make();
    res.destroy();
    await send(res, 200, wanted);
    expect(sent()).toBe('');
  });
});

describe('a refusal', () => {
  it('has the status of its code, and says what is wrong as JSON', () => {
    for (const [code, status] of Object.entries(refusals) as [keyof typeof refusals, number][]) {
      const { res, sent } = make();
      refuse(res, new Refusal(code, 'What is wrong.', { hint: 'What mends it.' }));
      expect(sent()).toContain(`HTTP/1.1 ${status} `);
      const body: unknown = JSON.parse(sent().split('\r\n\r\n')[1] ?? '');
      expect(body).toEqual({ error: { code, message: 'What is wrong.', hint: 'What mends it.' } });
    }
  });

  it.each([
    [['Content-Length', '1'], 'close'],
    [['Transfer-Encoding', 'chunked'], 'close'],
    [['Content-Length', '0'], 'keep-alive'],
    [[], 'keep-alive'],
  ] as const)('of a request with %j leaves the connection: %s', (headers, connection) => {
    const { res, sent } = make(headers, 'PUT');
    refuse(res, new Refusal('body_not_allowed', 'No.'));
    expect(sent().toLowerCase()).toContain(`connection: ${connection}`);
  });

  it('of an upgrade is one whole answer, and the end of the connection', async () => {
    const socket = new PassThrough();
    const refusal = new Refusal('method_not_allowed', 'Nö.', { headers: { allow: 'GET' } });
    refuseUpgrade(socket, refusal);
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    const [head = '', body = ''] = text.split('\r\n\r\n');
    expect(head).toContain('HTTP/1.1 405 Method Not Allowed\r\n');
    expect(head).toContain('\r\nconnection: close\r\n');
    expect(head).toContain('\r\nallow: GET');
    expect(head).toContain(`content-length: ${Buffer.byteLength(body)}\r\n`);
    expect(JSON.parse(body)).toEqual({ error: { code: 'method_not_allowed', message: 'Nö.' } });
  });

  it('of an upgrade whose client has ended leaves nothing open', () => {
    const socket = new PassThrough();
    socket.end();
    refuseUpgrade(socket, new Refusal('not_found', 'No.'));
    expect(socket.destroyed).toBe(true);
  });
});
