import { readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { listEntries } from '../support/folders.ts';

/** Where one side works; its paths are its own. */
export interface Side {
  readonly name: string;
  readonly root: string;
  /** Its temporary folder. */
  readonly tmp: string;
  /** Its configuration file. */
  readonly config: string;
}

/** Everything in which two equal runs may differ. What is not in this table is compared as it is. */
const volatileValues: readonly { readonly what: string; readonly pattern: RegExp; readonly instead: string }[] = [
  { what: 'the time in names of files', pattern: /\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z/g, instead: '<time>' },
  { what: 'the time in names of traces', pattern: /trace-\d{13}/g, instead: 'trace-<time>' },
  { what: 'the time since the start of the page in console logs', pattern: /\[ *\d+ms\]/g, instead: '[<duration>]' },
  { what: 'the duration of a request', pattern: /\b\d+(\.\d+)?ms\b/g, instead: '<duration>' },
  { what: "the server's clock in answers", pattern: /\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, instead: '<date>' },
];

/** A text with the volatile values replaced. */
export function steady(text: string, side: Side): string {
  const owned = text.replaceAll(side.root, '<root>').replaceAll(side.config, '<config>').replaceAll(side.tmp, '<tmp>');
  return volatileValues.reduce((all, { pattern, instead }) => all.replace(pattern, instead), owned);
}

interface Size {
  readonly width: number;
  readonly height: number;
}

/** The size of a PNG, or of a JPEG in its first frame header. */
function imageSize(bytes: Buffer): Size & { readonly format: string } {
  if (bytes.readUInt32BE(0) === 0x89504e47) {
    return { format: 'png', width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  }
  if (bytes.readUInt16BE(0) !== 0xffd8) throw new Error(`Not an image: ${bytes.subarray(0, 8).toString('hex')}`);
  for (let at = 2; at < bytes.length; at += 2 + bytes.readUInt16BE(at + 2)) {
    const isFrame = (bytes.readUInt16BE(at) & 0xfffc) === 0xffc0;
    if (isFrame) return { format: 'jpeg', width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
  }
  throw new Error('A JPEG without a frame');
}

/** A value with the volatile values replaced. The bytes of images are their format and size: pixels may be blended differently. */
export function steadyValue(value: unknown, side: Side): unknown {
  if (typeof value === 'string') return steady(value, side);
  if (Array.isArray(value)) return value.map((item) => steadyValue(item, side));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, steadyValue(item, side)] as const);
  const isImage = 'type' in value && value.type === 'image' && 'data' in value && typeof value.data === 'string';
  const image = isImage ? { data: imageSize(Buffer.from(String(value.data), 'base64')) } : {};
  return { ...Object.fromEntries(entries), ...image };
}

/** Documents and videos hold the time they were made at; their first bytes tell the kind. */
function contentOf(path: string, side: Side): unknown {
  const bytes = readFileSync(path);
  if (['.png', '.jpeg'].includes(extname(path))) return imageSize(bytes);
  if (['.pdf', '.webm'].includes(extname(path))) return bytes.subarray(0, 4).toString('latin1');
  return steady(bytes.toString('utf8'), side).split('\n');
}

/** The files that a side wrote, by their steady names; of one kind in the order of their time. A trace records times only. */
export async function writtenFiles(side: Side): Promise<{ readonly name: string; readonly content: unknown }[]> {
  const names = (await listEntries(side.root)).filter((name) => !name.includes('/traces'));
  const files = names.filter((name) => statSync(join(side.root, name)).isFile());
  return files.map((name) => ({ name: steady(name, side), content: contentOf(join(side.root, name), side) }));
}
