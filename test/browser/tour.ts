import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../support/client.ts';

/** What a step may refer to. */
export interface TourPlace {
  /** The page server; the same one for both sides. */
  readonly url: string;
  /** The client's only root. */
  readonly root: string;
}

/** One call of the tour. */
export interface TourStep {
  readonly tool: string;
  readonly args: (place: TourPlace) => JsonObject;
}

function step(tool: string, args: JsonObject = {}): TourStep {
  return { tool, args: () => args };
}

function visit(page: string): TourStep {
  return { tool: 'browser_navigate', args: ({ url }) => ({ url: `${url}/${page}` }) };
}

function evaluate(code: string): TourStep {
  return step('browser_evaluate', { function: code });
}

/**
 * The browser shows its error page some time after the failure was told; a navigation before that is interrupted by it.
 * Until that page has a title of its own, upstream tells "Loading ..." for it.
 */
const reachErrorPage = step('browser_run_code_unsafe', {
  code: `async (page) => {
    await page.waitForURL("chrome-error://**");
    while ((await page.title()).startsWith("Loading ")) await page.waitForTimeout(20);
    return page.url();
  }`,
});

/** Puts what the tour reads into the root. */
export function prepareRoot(root: string): void {
  writeFileSync(join(root, 'upload.txt'), 'text to upload');
  writeFileSync(join(root, 'code.js'), 'async (page) => page.title()');
}

