import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Catalog } from '../../../src/core/catalog.ts';
import { BridgeError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Link } from '../../../src/relay/link.ts';
import { Listing, fetchToolList, negotiateVersion } from '../../../src/relay/listing.ts';
import type { LocalTool } from '../../../src/relay/local-tools.ts';

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function localTool(name: string): LocalTool {
  return { definition: { name, description: 'local' }, run: () => Promise.resolve({}) };
}

function makeListing(parts: { hidden?: readonly string[]; local?: readonly string[] } = {}): Listing {
  return new Listing({
    logger: silent,
    localTools: (parts.local ?? ['info']).map(localTool),
    hidden: parts.hidden ?? [],
    serverInfo: { name: 'cloakbrowser-mcp', version: '1' },
    instructions: 'ours',
  });
}

const odd = '{ "name":"a", "big":90071992547409931 , "u":"\\u00fc" }';
const catalog: Catalog = {
  initialize: {
    protocolVersion: '2024-11-05',
    capabilities: { tools: { x: 1 }, resources: { subscribe: true }, experimental: { y: {} } },
    serverInfo: { name: 'Playwright', version: '9' },
    instructions: 'theirs',
    _meta: { z: 1 },
    later: 'kept',
  },
  tools: [
    { name: 'a', text: odd },
    { name: 'b', text: '{"name":"b"}' },
  ],
  members: { _meta: { m: 1 } },
};

function parse(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>;
}

async function namesOf(listing: Listing, link?: Link): Promise<string[]> {
  const { tools } = parse(await listing.listText(link)) as { tools: { name: string }[] };
  return tools.map(({ name }) => name);
}

type Page = string | BridgeError;

/** A link to a child that answers each request with what `answer` gives; without one it says nothing. */
function makeLink(answer: (params: Record<string, unknown>) => Page | undefined): Link & { asked: unknown[] } {
  const asked: unknown[] = [];
  const link = new Link({
    port: {
      send: (parts) => {
        const { id, params } = parse(parts.join('')) as { id: string; params: Record<string, unknown> };
        asked.push(params);
        const page = answer(params);
        if (typeof page === 'string') link.accept(Buffer.from(`{"jsonrpc":"2.0","id":"${id}","result":${page}}`));
        else if (page !== undefined) link.accept(Buffer.from(`{"id":"${id}","error":{"code":1,"message":"no"}}`));
      },
    },
    logger: silent,
    ownPrefix: 'own/',
    nextOuterId: () => 0,
    rootsTimeoutMs: 1,
  });
  return Object.assign(link, { asked });
}

afterEach(() => {
  vi.useRealTimers();
});

describe('negotiateVersion', () => {
  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'speaks %s with a client that asks for it',
    (asked) => {
      expect(negotiateVersion(asked)).toBe(asked);
    },
  );

  it.each(['2026-07-28', '2024-10-07', 'DRAFT', '', undefined, null, 20251125, ['2025-06-18']])(
    'offers the newest to a client that asks for %j',
    (asked) => {
      expect(negotiateVersion(asked)).toBe('2025-11-25');
    },
  );
});

describe('the answer to initialize', () => {
  it("has upstream's own members, our name, both instructions and a list that may change", () => {
    const listing = makeListing();
    listing.use(catalog);
    expect(parse(listing.initializeText('2025-06-18'))).toEqual({
      protocolVersion: '2025-06-18',
      capabilities: { tools: { x: 1, listChanged: true }, resources: { subscribe: true }, experimental: { y: {} } },
      serverInfo: { name: 'cloakbrowser-mcp', version: '1' },
      instructions: 'theirs\n\nours',
      _meta: { z: 1, 'io.github.cloakbrowser-mcp/upstream': { name: 'Playwright', version: '9' } },
      later: 'kept',
    });
  });

  it('can be given without a catalog', () => {
    expect(parse(makeListing().initializeText(undefined))).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'cloakbrowser-mcp', version: '1' },
      instructions: 'ours',
      _meta: { 'io.github.cloakbrowser-mcp/upstream': null },
    });
  });

  it.each([{ capabilities: [] }, { capabilities: { tools: 7 } }, { capabilities: null }])(
    'survives an upstream that says %j',
    (initialize) => {
      const listing = makeListing();
      listing.use({ ...catalog, initialize });
      expect(parse(listing.initializeText(undefined))['capabilities']).toEqual({ tools: { listChanged: true } });
    },
  );
});

describe('the tool list', () => {
  it("has upstream's tools byte for byte and in order, then the local ones, in one page", async () => {
    const listing = makeListing();
    listing.use(catalog);
    expect(await listing.listText(undefined)).toBe(
      `{"_meta":{"m":1},"tools":[${odd},{"name":"b"},{"name":"info","description":"local"}]}`,
    );
  });

  it('has the local tools where there is no catalog', async () => {
    expect(await makeListing().listText(undefined)).toBe('{"tools":[{"name":"info","description":"local"}]}');
  });

  it('leaves out what the operator hides', async () => {
    const listing = makeListing({ hidden: ['b', 'absent'] });
    listing.use(catalog);
    expect(await namesOf(listing)).toEqual(['a', 'info']);
    expect(listing.counts()).toEqual({ upstream: 1, local: 1, hidden: 1 });
    expect([listing.isHidden('b'), listing.isHidden('a')]).toEqual([true, false]);
  });

  it('leaves out a local tool that the operator hides, since it is refused too', async () => {
    const listing = makeListing({ hidden: ['info'], local: ['info', 'more'] });
    listing.use(catalog);
    expect(await namesOf(listing)).toEqual(['a', 'b', 'more']);
  });

  it("has upstream's tool where a local one has the same name", async () => {
    const listing = makeListing({ local: ['a', 'info'] });
    listing.use(catalog);
    expect(await namesOf(listing)).toEqual(['a', 'b', 'info']);
    expect(listing.localTool('a')).toBeUndefined();
    expect(listing.localTool('info')?.definition.name).toBe('info');
    expect(listing.localTool('b')).toBeUndefined();
    expect(listing.counts()).toEqual({ upstream: 2, local: 1, hidden: 0 });
  });
});

