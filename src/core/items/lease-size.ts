/**
 * How much work a worker takes with one lease. Rows are planned small; a lease takes a run of
 * adjacent ones that should last about `targetMs`, judged from what earlier ones took. Quick
 * handlers then share one commit between many chunks, and slow ones never hold more than they
 * can soon begin.
 */

export interface LeaseSizeLimits {
  /** How long one lease's work should last. */
  readonly targetMs: number;
  /** Bounds the items held ahead, and so a worker's memory and what a crash repeats. */
  readonly itemsMax: number;
}

/** Items that were done lately, and the time that they took; 0 of both while nothing is known. */
export interface Speed {
  readonly items: number;
  readonly ms: number;
}

export const UNKNOWN_SPEED: Speed = { items: 0, ms: 0 };

/** How much of what was known stays with each observation: the last handful of leases decide. */
const KEPT = 0.7;
/** As if they had taken at least this: a clock may be too coarse to see it. */
const OBSERVED_MS_MIN = 0.1;

/** Both are summed up, so that a short observation counts for as little as it tells. */
export function observeSpeed(speed: Speed, items: number, tookMs: number): Speed {
  if (items <= 0 || tookMs < 0) return speed;
  const ms = Math.max(tookMs, OBSERVED_MS_MIN);
  return { items: KEPT * speed.items + items, ms: KEPT * speed.ms + ms };
}

export function computeItemsPerMs({ items, ms }: Speed): number {
  return ms === 0 ? 0 : items / ms;
}

/** How many items to hold, at least one per slot so that a quick start is not throttled. */
export function computeItemsAhead(speed: Speed, slots: number, limits: LeaseSizeLimits): number {
  const wanted = Math.ceil(computeItemsPerMs(speed) * limits.targetMs);
  return Math.max(1, Math.min(limits.itemsMax, Math.max(wanted, slots)));
}