/** What a user does on pages; every tool of upstream's default capabilities is in it. */
export const pageTour: readonly TourStep[] = [
  visit('home'),
  step('browser_snapshot'),
  step('browser_find', { text: 'form' }),
  step('browser_find', { regex: '/no such/i' }),
  step('browser_click', { element: 'link', target: 'e4' }),
  step('browser_navigate_back'),
  visit('missing'),
  step('browser_navigate', { url: 'http://127.0.0.1:1/' }),
  reachErrorPage,
  step('browser_navigate', { url: 'file:///etc/hostname' }),
  visit('form'),
  step('browser_snapshot', { depth: 2 }),
  step('browser_snapshot', { boxes: true, target: '#form' }),
  step('browser_snapshot', { filename: 'kept.yml' }),
  step('browser_type', { element: 'name', target: 'input[name=name]', text: 'Ada \u2028 \u{1F600}' }),
  step('browser_type', { element: 'name', target: 'textarea', text: 'Grace', slowly: true }),
  step('browser_fill_form', {
    fields: [
      { name: 'note', target: 'textarea', type: 'textbox', value: 'two\nlines' },
      { name: 'agree', target: 'input[name=agree]', type: 'checkbox', value: 'true' },
      { name: 'red', target: 'input[name=colour]', type: 'radio', value: 'true' },
      { name: 'level', target: 'input[name=level]', type: 'slider', value: '7' },
    ],
  }),
  step('browser_click', { element: 'send', target: 'button' }),
  step('browser_snapshot'),
  step('browser_click', { element: 'nothing', target: '#nothing' }),
  step('browser_click', { target: 'e9999' }),
  step('browser_click', { element: 'send' }),
  step('browser_no_such_tool', { any: 1 }),
  visit('select'),
  step('browser_select_option', { element: 'one', target: '#one', values: ['pear'] }),
  step('browser_select_option', { element: 'many', target: '#many', values: ['x', 'z'] }),
  step('browser_snapshot'),
  visit('hover'),
  step('browser_hover', { element: 'target', target: '#target' }),
  step('browser_click', { element: 'target', target: '#target', doubleClick: true }),
  step('browser_click', { element: 'target', target: '#target', button: 'right', modifiers: ['Shift'] }),
  step('browser_snapshot'),
  visit('keys'),
  step('browser_click', { element: 'text', target: '#text' }),
  step('browser_press_key', { key: 'ArrowLeft' }),
  step('browser_press_key', { key: 'a' }),
  step('browser_press_key', { key: 'NoSuchKey' }),
  step('browser_type', { target: '#text', text: 'sent', submit: true }),
  step('browser_snapshot'),
  visit('drag'),
  step('browser_drag', { startElement: 'source', startTarget: '#source', endElement: 'goal', endTarget: '#goal' }),
  step('browser_drop', { element: 'goal', target: '#goal', data: { text: 'dropped', 'text/plain': 'dropped' } }),
  step('browser_snapshot'),
  visit('dialog'),
  step('browser_click', { element: 'alert', target: '#alert' }),
  step('browser_snapshot'),
  step('browser_handle_dialog', { accept: true }),
  step('browser_click', { element: 'confirm', target: '#confirm' }),
  step('browser_handle_dialog', { accept: false }),
  step('browser_click', { element: 'prompt', target: '#prompt' }),
  step('browser_handle_dialog', { accept: true, promptText: 'somebody' }),
  step('browser_handle_dialog', { accept: true }),
  step('browser_snapshot'),
  visit('popup'),
  step('browser_click', { element: 'open', target: '#open' }),
  step('browser_tabs', { action: 'list' }),
  step('browser_tabs', { action: 'select', index: 1 }),
  step('browser_snapshot'),
  step('browser_tabs', { action: 'close' }),
  { tool: 'browser_tabs', args: ({ url }) => ({ action: 'new', url: `${url}/title` }) },
  step('browser_tabs', { action: 'close', index: 0 }),
  step('browser_tabs', { action: 'select', index: 7 }),
  visit('upload'),
  step('browser_file_upload', {}),
  step('browser_click', { element: 'file', target: '#file' }),
  { tool: 'browser_file_upload', args: ({ root }) => ({ paths: [join(root, 'upload.txt')] }) },
  step('browser_snapshot'),
  step('browser_click', { element: 'file', target: '#file' }),
  step('browser_file_upload', { paths: ['/etc/hostname'] }),
  step('browser_file_upload', {}),
  visit('title'),
  evaluate('() => document.title'),
  evaluate('() => ({ text: "\u2028", list: [1, null], far: 2 ** 60 })'),
  evaluate('() => { throw new Error("from the page"); }'),
  step('browser_evaluate', { element: 'mark', target: '#mark', function: '(element) => element.textContent' }),
  step('browser_evaluate', { function: '() => "kept"', filename: 'kept.json' }),
  step('browser_run_code_unsafe', { code: 'async (page) => { await page.click("#mark"); return page.title(); }' }),
  step('browser_run_code_unsafe', { filename: 'code.js' }),
  step('browser_run_code_unsafe', { code: 'async () => { throw new Error("from the code"); }' }),
  step('browser_wait_for', { text: 'Mark' }),
  step('browser_wait_for', { textGone: 'No such text' }),
  step('browser_wait_for', { time: 0.1 }),
  step('browser_resize', { width: 640, height: 480 }),
  step('browser_take_screenshot', { scale: 'css' }),
  step('browser_take_screenshot', { type: 'jpeg', scale: 'css', filename: 'kept.jpeg' }),
  step('browser_take_screenshot', { element: 'mark', target: '#mark', type: 'png', scale: 'device' }),
  step('browser_take_screenshot', { fullPage: true, scale: 'css', type: 'png' }),
  step('browser_take_screenshot', { type: 'bmp', scale: 'css' }),
  step('browser_emulate_media', { colorScheme: 'dark', media: 'print' }),
  evaluate('() => matchMedia("(prefers-color-scheme: dark)").matches'),
  visit('home'),
  evaluate('async () => (await fetch("/title")).status'),
  evaluate('async () => (await fetch("/slow?ms=5", { method: "POST", body: "sent" })).text()'),
  step('browser_network_requests', { static: false }),
  step('browser_network_requests', { static: true, filter: 'home' }),
  step('browser_network_request', { index: 2 }),
  step('browser_network_request', { index: 3, part: 'request-body' }),
  step('browser_network_request', { index: 99 }),
  visit('missing'),
  step('browser_network_requests', { static: false }),
  visit('console'),
  step('browser_wait_for', { text: 'done' }),
  step('browser_console_messages', { level: 'debug' }),
  step('browser_console_messages', { level: 'error' }),
  step('browser_console_messages', { level: 'info', all: true, filename: 'kept.log' }),
];

