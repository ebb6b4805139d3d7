// @ts-check
/**
 * An upstream that answers at once, so that what is measured is the program in front of it. Members come in the order of
 * upstream's own answers (`result`, `jsonrpc`, `id`); the flags it gets are ignored. The tools: `echo` is tiny, `text` and
 * `image` have `bytes` bytes. With `prepared` a result is written from bytes that were made once; without, it is turned
 * into JSON and written as a string for each call, which is what upstream's SDK does and what most of its time goes to.
 */
import { echoResult, listResult } from './instant-answers.mjs';

/** @type {Map<string, {result: object, bytes: Buffer}>} */
const largeResults = new Map();

/**
 * @param {string} name
 * @param {number} size
 */
function largeResult(name, size) {
  const key = `${name} ${size}`;
  const known = largeResults.get(key);
  if (known !== undefined) return known;
  // Words and blanks for a text; for an image the letters of base64, which need no escape either.
  const [text, data] = ['some words of a snapshot, ', 'iVBORw0KGgoAAAANSUhEUgAA/+'].map((pattern) =>
    pattern.repeat(Math.ceil(size / pattern.length)).slice(0, size),
  );
  const content = name === 'text' ? { type: 'text', text } : { type: 'image', data, mimeType: 'image/png' };
  const result = { content: [content] };
  const made = { result, bytes: Buffer.from(`{"result":${JSON.stringify(result)}`) };
  largeResults.set(key, made);
  return made;
}

/** @param {{name: string, arguments?: {bytes?: number, prepared?: boolean}}} params */
function callResult({ name, arguments: given = {} }) {
  if (name !== 'text' && name !== 'image') return echoResult;
  const { result, bytes } = largeResult(name, given.bytes ?? 0);
  return given.prepared === true ? bytes : result;
}

/** @param {{method: string, params: any}} request */
function resultOf({ method, params }) {
  if (method === 'tools/call') return callResult(params);
  if (method === 'tools/list') return listResult;
  if (method !== 'initialize') return '{}';
  const { protocolVersion } = params;
  return JSON.stringify({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'Instant', version: '1.0.0' },
  });
}

/** @param {string} line */
function answer(line) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = resultOf({ method, params });
  const ending = `,"jsonrpc":"2.0","id":${JSON.stringify(id)}}\n`;
  if (typeof result === 'string') {
    process.stdout.write(`{"result":${result}${ending}`);
  } else if (Buffer.isBuffer(result)) {
    process.stdout.cork();
    process.stdout.write(result);
    process.stdout.write(ending);
    process.stdout.uncork();
  } else {
    process.stdout.write(`${JSON.stringify({ result, jsonrpc: '2.0', id })}\n`);
  }
}

let unfinished = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (/** @type {string} */ chunk) => {
  const lines = `${unfinished}${chunk}`.split('\n');
  unfinished = lines.pop() ?? '';
  for (const line of lines) answer(line);
});
// A client that went away breaks the pipe; there is nobody left to tell.
process.stdout.on('error', () => process.exit());
process.stdin.on('end', () => process.exit());
