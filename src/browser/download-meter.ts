import type { ArchiveRequest } from './binary-failure.ts';

type Fetch = typeof globalThis.fetch;

/** What the meter needs to know and whom it tells. */
export interface MeterOptions {
  readonly fetch: Fetch;
  /** False while nothing may be downloaded: an archive request is then refused instead of sent. */
  readonly mayDownload: boolean;
  readonly stallTimeoutMs: number;
  readonly onProgress: (request: ArchiveRequest) => void;
  readonly onReceived: () => void;
}

/** Four messages a second are enough for people, and cost nothing. */
const progressIntervalMs = 250;
const archivePath = /(\.tar\.gz|\.zip|\/api\/download\/\d[\d.]*)$/;
const versionInPath = /\/(?:chromium-v|api\/download\/)(\d[\d.]*\d)/;

/**
 * Stands in for the global `fetch` while the wrapper works: counts the bytes of browser archives, ends a request that
 * sends none for too long, and refuses archives when only looking is allowed.
 */
export class DownloadMeter {
  readonly #options: MeterOptions;
  #latest: ArchiveRequest | undefined;
  #hasRefused = false;

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  /** The latest archive request; a second one replaces the first, as the wrapper tries its mirror. */
  get latest(): ArchiveRequest | undefined {
    return this.#latest;
  }

  /** True once an archive was asked for although nothing may be downloaded. */
  get hasRefused(): boolean {
    return this.#hasRefused;
  }

  /** The replacement for the global `fetch`. */
  readonly fetch: Fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (!archivePath.test(url.pathname)) return this.#options.fetch(input, init);
    if (!this.#options.mayDownload) {
      this.#hasRefused = true;
      throw new Error('download not allowed now');
    }
    return this.#fetchArchive(url, init);
  };

  async #fetchArchive(url: URL, init: RequestInit | undefined): Promise<Response> {
    const request: ArchiveRequest = {
      host: url.host,
      version: versionInPath.exec(url.pathname)?.[1],
      receivedBytes: 0,
      totalBytes: undefined,
      status: undefined,
      contentType: undefined,
      stalled: false,
    };
    this.#latest = request;
    const stall = new AbortController();
    const timer = setTimeout(() => {
      request.stalled = true;
      stall.abort(new Error('no byte arrived in time'));
    }, this.#options.stallTimeoutMs);
    const signals = [stall.signal, init?.signal].filter((signal) => signal !== undefined && signal !== null);
    try {
      const response = await this.#options.fetch(url, { ...init, signal: AbortSignal.any(signals) });
      timer.refresh();
      request.status = response.status;
      request.contentType = response.headers.get('content-type') ?? undefined;
      if (!response.ok || response.body === null) {
        clearTimeout(timer);
        return response;
      }
      request.totalBytes = lengthOf(response);
      const { status, statusText, headers } = response;
      return new Response(this.#count(response.body, request, timer), { status, statusText, headers });
    } catch (cause) {
      clearTimeout(timer);
      throw cause;
    }
  }

  #count(
    body: NonNullable<Response['body']>,
    request: ArchiveRequest,
    timer: NodeJS.Timeout,
  ): NonNullable<Response['body']> {
    const { onProgress, onReceived } = this.#options;
    let toldAt = Date.now();
    onProgress(request);
    const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader();
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            clearTimeout(timer);
            onProgress(request);
            onReceived();
            controller.close();
            return;
          }
          timer.refresh();
          request.receivedBytes += value.byteLength;
          if (Date.now() - toldAt >= progressIntervalMs) {
            toldAt = Date.now();
            onProgress(request);
          }
          controller.enqueue(value);
        } catch (cause) {
          clearTimeout(timer);
          controller.error(cause);
        }
      },
      async cancel(reason) {
        clearTimeout(timer);
        await reader.cancel(reason);
      },
    });
  }
}

/** The announced length; with a content encoding it counts other bytes than those that arrive here. */
function lengthOf(response: Response): number | undefined {
  if (response.headers.has('content-encoding')) return undefined;
  const length = Number(response.headers.get('content-length') ?? Number.NaN);
  return Number.isSafeInteger(length) && length > 0 ? length : undefined;
}
