import { describe, expect, it } from 'vitest';

import { Refusal } from '../../../src/cdp/answers.ts';
import { rewrite } from '../../../src/cdp/discovery.ts';

const rewriting = {
  address: { scheme: 'https', host: 'cdp.example.org', port: 8443, path: '/a' },
  capability: 'CAP',
} as const;
const outer = 'wss://cdp.example.org:8443/a/cdp/CAP';
const inner = '127.0.0.1:41000';

function read(value: unknown): unknown {
  return JSON.parse(rewrite(Buffer.from(JSON.stringify(value)), rewriting));
}

describe('an answer of the browser', () => {
  it('leads to the outer address, whatever host it was written for', () => {
    for (const host of [inner, 'localhost:41000', '[::1]:41000', 'other.example'])
      expect(read({ webSocketDebuggerUrl: `ws://${host}/devtools/browser/b-1` })).toEqual({
        webSocketDebuggerUrl: `${outer}/devtools/browser/b-1`,
      });
  });

  it('keeps everything else, though a page may have the inner address as its own', () => {
    const page = {
      id: 'P',
      type: 'page',
      url: `http://${inner}/devtools/page/P?ws=${inner}/devtools/page/P`,
      title: `ws://${inner}/devtools/page/P \u2028 "quoted" \\ ä 😀 </script>`,
      faviconUrl: `http://${inner}/favicon.ico`,
      description: '',
      parentId: 'Q',
    };
    const webSocketDebuggerUrl = `ws://${inner}/devtools/page/P`;
    const devtoolsFrontendUrl = `https://frontend.example/inspector.html?ws=${inner}/devtools/page/P`;
    expect(read([{ ...page, devtoolsFrontendUrl, webSocketDebuggerUrl }, page])).toEqual([
      { ...page, webSocketDebuggerUrl: `${outer}/devtools/page/P` },
      page,
    ]);
    expect(read([])).toEqual([]);
  });

  it('takes nothing but the path from the browser', () => {
    const from = 'ws://user:pass@127.0.0.1:41000/devtools/page/P?token=1#x';
    expect(read({ webSocketDebuggerUrl: from })).toEqual({ webSocketDebuggerUrl: `${outer}/devtools/page/P` });
  });

  it.each([
    ['no JSON', '<html>'],
    ['cut off', '[{"id":"P"'],
    ['empty', ''],
    ['null', 'null'],
    ['a text', '"x"'],
    ['a list of something else', '[1]'],
    ['a list of lists', '[[]]'],
    ['an address that is none', '{"webSocketDebuggerUrl":"/devtools/page/P"}'],
    ['an address that is no text', '{"webSocketDebuggerUrl":{}}'],
    ['an address elsewhere', '{"webSocketDebuggerUrl":"ws://127.0.0.1:1/json/version"}'],
    ['an address that climbs out', '{"webSocketDebuggerUrl":"ws://127.0.0.1:1/devtools/../x"}'],
  ])('that is %s is not passed on', (_name, text) => {
    expect(() => rewrite(Buffer.from(text), rewriting)).toThrow(Refusal);
    expect(() => rewrite(Buffer.from(text), rewriting)).toThrow('not understood');
  });
});
