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

export interface Speed {
  /** Items finished per millisecond; 0 while unknown. */
  readonly itemsPerMs: number;
}

export const UNKNOWN_SPEED: Speed = { itemsPerMs: 0 };

/** Weight of the newest observation: the last handful of leases decide. */
const SMOOTHING = 0.3;

export function observeSpeed(speed: Speed, items: number, elapsedMs: number): Speed {
  if (items <= 0 || elapsedMs <= 0) return speed;
  const observed = items / elapsedMs;
  if (speed.itemsPerMs === 0) return { itemsPerMs: observed };
  return { itemsPerMs: speed.itemsPerMs + SMOOTHING * (observed - speed.itemsPerMs) };
}

/** How many items to hold, at least one per slot so that a quick start is not throttled. */
export function computeItemsAhead(speed: Speed, slots: number, limits: LeaseSizeLimits): number {
  const wanted = Math.ceil(speed.itemsPerMs * limits.targetMs);
  return Math.max(1, Math.min(limits.itemsMax, Math.max(wanted, slots)));
}