/** Tools that no tour calls, and why. */
export const unvisited: Readonly<Record<string, string>> = {
  browser_annotate: 'waits for a person who draws in a window',
};

/** The tools behind capabilities that are off by default. */
export const capabilityTour: readonly TourStep[] = [
  visit('storage'),
  step('browser_get_config'),
  step('browser_start_tracing'),
  step('browser_cookie_list'),
  step('browser_cookie_get', { name: 'visits' }),
  step('browser_cookie_set', { name: 'kept', value: 'yes', path: '/', httpOnly: true, sameSite: 'Lax' }),
  step('browser_cookie_list', { path: '/' }),
  step('browser_localstorage_list'),
  step('browser_localstorage_set', { key: 'kept', value: 'yes' }),
  step('browser_localstorage_get', { key: 'kept' }),
  step('browser_localstorage_get', { key: 'missing' }),
  step('browser_sessionstorage_set', { key: 'kept', value: 'session' }),
  step('browser_sessionstorage_get', { key: 'kept' }),
  step('browser_sessionstorage_list'),
  step('browser_storage_state', { filename: 'state.json' }),
  step('browser_cookie_delete', { name: 'kept' }),
  step('browser_cookie_clear'),
  step('browser_localstorage_delete', { key: 'kept' }),
  step('browser_localstorage_clear'),
  step('browser_sessionstorage_delete', { key: 'kept' }),
  step('browser_sessionstorage_clear'),
  step('browser_set_storage_state', { filename: 'state.json' }),
  step('browser_cookie_list'),
  step('browser_stop_tracing'),
  step('browser_resume', { step: true }),
  step('browser_start_recording'),
  step('browser_stop_recording'),
  step('browser_start_video', {}),
  step('browser_video_chapter', { title: 'a' }),
  step('browser_video_show_actions', {}),
  step('browser_video_hide_actions', {}),
  step('browser_stop_video', {}),
  visit('form'),
  step('browser_pdf_save'),
  step('browser_pdf_save', { filename: 'kept.pdf' }),
  step('browser_highlight', { element: 'form', target: '#form', style: 'outline: 2px dashed red' }),
  step('browser_hide_highlight', { element: 'form', target: '#form' }),
  step('browser_generate_locator', { element: 'send', target: 'button' }),
  step('browser_verify_element_visible', { role: 'button', accessibleName: 'Send' }),
  step('browser_verify_text_visible', { text: 'Agree' }),
  step('browser_verify_text_visible', { text: 'No such text' }),
  step('browser_verify_list_visible', { element: 'form', target: '#form', items: ['Name', 'Note'] }),
  step('browser_verify_value', { type: 'checkbox', element: 'agree', target: 'input[name=agree]', value: 'false' }),
  visit('hover'),
  step('browser_mouse_move_xy', { x: 30, y: 20 }),
  step('browser_mouse_click_xy', { x: 30, y: 20 }),
  step('browser_mouse_down', { button: 'left' }),
  step('browser_mouse_up', {}),
  step('browser_mouse_drag_xy', { startX: 30, startY: 20, endX: 60, endY: 30 }),
  step('browser_mouse_wheel', { deltaX: 0, deltaY: 50 }),
  step('browser_snapshot'),
  step('browser_route', { pattern: '**/routed', status: 203, body: '{"a":1}', contentType: 'application/json' }),
  step('browser_route_list'),
  evaluate('async () => (await fetch("/routed")).status'),
  step('browser_unroute', { pattern: '**/routed' }),
  step('browser_network_state_set', { state: 'offline' }),
  evaluate('() => navigator.onLine'),
  step('browser_network_state_set', { state: 'online' }),
  visit('home'),
];

/** The end of the browser, what answers then, and the one that takes its place. */
export const closingTour: readonly TourStep[] = [
  step('browser_close'),
  step('browser_close'),
  step('browser_tabs', { action: 'list' }),
  visit('home'),
  step('browser_snapshot'),
  step('browser_close'),
];
