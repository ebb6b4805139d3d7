import { describe, expect, it } from 'vitest';

import { makePolicy, type Policy, type PolicySettings } from '../../../src/cdp/policy.ts';

function make(name: PolicySettings['name'], lists: Partial<PolicySettings> = {}): Policy {
  return makePolicy({ name, allow: [], deny: [], ...lists });
}

function checkText(policy: Policy, text: string): { readonly kind: string; readonly answer?: unknown } {
  const verdict = policy.check(Buffer.from(text));
  return verdict.kind === 'pass'
    ? { kind: 'pass' }
    : { kind: verdict.kind, answer: JSON.parse(verdict.text) as unknown };
}

function kindOf(policy: Policy, method: string, params?: unknown): string {
  return checkText(policy, JSON.stringify({ id: 1, method, params })).kind;
}

/** What Playwright 1.65 and Puppeteer 24.43 send when they connect, and what clients do then. */
const ordinary = [
  'Browser.getVersion',
  'Browser.setDownloadBehavior',
  'Target.setAutoAttach',
  'Target.getTargetInfo',
  'Target.setDiscoverTargets',
  'Target.createTarget',
  'Target.closeTarget',
  'Target.attachToTarget',
  'Target.attachToBrowserTarget',
  'Target.createBrowserContext',
  'Target.disposeBrowserContext',
  'Runtime.enable',
  'Page.navigate',
  'Storage.getCookies',
];
const hijacking = [
  'Browser.crash',
  'Browser.crashGpuProcess',
  'Page.crash',
  'Target.setRemoteLocations',
  'Tethering.bind',
  'Extensions.loadUnpacked',
  'Extensions.uninstall',
  'Target.sendMessageToTarget',
  'Target.exposeDevToolsProtocol',
];

describe('full', () => {
  it('passes everything unread, also what is no JSON', () => {
    const policy = make('full');
    expect(policy.inspects).toBe(false);
    for (const text of ['{"id":1,"method":"Browser.close"}', 'nonsense', ''])
      expect(checkText(policy, text).kind).toBe('pass');
  });

  it('with a list of denied methods denies these and the tunnels around it', () => {
    const policy = make('full', { deny: ['Browser.close', 'Storage.*'] });
    for (const method of ['Browser.close', 'Storage.getCookies', 'Storage.x', 'Target.sendMessageToTarget'])
      expect(kindOf(policy, method)).toBe('answer');
    for (const method of ['Browser.crash', 'StorageX.get', 'Page.navigate'])
      expect(kindOf(policy, method)).toBe('pass');
  });
});

