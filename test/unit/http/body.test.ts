import { describe, expect, it } from 'vitest';

import { holdBody, readBody } from '../../../src/http/body.ts';
import { finishRequest, makeRequest } from './http-bed.ts';

const limit = 10;

describe('the body of a request', () => {
  it.each([[[]], [['{}']], [['{"a"', ':1', '}']]])('is read whole: %j', async (chunks) => {
    const req = makeRequest();
    const body = readBody(req, limit);
    for (const chunk of chunks) req.push(chunk);
    finishRequest(req);
    expect((await body).toString()).toBe(chunks.join(''));
  });

  it('is taken up to the limit, announced or not', async () => {
    for (const headers of [['Content-Length', '10'], []]) {
      const req = makeRequest(headers);
      const body = readBody(req, limit);
      req.push('12345');
      req.push('67890');
      finishRequest(req);
      expect((await body).toString()).toBe('1234567890');
    }
  });

  it('is refused by its announced length without a byte of it being read', async () => {
    const req = makeRequest(['Content-Length', '11']);
    await expect(readBody(req, limit)).rejects.toMatchObject({
      code: 'message_too_large',
      message: expect.stringContaining('has 11 bytes; the limit is 10'),
      hint: expect.stringContaining('--http-max-body-bytes'),
    });
    expect(req.readableFlowing).toBe(null);
  });

  it('is refused as soon as it is longer than the limit, and the rest is not kept', async () => {
    const req = makeRequest(['Transfer-Encoding', 'chunked']);
    const body = readBody(req, limit);
    req.push('12345678901');
    await expect(body).rejects.toMatchObject({ code: 'message_too_large', data: { maxBytes: 10 } });
    expect(req.listenerCount('data')).toBe(0);
  });

  it('is refused when it is compressed', async () => {
    await expect(readBody(makeRequest(['Content-Encoding', 'gzip']), limit)).rejects.toMatchObject({
      code: 'media_type',
    });
    const req = makeRequest(['Content-Encoding', 'Identity']);
    finishRequest(req);
    expect(await readBody(req, limit)).toHaveLength(0);
  });

  it('ends with an error when the client goes in the middle of it', async () => {
    const req = makeRequest();
    const body = readBody(req, limit);
    req.push('{');
    req.destroy();
    await expect(body).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(readBody(req, limit)).rejects.toMatchObject({ code: 'invalid_request' });
  });
});

describe('a client that waits with its body', () => {
  it('is told to send it once somebody reads it', async () => {
    const req = makeRequest();
    let permitted = 0;
    holdBody(req, () => void permitted++);
    expect(permitted).toBe(0);
    const body = readBody(req, limit);
    finishRequest(req);
    await body;
    expect(permitted).toBe(1);
  });

  it('is not told to when the body is refused anyway', async () => {
    const req = makeRequest(['Content-Length', '11']);
    let permitted = 0;
    holdBody(req, () => void permitted++);
    await expect(readBody(req, limit)).rejects.toThrow('limit is 10');
    expect(permitted).toBe(0);
  });
});
