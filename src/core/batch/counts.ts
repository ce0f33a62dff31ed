/**
 * The conservation equation, Sluice's first promise: at every instant
 * `planned = succeeded + skipped + failed + cancelled + pending`.
 */

export interface Counts {
  readonly planned: number;
  readonly succeeded: number;
  readonly skipped: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly pending: number;
}

export const NO_ITEMS: Counts = {
  planned: 0,
  succeeded: 0,
  skipped: 0,
  failed: 0,
  cancelled: 0,
  pending: 0,
};

/** The change that new outcomes make: that many items leave `pending` for each of the three. */
export interface OutcomeDelta {
  readonly succeeded: number;
  readonly skipped: number;
  readonly failed: number;
}

export function isConserved(counts: Counts): boolean {
  const { planned, succeeded, skipped, failed, cancelled, pending } = counts;
  return pending >= 0 && planned === succeeded + skipped + failed + cancelled + pending;
}

export function planItems(counts: Counts, items: number): Counts {
  return { ...counts, planned: counts.planned + items, pending: counts.pending + items };
}

export function applyOutcomes(counts: Counts, delta: OutcomeDelta): Counts {
  return {
    ...counts,
    succeeded: counts.succeeded + delta.succeeded,
    skipped: counts.skipped + delta.skipped,
    failed: counts.failed + delta.failed,
    pending: counts.pending - delta.succeeded - delta.skipped - delta.failed,
  };
}

/** When a batch stops early, items that did not run are cancelled, so that they stay counted. */
export function cancelPending(counts: Counts): Counts {
  return { ...counts, cancelled: counts.cancelled + counts.pending, pending: 0 };
}

/** Failed items become pending again. */
export function redriveItems(counts: Counts, items: number): Counts {
  return { ...counts, failed: counts.failed - items, pending: counts.pending + items };
}

/** Items that were cancelled when the batch stopped early become pending again. */
export function reviveCancelled(counts: Counts): Counts {
  return { ...counts, pending: counts.pending + counts.cancelled, cancelled: 0 };
}
