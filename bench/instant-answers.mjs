// @ts-check
/** What the programs that answer at once say. */

/** Upstream 0.0.83 lists 25 tools in 20 KB; the texts of a tool here are as long as the average there. */
const toolCount = 25;

/** @param {number} index */
function describeTool(index) {
  const text = (/** @type {string} */ about) => `${about} of the page that is open in the current tab of the browser`;
  return {
    name: ['echo', 'text', 'image'][index] ?? `browser_action_${index}`,
    description: text(`Acts on an element number ${index}`),
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        bytes: { type: 'number', description: text('Size of the answer, as if it were a part') },
        element: { type: 'string', description: text('Human-readable description of an element') },
        target: { type: 'string', description: text('Exact reference of an element in the snapshot') },
      },
      additionalProperties: false,
    },
    annotations: { title: `Act ${index}`, readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  };
}

/** The answer to tools/list. */
export const listResult = JSON.stringify({
  tools: Array.from({ length: toolCount }, (_, index) => describeTool(index)),
});
/** The answer to a call of `echo`. */
export const echoResult = '{"content":[{"type":"text","text":"ok"}]}';
