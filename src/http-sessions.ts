import { Bridge } from './bridge.ts';
import { type SessionSettings, readSessionSettings, settingsKeys } from './config/session-settings.ts';
import { scanObject } from './core/json-scan.ts';
import { type Logger, withFields } from './core/logger.ts';
import { isRecord } from './core/record.ts';
import { Redactor } from './core/redact.ts';
import type { Foundation } from './foundation.ts';
import { Channel } from './http/channel.ts';
import type { ClientBody } from './http/client-message.ts';
import { HttpSession } from './http/http-session.ts';
import type { Metrics } from './http/metrics.ts';
import type { HttpLodging, Lodgings } from './http-lodgings.ts';
import { negotiateVersion } from './relay/listing.ts';
import { type Registry, sessionHash } from './session/registry.ts';
import type { SessionEvents } from './session/session.ts';
import type { SessionRecord } from './session/store.ts';
import type { Surfaces } from './surfaces.ts';
import type { Overrides } from './upstream/overrides.ts';

/** Longer names are cut, since they only stand in status pages. */
const longestName = 100;
/** Shorter values would blank out ordinary words of a log. */
const shortestSecret = 8;

type Fields = Readonly<Record<string, unknown>>;

/** What sessions are opened with. */
export interface HttpSessionsParts {
  readonly foundation: Foundation;
  readonly lodgings: Lodgings;
  readonly registry: Registry<HttpSession>;
  readonly metrics: Metrics;
  /** Path below the endpoint where files are fetched; undefined where they are not. */
  readonly filesPath: string | undefined;
  /** Managed CDP; undefined where no session may have it. */
  readonly surfaces: Surfaces | undefined;
}

/** Opens the sessions of an HTTP server: puts together what each one needs. */
export class HttpSessions {
  readonly #parts: HttpSessionsParts;
  readonly #events: SessionEvents;

