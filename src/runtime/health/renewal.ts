/** Rules for renewing a worker's leases, for the event loop and for the thread that takes over. */
import type { Store } from "../../ports/store/store.ts";

/** How many heartbeats may be missed before the worker counts as gone. */
const BEATS = 3;

/** How long a heartbeat is valid. */
export function computeBeatMs(renewMs: number): number {
  return renewMs * BEATS;
}

/**
 * The lease of a batch that is being cancelled was not extended, and the batch may end any moment:
 * a worker that believed in the renewal would start items after that end. Ask after the renewal, so
 * that no cancel is missed.
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
