import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callText, callTool, resultText } from '../support/browser-bed.ts';
import { childrenOf, evaluate, startBrowserServer } from '../support/browser-server.ts';
import { initializeBody } from '../support/http-exchange.ts';
import type { HttpClient, HttpServer } from '../support/http-server.ts';
import { startPageServer, type PageServer } from '../support/page-server.ts';
import { Testbed } from '../support/testbed.ts';
import { waitUntil } from '../support/waiting.ts';

let testbed: Testbed;
let pages: PageServer;
/** Sends whoever comes on to the endpoint, with method and body. */
let redirector: Server;
let server: HttpServer;
/** Its browser shows the attacker's page. */
let client: HttpClient;
/** Somebody else's session. */
let victim: HttpClient;

beforeAll(async () => {
  [testbed, pages] = await Promise.all([Testbed.make(), startPageServer()]);
  server = await startBrowserServer(testbed);
  [client, victim] = await Promise.all([server.open(), server.open()]);
  redirector = createServer((_request, response) => {
    const open = { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*' };
    response.writeHead(307, { location: server.url, ...open }).end();
  });
  await new Promise<void>((resolve) => redirector.listen(0, '127.0.0.1', resolve));
});

afterAll(async () => {
  redirector.close();
  await testbed.close();
  await pages.close();
});

function portOf({ address }: { address: () => AddressInfo | string | null }): number {
  return (address() as AddressInfo).port;
}

/** What the attacks may use; the page is told even what it cannot know. */
function prelude(): string {
  const { origin } = new URL(server.url);
  const values = {
    endpoint: server.url,
    origin,
    redirect: `http://127.0.0.1:${portOf({ address: () => redirector.address() })}/`,
    initialize: JSON.stringify(initializeBody()),
    sessionId: victim.id,
    ping: JSON.stringify({ jsonrpc: '2.0', id: 'attack', method: 'ping' }),
  };
  const constants = Object.entries(values).map(([name, value]) => `const ${name} = ${JSON.stringify(value)};`);
  return `${constants.join('\n')}
    const accept = 'application/json, text/event-stream';
    const read = async (response) => response.type + ' ' + response.status + ' ' + (await response.text());
    const framed = (html) => new Promise((resolve) => {
      addEventListener('message', ({ data }) => resolve(data), { once: true });
      const frame = document.createElement('iframe');
      frame.sandbox = 'allow-scripts allow-forms';
      frame.srcdoc = html;
      document.body.append(frame);
    });
    const submitted = (make) => new Promise((resolve) => {
      const frame = document.createElement('iframe');
      frame.name = 'target';
      document.body.append(frame);
      const form = document.createElement('form');
      form.target = 'target';
      make(form);
      document.body.append(form);
      form.submit();
      frame.onload = () => resolve('shown ' + (frame.contentDocument?.body.innerText ?? 'nothing readable'));
    });`;
}

/** Runs code in the attacker's page; what it throws is part of the result. */
async function attack(code: string): Promise<string> {
  const result = await evaluate(
    client,
    `async () => {
      ${prelude()}
      try {
        return await (async () => { ${code} })();
      } catch (failure) {
        return 'failed: ' + failure;
      }
    }`,
  );
  return String(result);
}

/** What there would be more of after an attack that got through. */
async function opened(): Promise<unknown> {
  return [await server.metric('sessions_opened_total'), (await server.status()).sessions.length, childrenOf(server)];
}

const posted = (init: string): string =>
  `return read(await fetch(endpoint, { method: 'POST', body: initialize, ${init} }));`;

/** A form whose one field reads as JSON when it is sent as text. */
const jsonForm = `return submitted((form) => {
    form.method = 'POST';
    form.enctype = 'text/plain';
    form.action = endpoint;
    const field = document.createElement('input');
    field.name = initialize.slice(0, -1) + ',"x":"';
    field.value = '"}';
    form.append(field);
});`;

const attacks: readonly (readonly [how: string, code: string, expected: RegExp])[] = [
  ['fetch() of text', posted(''), /^failed: TypeError: Failed to fetch$/],
  ['fetch() of text without CORS', posted("mode: 'no-cors'"), /^opaque 0 $/],
  [
    'fetch() of text without CORS and referrer',
    posted("mode: 'no-cors', referrerPolicy: 'no-referrer'"),
    /^opaque 0 $/,
  ],
  [
    'fetch() of JSON',
    posted("headers: { 'content-type': 'application/json', accept }"),
    /^failed: TypeError: Failed to fetch$/,
  ],
  [
    'fetch() with credentials',
    posted("credentials: 'include', headers: { accept }"),
    /^failed: TypeError: Failed to fetch$/,
  ],
  [
    'fetch() that is redirected to it',
    posted('headers: { accept }').replace('endpoint', 'redirect'),
    /^failed: TypeError: Failed to fetch$/,
  ],
  [
    "fetch() with another session's id",
    "return read(await fetch(endpoint, { method: 'POST', body: ping, headers: { 'mcp-session-id': sessionId, accept } }));",
    /^failed: TypeError: Failed to fetch$/,
  ],
  [
    'fetch() that would end another session',
    "return read(await fetch(endpoint, { method: 'DELETE', headers: { 'mcp-session-id': sessionId } }));",
    /^failed: TypeError: Failed to fetch$/,
  ],
  [
    'fetch() from a page without an origin',
    `return framed("<script>fetch(" + JSON.stringify(endpoint) + ", { method: 'POST', body: " +
      JSON.stringify(initialize) + " }).then((response) => response.text()).then((text) => 'read ' + text, String)" +
      ".then((result) => parent.postMessage(result, '*'))</" + "script>");`,
    /TypeError/,
  ],
  [
    'an XMLHttpRequest',
    `return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open('POST', endpoint);
      request.setRequestHeader('content-type', 'text/plain');
      request.onloadend = () => resolve('done ' + request.status + ' ' + request.responseText);
      request.send(initialize);
    });`,
    /^done 0 $/,
  ],
  [
    'an EventSource',
    `return new Promise((resolve) => {
      const source = new EventSource(endpoint);
      source.onopen = () => resolve('opened');
      source.onerror = () => resolve('refused');
    });`,
    /^refused$/,
  ],
  [
    'a WebSocket',
    `return new Promise((resolve) => {
      const socket = new WebSocket(endpoint.replace('http', 'ws'));
      socket.onopen = () => resolve('opened');
      socket.onerror = () => resolve('refused');
    });`,
    /^refused$/,
  ],
  ['a beacon', "return 'sent ' + navigator.sendBeacon(endpoint, initialize);", /^sent true$/],
  ['a form with text that is JSON', jsonForm, /^shown nothing readable$/],
  [
    'the same from a page that hides its origin',
    `const meta = document.createElement('meta');
    meta.name = 'referrer';
    meta.content = 'no-referrer';
    document.head.append(meta);
    ${jsonForm}`,
    /^shown nothing readable$/,
  ],
  [
    'a form that is redirected to it',
    "return submitted((form) => { form.method = 'POST'; form.action = redirect; });",
    /^shown nothing readable$/,
  ],
];

/** Attacks from a page of another site; all from one of the same site, which the port does not change. */
const fromElsewhere = attacks.filter(([how]) => /text$|of JSON|WebSocket|beacon|form with/.test(how));

describe("a page in a session's browser", () => {
  async function expectRefused(page: string, code: string, expected: RegExp, reason: string): Promise<void> {
    await callText(client, 'browser_navigate', { url: page });
    const [before, refused] = [await opened(), await server.metric('refusals_total', reason)];
    const result = await attack(code);
    expect(result).toMatch(expected);
    // It did arrive, and was refused for where it came from, whatever else is wrong with it.
    await waitUntil(reason, async () => (await server.metric('refusals_total', reason)) > refused || undefined);
    expect(await opened()).toEqual(before);
    expect(await victim.post({ id: 1, method: 'ping' })).toBe(200);
  }

  test.each(attacks)('opens no session by %s, and reads nothing', async (_how, code, expected) => {
    await expectRefused(`${pages.url}/home`, code, expected, 'origin_refused');
  });

  test.each(fromElsewhere)('from another site opens no session by %s', async (_how, code, expected) => {
    await expectRefused(`${pages.url.replace('127.0.0.1', 'localhost')}/home`, code, expected, 'origin_refused');
  });

  test('opens no session by the way of a link, which tells no origin', async () => {
    const code = 'return submitted((form) => { form.action = endpoint; });';
    await expectRefused(`${pages.url}/home`, code, /^shown nothing readable$/, 'session_missing');
  });

  test.each(['/status', '/metrics', '/readyz', '/healthz', '/mcp'])('reads nothing of %s', async (path) => {
    await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
    const code = `const tries = [
        fetch(origin + ${JSON.stringify(path)}).then(read),
        fetch(origin + ${JSON.stringify(path)}, { mode: 'no-cors' }).then(read),
        new Promise((resolve) => {
          const frame = document.createElement('iframe');
          frame.src = origin + ${JSON.stringify(path)};
          frame.onload = () => resolve('frame ' + (frame.contentDocument?.body.innerText ?? 'unreadable'));
          document.body.append(frame);
        }),
        new Promise((resolve) => {
          const script = document.createElement('script');
          script.src = origin + ${JSON.stringify(path)};
          script.onload = () => resolve('script ran');
          script.onerror = () => resolve('script refused');
          document.body.append(script);
        }),
      ];
      const results = await Promise.allSettled(tries);
      return results.map(({ value, reason }) => value ?? String(reason)).join('|');`;
    const result = await attack(code);
    expect(result).toMatch(/^TypeError: Failed to fetch\|opaque 0 \|frame unreadable\|script (?:ran|refused)$/);
  });
});

test('a page that leads its own tab to the endpoint opens no session either', async () => {
  const before = await opened();
  await callTool(client, 'browser_navigate', { url: server.url });
  expect(resultText(await callTool(client, 'browser_snapshot'))).toContain('session_missing');
  await callText(client, 'browser_navigate', { url: `${pages.url}/home` });
  await callText(client, 'browser_evaluate', {
    function: `() => { ${prelude()} setTimeout(() => { location.href = endpoint; }); }`,
  });
  await callText(client, 'browser_wait_for', { text: 'session_missing' });
  expect(await opened()).toEqual(before);
});
