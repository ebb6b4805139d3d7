import { mayHaveCdp } from './config/cdp-checks.ts';
import type { Settings } from './config/options.ts';
import type { Logger } from './core/logger.ts';
import type { Surfaces } from './surfaces.ts';

/** Makes managed CDP for a program. */
export type MakeSurfaces = (settings: Settings, logger: Logger, onRefused?: (reason: string) => void) => Surfaces;

/** Loads managed CDP where the settings ask for it or let clients ask for it, and nothing of it elsewhere. */
export async function loadSurfaces(settings: Settings): Promise<MakeSurfaces | undefined> {
  if (!mayHaveCdp(settings)) return undefined;
  const { Surfaces: Made } = await import('./surfaces.ts');
  return (...parts) => new Made(...parts);
}