describe('guarded', () => {
  const policy = make('guarded');

  it.each(ordinary)('passes %s', (method) => {
    expect(kindOf(policy, method)).toBe('pass');
  });

  it.each(hijacking)('denies %s', (method) => {
    expect(checkText(policy, JSON.stringify({ id: 7, sessionId: 'S', method }))).toEqual({
      kind: 'answer',
      answer: {
        id: 7,
        sessionId: 'S',
        error: { code: -32_000, message: `${method} is denied by the policy of this bridge (guarded)` },
      },
    });
  });

  it('answers Browser.close as if it had worked, and lets the client go', () => {
    expect(checkText(policy, '{"id":3,"method":"Browser.close"}')).toEqual({
      kind: 'leave',
      answer: { id: 3, result: {} },
    });
    const denied = make('guarded', { deny: ['Browser.close'] });
    expect(checkText(denied, '{"id":3,"method":"Browser.close"}').kind).toBe('answer');
    const allowed = make('guarded', { allow: ['Browser.*'] });
    expect(kindOf(allowed, 'Browser.close')).toBe('pass');
  });

  it.each([
    ['an escape', '{"id":1,"method":"Browser.\\u0063rash"}'],
    ['an escape in the key', '{"id":1,"\\u006dethod":"Browser.crash"}'],
    ['white space', '\n\t{ "method" : "Browser.crash" , "id" : 1 }\r\n'],
    [
      'nesting in a tunnel',
      '{"id":1,"method":"Target.sendMessageToTarget","params":{"message":"{\\"id\\":1,\\"method\\":\\"Browser.close\\"}"}}',
    ],
    ['params that name another method', '{"id":1,"params":{"method":"Page.enable"},"method":"Browser.crash"}'],
    ['a session', '{"id":1,"sessionId":"A","method":"Page.crash"}'],
    ['a harmless key of the same name before', '{"id":1,"method":"Page.enable","method":"Browser.crash"}'],
    ['no id', '{"method":"Browser.crash"}'],
  ])('is not slipped by with %s', (_what, text) => {
    expect(checkText(policy, text).kind).toBe('answer');
  });

  it.each([
    ['no JSON', 'Browser.crash', -32_700],
    ['trailing data', '{"id":1,"method":"Page.enable"}{"id":2,"method":"Browser.crash"}', -32_700],
    ['a comment, which Chromium would skip', '{/**/"id":1,"method":"Browser.crash"}', -32_700],
    ['a mark of its byte order', '\uFEFF{"id":1,"method":"Browser.crash"}', -32_700],
    ['a list', '[{"id":1,"method":"Browser.crash"}]', -32_600],
    ['a method that is no text', '{"id":1,"method":["Browser.crash"]}', -32_600],
    ['no method', '{"id":1}', -32_600],
    ['no id', '{"method":"Page.enable"}', -32_600],
    ['an id that is a text', '{"id":"1","method":"Page.enable"}', -32_600],
    ['an id with a fraction', '{"id":1.5,"method":"Page.enable"}', -32_600],
    ['nothing', '', -32_700],
    ['null', 'null', -32_600],
  ])('answers %s itself', (_what, text, code) => {
    expect(checkText(policy, text)).toMatchObject({ kind: 'answer', answer: { error: { code } } });
  });

  it('repeats nothing long of what a client sent', () => {
    const long = 'x'.repeat(1_000_000);
    for (const sent of [
      { id: long, method: 'Browser.crash' },
      { id: 1, sessionId: long, method: 'Browser.crash' },
      { id: 1, sessionId: { long }, method: 'Browser.crash' },
    ])
      expect(JSON.stringify(checkText(policy, JSON.stringify(sent))).length).toBeLessThan(300);
    const denied = checkText(make('observe'), JSON.stringify({ id: 1, method: long }));
    expect(JSON.stringify(denied).length).toBeLessThan(300);
  });

  it.each([
    ['chrome://inducebrowsercrashforrealz', 'answer'],
    [' \tCHROME://uithreadhang', 'answer'],
    ['about:inducebrowsercrashforrealz', 'answer'],
    ['view-source:chrome://quit', 'answer'],
    [undefined, 'answer'],
    ['https://example.com/', 'pass'],
    ['http://127.0.0.1:1/#chrome://quit', 'pass'],
  ])('lets nobody navigate to %s as if a person had typed it: %s', (url, kind) => {
    expect(kindOf(policy, 'Page.navigate', { url, transitionType: 'address_bar' })).toBe(kind);
    expect(kindOf(policy, 'Page.navigate', { url, transitionType: 'link' })).toBe('pass');
    expect(kindOf(policy, 'Page.navigate', { url })).toBe('pass');
    expect(kindOf(make('full', { deny: ['X.y'] }), 'Page.navigate', { url, transitionType: 'address_bar' })).toBe(
      'pass',
    );
  });

  it('reads a message of megabytes as well', () => {
    const text = JSON.stringify({ params: { data: 'x'.repeat(4_000_000) }, id: 1, method: 'Browser.crash' });
    expect(checkText(policy, text).kind).toBe('answer');
  });

  it("keeps MCP's browser context, and lets others be disposed of", () => {
    const own = make('guarded');
    own.protectContext('MCP');
    expect(kindOf(own, 'Target.disposeBrowserContext', { browserContextId: 'MCP' })).toBe('answer');
    expect(kindOf(own, 'Target.disposeBrowserContext')).toBe('answer');
    expect(kindOf(own, 'Target.disposeBrowserContext', { browserContextId: 'other' })).toBe('pass');
    own.protectContext(undefined);
    expect(kindOf(own, 'Target.disposeBrowserContext', { browserContextId: 'MCP' })).toBe('pass');
  });

  it('allows by list what it denies, but no tunnel, and a denied method wins', () => {
    const policyWith = make('guarded', { allow: ['Browser.crash', 'Target.*', 'Page.*'], deny: ['Page.crash'] });
    expect(kindOf(policyWith, 'Browser.crash')).toBe('pass');
    expect(kindOf(policyWith, 'Target.setRemoteLocations')).toBe('pass');
    expect(kindOf(policyWith, 'Target.sendMessageToTarget')).toBe('answer');
    expect(kindOf(policyWith, 'Page.crash')).toBe('answer');
    expect(kindOf(policyWith, 'Page.navigate')).toBe('pass');
  });

  it('lets the routes be used that change something, unless their method is denied', () => {
    for (const route of ['new', 'activate', 'close'] as const) expect(policy.allowsRoute(route)).toBe(true);
    expect(make('guarded', { deny: ['Target.createTarget'] }).allowsRoute('new')).toBe(false);
    expect(make('full', { deny: ['Target.*'] }).allowsRoute('close')).toBe(false);
  });
});

describe('observe', () => {
  const policy = make('observe');
  const looking = [
    'Browser.getVersion',
    'Target.getTargets',
    'Target.getTargetInfo',
    'Target.setDiscoverTargets',
    'Target.detachFromTarget',
    'Page.enable',
    'Page.startScreencast',
    'Page.stopScreencast',
    'Page.screencastFrameAck',
    'Page.captureScreenshot',
    'Log.enable',
    'Network.enable',
  ];

  it.each(looking)('passes %s', (method) => {
    expect(kindOf(policy, method)).toBe('pass');
  });

  it.each([
    ...ordinary.filter((method) => !looking.includes(method)),
    ...hijacking,
    'Browser.close',
    'Runtime.evaluate',
    'page.enable',
    'constructor',
    '__proto__',
  ])('denies %s', (method) => {
    expect(kindOf(policy, method, { flatten: false })).toBe('answer');
  });

  it('attaches with flat sessions only', () => {
    expect(kindOf(policy, 'Target.attachToTarget', { targetId: 'A', flatten: true })).toBe('pass');
    expect(kindOf(policy, 'Target.attachToTarget', { targetId: 'A' })).toBe('answer');
  });

  it('changes nothing by route, and takes further methods by list', () => {
    for (const route of ['new', 'activate', 'close'] as const) expect(policy.allowsRoute(route)).toBe(false);
    const more = make('observe', { allow: ['DOM.*', 'Target.activateTarget'] });
    expect(kindOf(more, 'DOM.getDocument')).toBe('pass');
    expect(more.allowsRoute('activate')).toBe(true);
    expect(more.allowsRoute('close')).toBe(false);
  });
});
