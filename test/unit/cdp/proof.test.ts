import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { findMarked, makeMark } from '../../../src/cdp/proof.ts';
import { endFakeTimers, type FakeSocket, fakeTimers, openFake } from './browser-bed.ts';

const mark = 'about:blank#mark';

beforeEach(fakeTimers);
afterEach(endFakeTimers);

interface Page {
  readonly targetId: string;
  readonly type?: string;
  readonly url: string;
  readonly browserContextId?: string;
}

/** Plays a browser with these pages; `isClosing` decides whether a page that is closed goes. */
function play(socket: FakeSocket, pages: readonly Page[], contexts: readonly string[], isClosing = true): void {
  let targetInfos = pages.map((page) => ({ type: 'page', ...page }));
  socket.answer = ({ method, params }) => {
    if (method === 'Target.getTargets') return { targetInfos };
    if (method === 'Target.getBrowserContexts') return { browserContextIds: contexts };
    if (method !== 'Target.closeTarget') return undefined;
    if (isClosing) targetInfos = targetInfos.filter(({ targetId }) => targetId !== params['targetId']);
    return { success: true };
  };
}

/** What a promise rejects with. */
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (failure: unknown) => failure,
  );

const closed = (socket: FakeSocket): unknown[] =>
  socket.sent.filter(({ method }) => method === 'Target.closeTarget').map(({ params }) => params['targetId']);

describe('a mark', () => {
  it('is an empty page with 128 random bits that no address needs to escape', () => {
    const marks = new Set(Array.from({ length: 50 }, () => makeMark()));
    expect(marks.size).toBe(50);
    for (const one of marks) expect(one).toMatch(/^about:blank#[\w-]{22}$/);
  });
});

describe('the proof', () => {
  it('tells the context of the one marked page, and closes that page and no other', async () => {
    const { socket, endpoint } = openFake();
    const pages = [
      { targetId: 'a', url: 'about:blank', browserContextId: 'own' },
      { targetId: 'b', url: mark, browserContextId: 'own' },
      { targetId: 'c', url: 'https://example.com/#mark', browserContextId: 'own' },
    ];
    play(socket, pages, ['own']);
    expect(await findMarked(endpoint, mark, 1000)).toEqual({ browserContextId: 'own', isDefaultContext: false });
    expect(closed(socket)).toEqual(['b']);
  });

  it('tells the default context from those that can be disposed of', async () => {
    const { socket, endpoint } = openFake();
    play(socket, [{ targetId: 'b', url: mark, browserContextId: 'default' }], ['other']);
    expect(await findMarked(endpoint, mark, 1000)).toEqual({ browserContextId: 'default', isDefaultContext: true });
  });

  const unproven: readonly (readonly [what: string, pages: readonly Page[], says: string])[] = [
    ['no page', [{ targetId: 'a', url: 'about:blank' }], 'not the one that upstream drives'],
    ['a longer address', [{ targetId: 'a', url: `${mark}x` }], 'not the one that upstream drives'],
    ['an address that quotes it', [{ targetId: 'a', url: `https://e.test/?${mark}` }], 'not the one'],
    ['no page but a worker', [{ targetId: 'a', type: 'service_worker', url: mark }], 'not the one'],
    [
      'two pages',
      [
        { targetId: 'a', url: mark },
        { targetId: 'b', url: mark },
      ],
      'has 2 pages with the mark',
    ],
  ];
  it.each(unproven)('fails with %s, and closes nothing', async (_what, pages, says) => {
    const { socket, endpoint } = openFake();
    play(socket, pages, []);
    const found = findMarked(endpoint, mark, 1000);
    await expect(found).rejects.toMatchObject({ code: 'cdp_start_failed', message: expect.stringContaining(says) });
    expect(closed(socket)).toEqual([]);
  });

  it.each([undefined, null, {}, 'x', [1, null, 'x', []]])(
    'fails with %j in place of a list of targets',
    async (list) => {
      const { socket, endpoint } = openFake();
      socket.answer = () => ({ targetInfos: list });
      await expect(findMarked(endpoint, mark, 1000)).rejects.toThrow('not the one that upstream drives');
    },
  );

  it('fails at its limit when the marked page stays', async () => {
    const { socket, endpoint } = openFake();
    play(socket, [{ targetId: 'b', url: mark }], [], false);
    const failure = failureOf(findMarked(endpoint, mark, 500));
    await vi.advanceTimersByTimeAsync(600);
    expect(await failure).toMatchObject({ message: 'The page of the proof does not close.' });
  });

  it.each([0, 1, 2, 3])('fails at its limit when the browser stops answering after %d answers', async (count) => {
    const { socket, endpoint } = openFake();
    play(socket, [{ targetId: 'b', url: mark }], []);
    const { answer } = socket;
    socket.answer = (request) => (socket.sent.length > count ? undefined : answer(request));
    const failure = failureOf(findMarked(endpoint, mark, 500));
    await vi.advanceTimersByTimeAsync(500);
    expect(await failure).toMatchObject({ message: expect.stringContaining('did not answer') });
  });

  it('fails at once when the browser goes', async () => {
    const { socket, endpoint } = openFake();
    const found = findMarked(endpoint, mark, 500);
    socket.end();
    await expect(found).rejects.toThrow('has ended');
  });
});
