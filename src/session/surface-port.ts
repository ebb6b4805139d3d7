import type { SurfaceGeneration } from '../cdp/surface.ts';

export type { BrowserLoss, DebuggedBrowser } from '../cdp/surface.ts';

/** A second surface on the browser of a session, beside MCP. */
export interface Surface {
  /** Starts the generation's browser, proves that it is this child's, and publishes it; throws with everything undone. */
  open(generation: SurfaceGeneration, signal: AbortSignal): Promise<void>;
  /** Takes the generation's browser off at once; its address never works again. */
  withdraw(loss: { readonly generation: number; readonly code: string }): void;
  /** Takes everything off at once and lets nobody in any more; what is exclusive is given back by `close`. */
  stop(): void;
  /** Gives back what the session held. */
  close(): Promise<void>;
}
