import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Catalog } from '../../../src/core/catalog.ts';
import { Bed, catalog, listChanged, settle } from './session-bed.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the start of a session', () => {
  it('makes no child before the client has said initialize', async () => {
    const bed = new Bed();
    bed.say('{"id":1,"method":"tools/call","params":{"name":"a"}}');
    bed.say('{"id":2,"method":"ping"}');
    await settle();
    expect(bed.children).toEqual([]);
  });

  it('makes one in the background, and gives it what the client said and the version that both speak', async () => {
    const bed = new Bed();
    const child = await bed.open(
      '{"protocolVersion":"2030-01-01","capabilities":{"roots":{}},"clientInfo":{"name":"c"},"x":1}',
    );
    expect(bed.children).toHaveLength(1);
    expect(child.got[0]?.params).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: { roots: {} },
      clientInfo: { name: 'c' },
      x: 1,
    });
  });

  it('fills in what a client leaves out, since upstream refuses to be without', async () => {
    const child = await new Bed().open('{"protocolVersion":"2025-06-18"}');
    expect(child.got[0]?.params).toMatchObject({ capabilities: {}, clientInfo: { name: 'unknown', version: '0' } });
  });

  it('counts the first client for all children', async () => {
    const bed = new Bed();
    const child = await bed.open();
    await bed.open('{"protocolVersion":"2024-11-05","clientInfo":{"name":"second"}}');
    child.die({ code: 1, signal: null });
    await settle();
    bed.call(1);
    await settle();
    expect(bed.child(2).got[0]?.params).toMatchObject({ protocolVersion: '2025-06-18', clientInfo: { name: 'c' } });
  });

  it('goes on without a catalog that could not be found', async () => {
    const bed = new Bed(Promise.reject(new Error('broken')));
    await bed.open();
    expect(bed.children).toHaveLength(1);
  });

  it('makes the child after the catalog is known, so that they do not slow one another down', async () => {
    let found = (_catalog: Catalog | undefined): void => undefined;
    const bed = new Bed(new Promise((resolve) => (found = resolve)));
    bed.say('{"id":0,"method":"initialize"}');
    await settle();
    expect([bed.children, bed.sent]).toEqual([[], []]);
    found(catalog);
    await settle();
    expect(bed.children).toHaveLength(1);
    expect(bed.sent).toHaveLength(1);
  });

  it('passes calls on and answers back', async () => {
    const bed = new Bed();
    const child = await bed.open();
    bed.call(1);
    child.answer({ id: 1 }, '{"content":[]}');
    expect(bed.sent).toEqual([{ jsonrpc: '2.0', id: 1, result: { content: [] } }]);
  });
});

describe('the tool list of a real child', () => {
  it('that is the known one is announced to nobody', async () => {
    const bed = new Bed();
    await bed.open();
    expect([bed.sent, bed.stored]).toEqual([[], []]);
  });

  it('that is another one is stored and announced once', async () => {
    const bed = new Bed();
    bed.tools = '{"name":"a"},{"name":"new"}';
    bed.say('{"id":0,"method":"initialize"}');
    await settle();
    expect(bed.sent.slice(1)).toEqual([listChanged]);
    expect(bed.stored.map(({ tools, initialize }) => [tools.map(({ name }) => name), initialize])).toEqual([
      [['a', 'new'], { ...catalog.initialize, protocolVersion: '2025-11-25' }],
    ]);
  });

  it('is stored with its own answer to initialize where no catalog could be learned', async () => {
    const bed = new Bed(Promise.resolve(undefined));
    bed.offer = { instructions: 'child' };
    await bed.open();
    const initialize = { instructions: 'child', protocolVersion: '2025-11-25' };
    expect(bed.stored).toEqual([{ ...catalog, initialize }]);
  });

  it('is stored anew, and announced to nobody, when only what the child offers has changed', async () => {
    const bed = new Bed();
    bed.offer = { ...catalog.initialize, instructions: 'new' };
    await bed.open();
    expect(bed.sent).toEqual([]);
    expect(bed.stored.map(({ initialize }) => initialize)).toEqual([{ ...bed.offer, protocolVersion: '2025-11-25' }]);
  });
});

