import { App } from '../app.ts';
import type { HttpApp } from '../http-app.ts';
import type { Resolved } from '../config/resolve.ts';
import { loadSurfaces } from '../load-surfaces.ts';
import { currentHost } from './host.ts';
import { watchStop } from './stop.ts';

/** Keeps standard output for the protocol: whatever else is printed there, by any library, goes elsewhere. */
function guardStdout(print: (text: string) => void): void {
  process.stdout.write = (chunk: string | Uint8Array) => {
    print(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
    return true;
  };
}

/** Serves one client over stdio until it goes away or a signal comes. Returns the exit code. */
export async function serve(resolved: Resolved): Promise<number> {
  guardStdout((text) => {
    process.stderr.write(text);
  });
  let hasFailed = false;
  const running: { app?: App } = {};
  const watch = watchStop(
    (code) => {
      running.app?.force();
      process.exit(code);
    },
    (failure) => {
      hasFailed = true;
      running.app?.logger.error('program failed', { reason: failure.message });
    },
  );
  const app = new App({
    resolved,
    host: currentHost(),
    nodeVersion: process.versions.node,
    input: process.stdin,
    stop: watch.stop,
    makeSurfaces: await loadSurfaces(resolved.settings),
  });
  running.app = app;
  guardStdout((text) => {
    app.print(text);
  });
  const isClean = await app.serve(watch.signal);
  return isClean && !hasFailed ? 0 : 1;
}

/** Serves clients over Streamable HTTP until a signal comes. Returns the exit code. */
export async function serveHttp(resolved: Resolved): Promise<number> {
  const running: { app?: HttpApp } = {};
  let hasFailed = false;
  // Before anything is loaded: a signal that comes meanwhile must not be lost.
  const watch = watchStop(
    (code) => {
      running.app?.force();
      process.exit(code);
    },
    (failure) => {
      hasFailed = true;
      running.app?.logger.error('program failed', { reason: failure.message });
    },
    () => running.app?.reload(),
  );
  const startedAt = Date.now() / 1000;
  const { HttpApp: Program } = await import('../http-app.ts');
  const made = new Program({
    resolved,
    host: currentHost(),
    nodeVersion: process.versions.node,
    makeSurfaces: await loadSurfaces(resolved.settings),
    self: () => {
      const { user, system } = process.cpuUsage();
      return { memoryBytes: process.memoryUsage.rss(), cpuSeconds: (user + system) / 1e6, startedAt };
    },
  });
  running.app = made;
  guardStdout((text) => {
    made.print(text);
  });
  const code = await made.serve(watch.signal);
  return hasFailed ? Math.max(code, 1) : code;
}
