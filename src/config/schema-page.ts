import * as z from 'zod/mini';
import { options, settingsSchema } from './options.ts';
import { defaultText } from './reference.ts';

/**
 * `docs/reference/config.schema.json`: the config file for editors. In a file of its own, since the bundler puts a third
 * of zod into every start otherwise (54 instead of 33 KB).
 */
export function configSchema(): Record<string, unknown> {
  const generated = z.toJSONSchema(settingsSchema(), { io: 'input' });
  const properties: Record<string, unknown> = {
    $schema: { type: 'string', description: 'Where this schema is found, for editors.' },
  };
  for (const option of options) {
    if (option.notInFile === true) continue;
    const unset = option.default === undefined ? ` Without it: ${defaultText(option)}.` : '';
    properties[option.name] = {
      description: `${option.description}${unset}`.replaceAll('`', ''),
      ...Object(generated.properties?.[option.name]),
    };
  }
  return {
    $schema: generated.$schema,
    title: 'Config file of cloakbrowser-mcp',
    description: 'The file that --config-file names. A flag or an environment variable wins over it.',
    type: 'object',
    properties,
    additionalProperties: false,
  };
}
