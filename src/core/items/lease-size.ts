/**
 * How much work a worker takes with one lease. Rows are planned small. A lease takes a run of
 * adjacent rows that should last about `targetMs`, estimated from earlier ones. With quick handlers
 * many chunks share one commit, and with slow ones a worker never holds more than it can start
 * soon.
 */

export interface LeaseSizeLimits {
  /** How long one lease's work should last. */
  readonly targetMs: number;
  /** Limits the items held ahead, and so a worker's memory and what a crash repeats. */
  readonly itemsMax: number;
}

/** Recently finished items, and the time that they took; both 0 while unknown. */
export interface Speed {
  readonly items: number;
  readonly ms: number;
}

export const UNKNOWN_SPEED: Speed = { items: 0, ms: 0 };

/** How much of the old estimate stays after each observation: the last few leases decide. */
const KEPT = 0.7;
/** The shortest observed time: a coarse clock may show 0. */
const OBSERVED_MS_MIN = 0.1;

/** Both numbers are summed up, so that a short observation has little weight. */
export function observeSpeed(speed: Speed, items: number, tookMs: number): Speed {
  if (items <= 0 || tookMs < 0) return speed;
  const ms = Math.max(tookMs, OBSERVED_MS_MIN);
  return { items: KEPT * speed.items + items, ms: KEPT * speed.ms + ms };
}

export function computeItemsPerMs({ items, ms }: Speed): number {
  return ms === 0 ? 0 : items / ms;
}

/** How many items to hold: at least one per slot, so that no slot starts empty. */
export function computeItemsAhead(speed: Speed, slots: number, limits: LeaseSizeLimits): number {
  const wanted = Math.ceil(computeItemsPerMs(speed) * limits.targetMs);
  return Math.max(1, Math.min(limits.itemsMax, Math.max(wanted, slots)));
}
