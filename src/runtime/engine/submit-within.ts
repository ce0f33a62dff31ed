/**
 * Submits inside of the caller's own transaction. Submitted items are planned in it too, so that
 * the batch owns them at the commit. A batch with a source is sliced afterwards, like any other, by
 * the conductor that finds it.
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
  /** The same batch, if it existed before. */
  readonly takenUp: BatchSnapshot | null;
}

export interface WithinRequest {
  /** The caller's own transaction. */
  readonly transaction: unknown;
  readonly pipeline: Pipeline;
  /** The submitted items; null where the pipeline has a source. */
  readonly items: Iterable<unknown> | AsyncIterable<unknown> | null;
  readonly record: (store: CallerTransactionStore) => Promise<Recorded>;
}

export async function submitWithin(
  { transaction, pipeline, items, record }: WithinRequest,
  parts: WithinParts,
): Promise<Recorded> {
  const { store } = parts;
  if (store.within === undefined) {
    throw new SluiceError(
      "STORE_UNSUPPORTED",
      `the store ${store.name} has no SQL, and so no transactions`,
      {
        kind: "sql",
        hint: "Open the engine on a SQLite file or a PostgreSQL database, or leave transaction out.",
      },
    );
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

/** Its first step is not planned yet; items of later steps were not submitted. */
export function isUnplanned({ state, step }: BatchSnapshot): boolean {
  return step === 0 && (state === "submitted" || state === "slicing");
}

/** No other connection can see the batch, so no claim is needed, and nothing of it may run yet. */
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
