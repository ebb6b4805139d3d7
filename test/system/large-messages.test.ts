import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { residentMebibytes } from '../support/processes.ts';
import { structuredOf, Testbed, textOf } from '../support/testbed.ts';

const mebibyte = 1024 * 1024;
let testbed: Testbed;

beforeEach(async () => {
  testbed = await Testbed.make();
  await testbed.learnCatalog();
});

afterEach(async () => {
  await testbed.close();
});

describe('large messages', () => {
  test('results of 12, 14, 60 and 64 MB pass unchanged, and the session lives', async () => {
    const client = testbed.start({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    const { pid } = structuredOf(await client.call('inspect'));
    for (const bytes of [12 * mebibyte, 14_000_000, 60_000_000, 64 * mebibyte]) {
      const text = textOf(await client.call('big', { bytes }, { ms: 30_000 }));
      expect(text.length).toBe(bytes);
      expect(text === 'x'.repeat(bytes)).toBe(true);
    }
    expect(structuredOf(await client.call('inspect'))).toMatchObject({ pid });
    expect(client.strayLines).toEqual([]);
  });

  test('a request with 14 MB of arguments reaches the child unchanged', async () => {
    const client = testbed.start();
    await client.initialize();
    const params = { name: 'content', arguments: { kinds: ['text'], big: 'é"\\'.repeat(3_500_000) } };
    const line = JSON.stringify({ jsonrpc: '2.0', id: 'large', method: 'tools/call', params });
    const answered = client.answerTo('large', 30_000);
    client.sendRaw(line);
    expect(textOf(await answered)).toBe('plain');
    expect(testbed.received().includes(line)).toBe(true);
  });

  test('small calls are answered while large results are on their way', async () => {
    const client = testbed.start({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    const large = [1, 2, 3].map((n) => client.call('big', { bytes: n * 5_000_000 }, { ms: 30_000 }));
    const small = Array.from({ length: 20 }, (_none, n) => client.call('echo', { n }, { ms: 30_000 }));
    expect((await Promise.all(large)).map((answer) => textOf(answer).length)).toEqual([5e6, 1e7, 1.5e7]);
    expect((await Promise.all(small)).every((answer, n) => textOf(answer).includes(`"n":${n}`))).toBe(true);
  });

  test('a client that reads slowly gets every byte', async () => {
    const client = testbed.start({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    client.pauseStdout();
    const answers = Array.from({ length: 10 }, (_none, n) =>
      client.call('big', { bytes: 2_000_000 + n }, { ms: 30_000 }),
    );
    await testbed.waitForEvent('received', { tool: 'big' });
    client.resumeStdout();
    const lengths = (await Promise.all(answers)).map((answer) => textOf(answer).length);
    expect(lengths).toEqual(answers.map((_answer, n) => 2_000_000 + n));
  });
});

describe('a client that reads nothing', () => {
  test('holds the child back instead of filling the memory of the bridge', async () => {
    const client = testbed.start({ fake: { SENT: '/dev/null' } });
    await client.initialize();
    await client.call('echo');
    client.pauseStdout();
    const answers = Array.from({ length: 40 }, () => client.call('big', { bytes: 10_000_000 }, { ms: 45_000 }));
    const peaks: number[] = [];
    for (let look = 0; look < 20; look += 1) {
      peaks.push(residentMebibytes(client.pid));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    client.resumeStdout();
    expect((await Promise.all(answers)).every((answer) => textOf(answer).length === 10_000_000)).toBe(true);
    expect(Math.max(...peaks)).toBeLessThan(200);
  });
});

describe('the limit of --max-message-bytes', () => {
  const limit = 100_000;
  const args = ['--max-message-bytes', String(limit)];
  /** Bytes of the line around the text of an answer of the tool `big` with this id. */
  const around = (id: string): number =>
    JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: '' }] } }).length;

  test('an answer of exactly the limit passes, one byte more fails that request only', async () => {
    const client = testbed.start({ args });
    await client.initialize();
    const fitting = await client.call('big', { bytes: limit - around('fits') }, { id: 'fits' });
    expect(textOf(fitting)).toHaveLength(limit - around('fits'));
    const running = client.call('slow', { ms: 300 }, { id: 'running' });
    const refused = await client.call('big', { bytes: limit + 1 - around('over') }, { id: 'over' });
    expect(refused.result?.['isError']).toBe(true);
    expect(textOf(refused)).toContain('--max-message-bytes');
    expect(textOf(refused)).toContain(String(limit));
    expect(textOf(await running)).toBe('late');
    expect(textOf(await client.call('echo', { still: 'here' }))).toContain('still');
    expect(testbed.eventsOf('start')).toHaveLength(1);
    expect(client.countAnswers('over')).toBe(1);
  });

  test('a request over the limit is refused by id and the session lives', async () => {
    const client = testbed.start({ args });
    await client.initialize();
    const refused = await client.call('echo', { big: 'x'.repeat(limit) }, { id: 'too big' });
    expect(refused.error).toMatchObject({ code: -32017, data: { reason: 'message_too_large', maxBytes: limit } });
    expect(textOf(await client.call('echo', { still: 'here' }))).toContain('still');
    expect(testbed.eventsOf('received', { method: 'tools/call' })).toHaveLength(1);
  });
});