describe('whether upstream offers a method', () => {
  it.each([
    ['tools/call', true],
    ['resources/list', true],
    ['prompts/list', false],
    ['completion/complete', false],
    ['logging/setLevel', false],
    ['unknown/method', true],
    ['custom', true],
    ['promptsx', true],
    ['constructor/x', true],
  ])('%s is told by its capabilities: %s', (method, expected) => {
    const listing = makeListing();
    listing.use(catalog);
    expect(listing.offers(method)).toBe(expected);
  });

  it('is not known without a catalog', () => {
    expect(makeListing().offers('prompts/list')).toBe(true);
  });
});

describe('a list that the child has changed', () => {
  const changed = '{"tools":[{"name":"new"}]}';

  it('is read again by the next reader, and once', async () => {
    const link = makeLink(() => changed);
    const listing = makeListing();
    listing.use(catalog);
    expect(await namesOf(listing, link)).toEqual(['a', 'b', 'info']);
    expect(link.asked).toEqual([]);
    listing.markStale();
    expect(await Promise.all([namesOf(listing, link), namesOf(listing, link)])).toEqual([
      ['new', 'info'],
      ['new', 'info'],
    ]);
    expect(await namesOf(listing, link)).toEqual(['new', 'info']);
    expect(link.asked).toEqual([{}]);
    expect(listing.catalog).toBe(catalog);
  });

  it('is the last known one while there is no child', async () => {
    const listing = makeListing();
    listing.use(catalog);
    listing.markStale();
    expect(await namesOf(listing)).toEqual(['a', 'b', 'info']);
  });

  it('is the last known one when the child does not give it', async () => {
    const listing = makeListing();
    listing.use(catalog);
    listing.markStale();
    expect(
      await namesOf(
        listing,
        makeLink(() => new BridgeError('internal', 'no')),
      ),
    ).toEqual(['a', 'b', 'info']);
  });

  it('is the last known one when the child is busy for 5 s, and is asked for again later', async () => {
    vi.useFakeTimers();
    const busy = makeLink(() => undefined);
    const listing = makeListing();
    listing.use(catalog);
    listing.markStale();
    let names: string[] | undefined;
    void namesOf(listing, busy).then((found) => (names = found));
    await vi.advanceTimersByTimeAsync(4999);
    expect(names).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(names).toEqual(['a', 'b', 'info']);
    expect(
      await namesOf(
        listing,
        makeLink(() => changed),
      ),
    ).toEqual(['new', 'info']);
  });

  it('goes with the child that had it', async () => {
    const listing = makeListing();
    listing.use(catalog);
    listing.markStale();
    await namesOf(
      listing,
      makeLink(() => changed),
    );
    listing.markStale();
    listing.reset();
    const next = makeLink(() => '{"tools":[]}');
    expect(await namesOf(listing, next)).toEqual(['a', 'b', 'info']);
    expect(next.asked).toEqual([]);
  });

  it('gives way to a corrected catalog', async () => {
    const listing = makeListing();
    listing.use(catalog);
    listing.markStale();
    await namesOf(
      listing,
      makeLink(() => changed),
    );
    listing.use({ ...catalog, tools: [{ name: 'c', text: '{"name":"c"}' }] });
    expect(await namesOf(listing)).toEqual(['c', 'info']);
  });
});

describe('fetchToolList', () => {
  it('follows the pages of a child and keeps the members of the first one', async () => {
    const pages: Record<string, string> = {
      first: `{"_meta":{"p":1},"nextCursor":"p2","tools":[${odd}]}`,
      p2: '{"_meta":{"p":2},"nextCursor":"","tools":[]}',
      '': '{"tools":[{"name":"c"}]}',
    };
    const link = makeLink(({ cursor }) => pages[typeof cursor === 'string' ? cursor : 'first']);
    expect(await fetchToolList(link)).toEqual({
      tools: [
        { name: 'a', text: odd },
        { name: 'c', text: '{"name":"c"}' },
      ],
      members: { _meta: { p: 1 } },
    });
    expect(link.asked).toEqual([{}, { cursor: 'p2' }, { cursor: '' }]);
  });

  it('refuses what is no list', async () => {
    await expect(fetchToolList(makeLink(() => '{"tools":7}'))).rejects.toMatchObject({ code: 'internal' });
  });

  it.each([
    [1000, 1000],
    [1001, undefined],
  ])('reads a list of %i pages as %s tools', async (pages, expected) => {
    let served = 0;
    const link = makeLink(() => {
      served += 1;
      return `{"tools":[{"name":"t"}]${served < pages ? ',"nextCursor":"x"' : ''}}`;
    });
    const count = await fetchToolList(link).then(
      ({ tools }) => tools.length,
      () => undefined,
    );
    expect(count).toBe(expected);
    expect(link.asked).toHaveLength(1000);
  });
});