describe('the loss of a child', () => {
  it('is told to the calls that were with it, with its last words and that they may have run', async () => {
    const bed = new Bed();
    const child = await bed.open();
    child.tail = 'Segmentation fault';
    bed.call(1);
    child.die({ code: null, signal: 'SIGKILL' });
    await settle();
    const [answer] = bed.takeSent();
    expect(answer).toMatchObject({ id: 1, result: { isError: true } });
    const text = JSON.stringify(answer?.result);
    for (const part of ['signal SIGKILL', 'may have run', 'Segmentation fault', 'not repeated'])
      expect(text).toContain(part);
    expect(bed.session.lastLoss).toMatchObject({
      generation: 1,
      reason: 'The browser process ended (signal SIGKILL).',
    });
  });

  it('sends it nothing more, and still passes on its last answers', async () => {
    const bed = new Bed();
    const child = await bed.open();
    bed.call(1);
    bed.call(2);
    child.fade();
    await settle();
    bed.call(3);
    child.answer({ id: 1 }, '{"last":true}');
    expect(bed.takeSent()).toEqual([{ jsonrpc: '2.0', id: 1, result: { last: true } }]);
    expect(child.of('tools/call').map(({ id }) => id)).toEqual([1, 2]);
    child.die({ code: 1, signal: null });
    await settle();
    expect(bed.takeSent().map(({ id }) => id)).toEqual([2, undefined]);
    expect(
      bed
        .child(2)
        .of('tools/call')
        .map(({ id }) => id),
    ).toEqual([3]);
  });

  it('starts nothing until the next call, which goes to the next child and no other', async () => {
    const bed = new Bed();
    (await bed.open()).die({ code: 1, signal: null });
    bed.say('{"id":5,"method":"tools/list"}');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(bed.children).toHaveLength(1);
    bed.call(1);
    await settle();
    expect(bed.children).toHaveLength(2);
    expect(bed.child(1).of('tools/call')).toEqual([]);
    expect(bed.child(2).of('tools/call')).toHaveLength(1);
  });

  it('is told once with a changed list when the next child is ready', async () => {
    const bed = new Bed();
    (await bed.open()).die({ code: 1, signal: null });
    await settle();
    expect(bed.sent).toEqual([]);
    bed.call(1);
    await settle();
    expect(bed.sent).toEqual([listChanged]);
  });

  it('is told within five seconds, also when the next child does not list its tools', async () => {
    const bed = new Bed();
    (await bed.open()).die({ code: 1, signal: null });
    await settle();
    bed.tools = undefined;
    bed.call(1);
    await vi.advanceTimersByTimeAsync(4900);
    expect(bed.sent).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    expect(bed.sent).toEqual([listChanged]);
  });

  it('makes no new child before the old one is gone', async () => {
    const bed = new Bed();
    const child = await bed.open();
    let isGone = (): void => undefined;
    child.endSlowly = new Promise((resolve) => (isGone = resolve));
    child.die({ code: 1, signal: null });
    await settle();
    bed.call(1);
    await settle();
    expect(bed.children).toHaveLength(1);
    isGone();
    await settle();
    expect(bed.children).toHaveLength(2);
    expect(child.isClosed).toBe(true);
  });

  it('withdraws what the child had asked the client, and the next child asks under other ids', async () => {
    const bed = new Bed();
    const child = await bed.open();
    child.say('{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage"}');
    child.die({ code: 1, signal: null });
    await settle();
    bed.call(1);
    await settle();
    bed.child(2).say('{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage"}');
    bed.say('{"id":0,"result":{"late":true}}');
    bed.say('{"id":1,"result":{"right":true}}');
    expect(bed.sent).toMatchObject([
      { id: 0, method: 'sampling/createMessage' },
      { method: 'notifications/cancelled', params: { requestId: 0 } },
      listChanged,
      { id: 1, method: 'sampling/createMessage' },
    ]);
    expect(bed.child(2).got.filter(({ result }) => result !== undefined)).toEqual([{ id: 0, result: { right: true } }]);
  });

  it('does not lose the log level of the client', async () => {
    const bed = new Bed();
    const child = await bed.open();
    bed.say('{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}');
    child.die({ code: 1, signal: null });
    await settle();
    bed.call(2);
    await settle();
    expect(bed.child(2).of('logging/setLevel')).toMatchObject([{ params: { level: 'debug' } }]);
  });

  it('is told once, whatever ends later', async () => {
    const bed = new Bed();
    const child = await bed.open();
    bed.call(1);
    child.die({ code: 1, signal: null });
    await settle();
    await bed.session.close();
    expect(bed.sent).toHaveLength(1);
  });
});

