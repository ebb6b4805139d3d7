import type { ParsedFlags } from '../config/layers.ts';
import { httpGroup } from '../config/option.ts';
import { type SettingName, type Settings, options } from '../config/options.ts';

function flagOf(name: SettingName): string {
  const flag = options.find((option) => option.name === name)?.flags[0];
  if (flag === undefined) throw new TypeError(`the option ${name} has no flag`);
  return `--${flag}`;
}

function isForHttp(name: SettingName): boolean {
  return name === 'transport' || options.some((option) => option.name === name && option.group === httpGroup);
}

/**
 * The command line of a bridge over stdio that does what the user's own would, save for some settings: what the user gave
 * for those is left out, since lists add up, and so is what concerns HTTP.
 */
export function bridgeArguments(flags: ParsedFlags, changes: Readonly<Partial<Record<SettingName, string>>>): string[] {
  const kept = flags.given.filter(({ option }) => changes[option] === undefined && !isForHttp(option));
  return [
    '--transport=stdio',
    ...kept.map(({ option, value }) => `${flagOf(option)}=${value}`),
    ...Object.entries(changes).map(([name, value]) => `${flagOf(name as SettingName)}=${value}`),
    ...flags.upstream.flatMap(({ args }) => args),
    ...(flags.rest.length === 0 ? [] : ['--', ...flags.rest]),
  ];
}

/** Playwright sends pages on loopback through the proxy, too; this keeps a page of our own out of it. */
export function loopbackBypass({ proxyServer, proxyBypass }: Settings): { readonly proxyBypass?: string } {
  if (proxyServer === undefined) return {};
  return { proxyBypass: proxyBypass === undefined ? '127.0.0.1' : `${proxyBypass},127.0.0.1` };
}
