import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { basename, extname, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';

import { BridgeError } from '../core/errors.ts';
import type { HttpSession } from './http-session.ts';

/** Types of what upstream writes; everything else is bytes, and nothing is for a browser to run. */
const types: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.pdf': 'application/pdf',
  '.webm': 'video/webm',
  '.zip': 'application/zip',
  '.json': 'application/json',
  '.md': 'text/plain; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.log': 'text/plain; charset=utf-8',
  '.yml': 'text/plain; charset=utf-8',
};

/** Opening a pipe that nobody writes to would hold a thread of ours for ever; what became a link meanwhile is not followed. */
const openFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/** Files of a session's own working and output folders, for a client that does not share a disk with the server. */
export class FileRoute {
  readonly #writeTimeoutMs: number;

  /** `writeTimeoutMs`: a client that takes nothing for so long is cut off. */
  constructor(writeTimeoutMs: number) {
    this.#writeTimeoutMs = writeTimeoutMs;
  }

  /** Sends the file of this path below one of the session's folders. Throws `file_unknown`. */
  async handle(res: ServerResponse, session: HttpSession, encodedPath: string): Promise<void> {
    const path = decode(encodedPath);
    const file = path === undefined ? undefined : await openFirst(session.folders, path);
    if (path === undefined || file === undefined) {
      throw new BridgeError('file_unknown', 'The session has no such file.', {
        hint: 'Give the path as the result of a call names it, without what leads out of the working folder.',
      });
    }
    session.hold(res);
    try {
      await this.#send(res, file, path);
    } finally {
      await file.close();
    }
  }

  async #send(res: ServerResponse, file: FileHandle, path: string): Promise<void> {
    const { size } = await file.stat();
    res.writeHead(200, {
      'content-type': types[extname(path).toLowerCase()] ?? 'application/octet-stream',
      'content-length': size,
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(basename(path))}`,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
    });
    if (res.req.method === 'HEAD' || size === 0) {
      res.end();
      return;
    }
    // Started anew by Node with each byte that the client takes.
    res.setTimeout(this.#writeTimeoutMs, () => res.destroy());
    // Only as much as was announced: the file may still grow.
    const content = file.createReadStream({ start: 0, end: size - 1 });
    // A client that goes away in the middle is no failure of ours.
    await pipeline(content, res).catch(() => undefined);
    // A file that became shorter meanwhile: the client would wait for the rest that was announced.
    if (content.bytesRead < size) res.req.socket.destroy();
  }
}

function decode(encodedPath: string): string | undefined {
  try {
    const path = decodeURIComponent(encodedPath);
    const isPlain =
      path !== '' && !/[\0\\]/.test(path) && path.split('/').every((name) => name !== '' && name !== '..');
    return isPlain ? path : undefined;
  } catch {
    return undefined; // Not an encoded text.
  }
}

/** The file in the first of the folders that has it. */
async function openFirst(folders: readonly string[], path: string): Promise<FileHandle | undefined> {
  for (const folder of folders) {
    const file = await openBelow(folder, path);
    if (file !== undefined) return file;
  }
  return undefined;
}

/** Opens a regular file that really lies below the folder, whatever links there are on the way. */
async function openBelow(folder: string, path: string): Promise<FileHandle | undefined> {
  try {
    const root = await realpath(folder);
    const real = await realpath(join(root, path));
    if (!real.startsWith(root + sep)) return undefined;
    const file = await open(real, openFlags);
    if ((await file.stat()).isFile()) return file;
    await file.close();
    return undefined;
  } catch {
    return undefined; // Not there, or not ours to read: the client is told no more than that.
  }
}
