import { register } from 'node:module';

/**
 * A preload for the conformance tool on Node 20: the tool imports `globSync` from `fs`, which came with Node 22, and then
 * cannot be linked. Only its command `tier-check` calls it, so here it may throw. Nothing else of the tool is touched.
 */
const fs = encodeURIComponent(`export * from 'node:fs';
export function globSync() { throw new Error('This Node has no globSync'); }`);

const hooks = encodeURIComponent(`export function resolve(specifier, context, next) {
  const isTool = context.parentURL?.endsWith('/@modelcontextprotocol/conformance/dist/index.js');
  return isTool && specifier === 'fs' ? { url: ${JSON.stringify(`data:text/javascript,${fs}`)}, shortCircuit: true } : next(specifier, context);
}`);

register(`data:text/javascript,${hooks}`);