describe('the end of a session', () => {
  it('answers what is with the child, ends it, and takes nothing any more', async () => {
    const bed = new Bed();
    const child = await bed.open();
    bed.call(1);
    expect(bed.session.state).toBe('open');
    const closing = bed.session.close();
    expect(bed.session.state).toBe('closing');
    expect(bed.session.close()).toBe(closing);
    await closing;
    bed.call(2);
    await settle();
    expect(JSON.stringify(bed.sent)).toContain('The session is ending');
    expect(bed.sent.map(({ id }) => id)).toEqual([1]);
    expect(child.isClosed).toBe(true);
    expect(bed.session.lastLoss).toBeUndefined();
    expect(bed.children).toHaveLength(1);
  });

  it('waits for the end of a child that was lost just before', async () => {
    const bed = new Bed();
    const child = await bed.open();
    let isGone = (): void => undefined;
    child.endSlowly = new Promise((resolve) => (isGone = resolve));
    child.die({ code: 1, signal: null });
    await settle();
    let isClosed = false;
    void bed.session.close().then(() => (isClosed = true));
    await settle();
    expect(isClosed).toBe(false);
    isGone();
    await settle();
    expect(isClosed).toBe(true);
  });

  it('needs no child to have been there', async () => {
    const bed = new Bed();
    await bed.session.close();
    expect([bed.sent, bed.children]).toEqual([[], []]);
  });
});

describe('a message of the client that is too long', () => {
  it('that answers the child is an error for the child and nothing for the client', async () => {
    const bed = new Bed();
    const child = await bed.open();
    child.say('{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}');
    bed.takeSent();
    bed.session.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":0,"result":'), Buffer.from('"}}'), 1001);
    expect(child.got.at(-1)).toMatchObject({ id: 'q', error: { code: -32017 } });
    expect(bed.sent).toEqual([]);
  });

  it('is refused under its id', () => {
    const bed = new Bed();
    bed.session.acceptOversize(Buffer.from('{"jsonrpc":"2.0","id":4,"method":"x","params":'), Buffer.from('"}}'), 1001);
    expect(bed.sent).toMatchObject([{ id: 4, error: { code: -32017, data: { bytes: 1001, maxBytes: 1000 } } }]);
  });
});

describe("the bytes of the client's messages that no child has read", () => {
  const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}';
  const notice = '{"jsonrpc":"2.0","method":"notifications/x"}';

  it('are those that wait for a child, until it gets them, and then what lies before it', async () => {
    const bed = new Bed();
    (await bed.open()).die({ code: 1, signal: null });
    await settle();
    expect(bed.session.unreadBytes).toBe(0);
    bed.say(call);
    bed.say(notice);
    bed.say('{"jsonrpc":"2.0","id":2,"method":"ping"}');
    expect(bed.session.unreadBytes).toBe(call.length + notice.length);
    await settle();
    expect([bed.child(2).of('tools/call').length, bed.session.unreadBytes]).toEqual([1, 0]);
    bed.child(2).unreadBytes = 7;
    expect(bed.session.unreadBytes).toBe(7);
  });

  it('are none of a request that was withdrawn', async () => {
    const bed = new Bed();
    (await bed.open()).die({ code: 1, signal: null });
    await settle();
    bed.say(call);
    bed.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
    expect(bed.session.unreadBytes).toBe(0);
    await settle();
  });
});
