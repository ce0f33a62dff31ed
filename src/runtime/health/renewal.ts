/** What whoever renews a worker's leases must know: the loop itself, or the thread in its place. */
import type { Store } from "../../ports/store/store.ts";

/** How many times a sign of life may be missed before the worker counts as one that has gone. */
const BEATS = 3;

/** For how long a sign of life counts. */
export function computeBeatMs(renewMs: number): number {
  return renewMs * BEATS;
}

/**
 * The lease of a batch that is cancelled at once was not prolonged, and its end may come any moment:
 * whoever believed that it was would start items after it. Ask after the renewal, so that none is
 * missed.
 */
export async function findEndingBatches(
  store: Pick<Store, "readStops">,
  batches: readonly string[],
): Promise<ReadonlySet<string>> {
  const stops = await store.readStops(batches);
  return new Set(
    stops.filter(({ kind, mode }) => kind !== "pause" && mode === "now").map((one) => one.batch),
  );
}