  constructor(parts: HttpSessionsParts) {
    const { metrics } = parts;
    this.#parts = parts;
    this.#events = {
      onReady: (durationMs) => {
        metrics.started(durationMs);
      },
      onStartFailed: (code) => {
        // A session that ends while its child starts is no failure.
        if (code !== 'closing') metrics.startFailed(code);
      },
      onLost: (reason) => {
        metrics.lost(reason);
      },
    };
  }

  /** Opens a session for a client that said `initialize`. Throws what refuses it, with nothing allocated. */
  open(owner: string, params: Fields): HttpSession {
    const { foundation, registry, metrics, lodgings } = this.#parts;
    const { settings } = foundation.setup;
    const asked = readSessionSettings(params['_meta'], settings.sessionSettings);
    const hasCdp = asked.cdp ?? settings.cdp;
    const id = registry.admit(owner);
    const redactor = new Redactor(foundation.parts.redactor);
    redactor.add(...secretsOf(asked));
    const logger = withFields(foundation.parts.logger, { sessionId: sessionHash(id) }, (text) => redactor.clean(text));
    const channel = this.#makeChannel(id, logger, () => void registry.end(session, 'abandoned'));
    let lodging: HttpLodging | undefined;
    const bridge = new Bridge({
      foundation,
      client: channel,
      logger,
      isEager: hasCdp && settings.cdpEager,
      headless: asked.headless ?? settings.headless,
      lodge: () => {
        lodging = this.#lodge(asked, logger, redactor);
        return lodging;
      },
      events: this.#events,
      describeHttp: () => this.#describe(id),
      surfaces: hasCdp ? this.#parts.surfaces : undefined,
      onCdpActivity: () => {
        registry.touch(session);
      },
    });
    const session: HttpSession = new HttpSession({
      id,
      owner,
      now: performance.now(),
      client: clientOf(params),
      channel,
      session: bridge.session,
      end: async () => {
        try {
          await bridge.close();
        } finally {
          await lodging?.release();
        }
      },
      folders: () => bridge.fileFolders,
      workspace: () => (lodging === undefined ? undefined : lodgings.folderOf(lodging.children)),
      passesRoots: settings.httpPassRoots,
    });
    registry.add(session, this.#recordOf(session, params));
    metrics.sessionOpened();
    return session;
  }

  /** The client's `initialize` as a child may see it: without roots, which would open the server's folders, and without our settings. */
  prepare(body: ClientBody): ClientBody {
    const fields = body.messages[0]?.fields ?? {};
    const params = isRecord(fields['params']) ? fields['params'] : {};
    const { capabilities, _meta: meta, ...others } = params;
    const passed = without(capabilities, this.#parts.foundation.setup.settings.httpPassRoots ? [] : ['roots']);
    const kept = without(meta, settingsKeys);
    const prepared = {
      ...others,
      ...(passed === undefined ? {} : { capabilities: passed }),
      ...(kept === undefined ? {} : { _meta: kept }),
    };
    const span = scanObject(body.line)?.get('params');
    if (span === undefined) return body;
    // The rest stays as it came: an id may be a number that does not survive being read.
    const { line } = body;
    const text = Buffer.from(JSON.stringify(prepared));
    return { ...body, line: Buffer.concat([line.subarray(0, span.start), text, line.subarray(span.end)]) };
  }

  #makeChannel(sessionId: string, logger: Logger, onAbandoned: () => void): Channel {
    const { foundation, metrics } = this.#parts;
    const { settings } = foundation.setup;
    return new Channel({
      sessionId,
      logger,
      streams: { keepAliveMs: settings.httpStreamKeepAliveMs, writeTimeoutMs: settings.httpWriteTimeoutMs },
      replay: { maxEvents: settings.httpReplayEvents, maxBytes: settings.httpReplayBytes },
      retryMs: settings.httpRetryMs,
      meter: {
        answered: (method, durationMs, isDelivered) => {
          if (method === 'tools/call') metrics.callDone(durationMs, isDelivered ? 'answered' : 'undelivered');
        },
        sent: (bytes) => {
          metrics.bytes('out', bytes);
        },
      },
      onAbandoned,
    });
  }

  #recordOf({ id, client }: HttpSession, params: Fields): SessionRecord {
    const at = new Date().toISOString();
    const { replicaId } = this.#parts.foundation.setup.settings;
    return {
      id,
      createdAt: at,
      lastUsedAt: at,
      state: 'open',
      client,
      protocolVersion: negotiateVersion(params['protocolVersion']),
      ...(replicaId === undefined ? {} : { replica: replicaId }),
    };
  }

  #lodge(asked: SessionSettings, logger: Logger, redactor: Redactor): HttpLodging {
    const { foundation, lodgings } = this.#parts;
    const { planner, settings } = foundation.setup;
    const { headless = settings.headless, cdp = settings.cdp, storageState, extraHTTPHeaders, ...context } = asked;
    const contextOptions = { ...context, ...(extraHTTPHeaders === undefined ? {} : { extraHTTPHeaders }) };
    const overrides: Overrides = storageState === undefined ? { contextOptions } : { contextOptions, storageState };
    const isDefault = headless === settings.headless && cdp === settings.cdp;
    const isPlain = isDefault && storageState === undefined && Object.keys(contextOptions).length === 0;
    return lodgings.lodge({
      logger,
      redactor,
      planner: isPlain ? planner : planner.with({ headless, overrides, debugging: cdp }),
      headless,
      isPlain,
      hasCdp: cdp,
    });
  }

  #describe(id: string): Fields {
    const { settings } = this.#parts.foundation.setup;
    return {
      session: sessionHash(id),
      replica: settings.replicaId ?? null,
      idleTtlMs: settings.httpSessionIdleTtlMs,
      unusedTtlMs: settings.httpSessionUnusedTtlMs,
      maxAgeMs: settings.httpSessionMaxAgeMs ?? null,
      sessionSettings: settings.sessionSettings,
      rootsPassed: settings.httpPassRoots,
      files: this.#parts.filesPath ?? null,
    };
  }
}

function clientOf(params: Fields): { readonly name: string; readonly version: string } {
  const info = isRecord(params['clientInfo']) ? params['clientInfo'] : {};
  const text = (value: unknown): string => (typeof value === 'string' ? value.slice(0, longestName) : 'unknown');
  return { name: text(info['name']), version: text(info['version']) };
}

function without(value: unknown, keys: readonly string[]): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)));
}

function secretsOf({ extraHTTPHeaders, storageState }: SessionSettings): string[] {
  const cookies = (storageState?.cookies ?? []).map(({ value }) => value);
  const stored = (storageState?.origins ?? []).flatMap(({ localStorage }) =>
    (localStorage ?? []).map(({ value }) => value),
  );
  return [...Object.values(extraHTTPHeaders ?? {}), ...cookies, ...stored].filter(
    ({ length }) => length >= shortestSecret,
  );
}
