import { optionGroups } from './option.ts';
import { type Option, options } from './options.ts';
import { type UpstreamFlag, upstreamFlags } from './upstream-flags.ts';

/** Fits terminals of the usual 80 columns. */
const helpWidth = 80;
const helpIndent = 6;

function placeholderOf(option: Option): string {
  return option.value ?? option.form.placeholder;
}

/** The first spelling of the flag with its value. */
function flagUsage(option: Option): string {
  const flag = `--${option.flags[0] ?? ''}`;
  return option.form.kind === 'switch' ? `${flag}, --no-${flag.slice(2)}` : `${flag} <${placeholderOf(option)}>`;
}

/** The default of an option as text, or what holds without one. */
export function defaultText(option: Option): string {
  if (option.default === undefined) return option.unset ?? 'none';
  if (Array.isArray(option.default)) return option.default.length === 0 ? 'none' : option.default.join(', ');
  return typeof option.default === 'string' ? option.default : JSON.stringify(option.default);
}

function wrap(text: string, indent: number): string {
  const margin = ' '.repeat(indent);
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && indent + line.length + 1 + word.length > helpWidth) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.map((line) => margin + line).join('\n');
}

function optionHelp(option: Option): string {
  const variables = option.variables
    .map(({ name, isInverse }) => (isInverse === true ? `${name} (inverse)` : name))
    .join(', ');
  const other = option.flags.slice(1).map((flag) => ` Also --${flag}.`);
  const text = `${option.description}${other.join('')} Default: ${defaultText(option)}. Environment: ${variables}`;
  return `  ${flagUsage(option)}\n${wrap(text.replaceAll('`', ''), helpIndent)}`;
}

function upstreamUsage({ name, arity }: UpstreamFlag): string {
  return arity === 'none' ? `--${name}` : `--${name} <${arity === 'value' ? 'value' : 'values...'}>`;
}

function passedFlags(): UpstreamFlag[] {
  return upstreamFlags
    .filter(({ role }) => role === 'pass' || role === 'browser')
    .toSorted((left, right) => left.name.localeCompare(right.name));
}

/** The text of `--help`. */
export function helpText(): string {
  const groups = optionGroups.map((group) => {
    const members = options.filter((option) => option.group === group);
    return `${group}:\n${members.map(optionHelp).join('\n')}`;
  });
  return [
    'Usage: cloakbrowser-mcp [command] [options] [-- upstream options]',
    'Playwright MCP with the CloakBrowser Chromium, as a server on stdio or HTTP.',
    [
      'Commands:',
      '  serve                  serve MCP clients (the default)',
      '  doctor [--json]        check this computer and the settings',
      '  demo [url]             open a page through the server, show what happens',
      '  status [url] [--json]  ask a server over HTTP how it is',
    ].join('\n'),
    ...groups,
    `Other:\n  -h, --help       show this text\n  -V, --version    show the version`,
    `Passed on to Playwright MCP:\n${wrap(passedFlags().map(upstreamUsage).join(', '), 2)}`,
    wrap(
      'A flag wins over the environment, that over the config file. PLAYWRIGHT_MCP_* variables of the flags that are passed on work too.',
      0,
    ),
  ].join('\n\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows.map((row) => row.map(cell))];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function defaultCell(option: Option): string {
  return option.default === undefined || defaultText(option) === 'none'
    ? defaultText(option)
    : code(defaultText(option));
}

function optionRow(option: Option): string[] {
  const flags = option.flags.map((flag) => code(`--${flag}`)).join(', ');
  const variables = option.variables
    .map(({ name, isInverse }) => code(name) + (isInverse === true ? ' (inverse)' : ''))
    .join(', ');
  const key = option.notInFile === true ? 'not possible' : code(option.name);
  return [flags, variables, key, option.form.expects, defaultCell(option), option.description];
}

function roleRows(): string[][] {
  const named = (role: UpstreamFlag['role']): string =>
    upstreamFlags
      .filter((flag) => flag.role === role)
      .map((flag) => code(`--${flag.name}`))
      .join(', ');
  return [
    ['passed on unchanged', named('pass')],
    ['settings of the bridge, see above', named('own')],
    ['passed on with `--browser-engine playwright`, otherwise ignored with a warning', named('browser')],
    ["refused: they drive another browser than the bridge's", named('otherBrowser')],
    ['ignored with a warning: each session has a browser of its own', named('sharedBrowser')],
  ];
}

/** `docs/reference/options.md`. */
export function optionsPage(): string {
  const head = ['Flag', 'Environment', 'Config file', 'Value', 'Default', 'What it does'];
  const groups = optionGroups.map((group) => {
    const members = options.filter((option) => option.group === group);
    return `## ${group}\n\n${table(head, members.map(optionRow))}`;
  });
  return `${[
    '# Options',
    'Written from the code by `npm run docs`; do not edit.',
    'A flag wins over the environment, the environment over the file that `--config-file` names, the file over the default. Of several variables the one named first wins. Relative paths start at the working folder, in the config file at its own folder. The file is described by [config.schema.json](config.schema.json).',
    'Switches are `--headless`, `--headless false`, `--headless=false` or `--no-headless`; in the environment and in the file they are `true` or `false`. Variables that belong to upstream or to CloakBrowser (`PLAYWRIGHT_MCP_...`, `CLOAKBROWSER_...`) also take `1` and `0`, and count as unset when empty.',
    'A mistake on the command line ends the program with exit code 2. A mistake in the environment or in the file does not keep the server from starting: tools are listed, and browser calls are refused with the list of mistakes. Over Streamable HTTP every mistake ends the program with exit code 2, since a service must not run half configured.',
    ...groups,
    '## Flags of Playwright MCP',
    "Upstream's flags keep their names and meaning. What follows `--` is passed on as it is, for flags of other upstream versions; only flags that the bridge decides are refused there.",
    table(['What happens', 'Flags'], roleRows()),
    "`PLAYWRIGHT_MCP_*` variables of the flags that are passed on reach upstream as they are. Those of the others are kept from it; a warning names each that is set and is no setting of the bridge's.",
  ].join('\n\n')}\n`;
}
