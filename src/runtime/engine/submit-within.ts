/**
 * Submits inside of a transaction of the caller's own. Items that were handed over are planned in it,
 * too, so that they are the batch's own when he commits; a batch with a source is sliced by whoever
 * finds it afterwards, as any other.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { CallerTransactionStore } from "../../ports/store/caller-transaction.ts";
import type { Log } from "../system/log.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";
import { sliceBatch } from "../conducting/slicer.ts";

export interface WithinParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** A batch that is in the store. */
export interface Recorded {
  readonly batch: BatchSnapshot;
  /** The same, if it was there before. */
  readonly takenUp: BatchSnapshot | null;
}

export interface WithinRequest {
  /** The caller's. */
  readonly transaction: unknown;
  readonly pipeline: Pipeline;
  /** Those that were handed over; null where the pipeline has a source. */
  readonly items: Iterable<unknown> | AsyncIterable<unknown> | null;
  readonly record: (store: CallerTransactionStore) => Promise<Recorded>;
}

export async function submitWithin(
  { transaction, pipeline, items, record }: WithinRequest,
  parts: WithinParts,
): Promise<Recorded> {
  const { store } = parts;
  if (store.within === undefined) {
    throw new SluiceError("NO_SQL", `the store ${store.name} has no SQL, and so no transactions`, {
      hint: "Open the engine on a SQLite file or a PostgreSQL database, or leave transaction out.",
    });
  }
  return store.within(transaction, async (within) => {
    const recorded = await record(within);
    if (items !== null && isUnplanned(recorded.batch)) {
      await planItems(recorded.batch, pipeline, items, {
        ...parts,
        store: { ...store, ...within },
      });
    }
    return recorded;
  });
}

/** What it was submitted with is not planned yet: the items of later steps are none of it. */
export function isUnplanned({ state, step }: BatchSnapshot): boolean {
  return step === 0 && (state === "submitted" || state === "slicing");
}

/** Nobody else can see the batch, so there is no claim to keep, and nothing of it may run yet. */
async function planItems(
  batch: BatchSnapshot,
  pipeline: Pipeline,
  items: Iterable<unknown> | AsyncIterable<unknown>,
  parts: WithinParts,
): Promise<void> {
  await sliceBatch(batch, pipeline.steps[0], items, {
    ...parts,
    keepClaim: async () => true,
    offerInline: () => null,
    stop: new AbortController().signal,
    pause: (ms) => sleep(parts.clock, ms),
  });
}
