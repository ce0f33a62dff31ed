/** Looking at the reference model. */
import { cancelPending, type Counts } from "../../core/counts.ts";
import { isEnded } from "../../core/batch.ts";
import { countOutcomes } from "../../core/outcome-map.ts";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import type {
  BatchFilter,
  DeadLetter,
  PageRequest,
  Recount,
  StoredRecord,
  StoredResult,
} from "../../ports/reading.ts";
import { type Batch, type State, takeSnapshot } from "./state.ts";

export class Reading {
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  listBatches({ pipeline, states, limit }: BatchFilter): BatchSnapshot[] {
    return [...this.#state.batches.values()]
      .toReversed()
      .filter((batch) => pipeline === undefined || batch.submission.pipeline === pipeline)
      .filter((batch) => states === undefined || states.includes(batch.state))
      .slice(0, limit)
      .map(takeSnapshot);
  }

  readManifests(batch: Batch, fromChunk: number, toChunk: number): Uint8Array[] {
    return batch.chunks
      .slice(fromChunk, toChunk)
      .map(({ manifest }) => manifest)
      .filter((manifest) => manifest !== null);
  }

  readResults(batch: Batch, { afterItem, limit }: PageRequest): StoredResult[] {
    return [...batch.results.values()]
      .filter(({ item }) => item > afterItem)
      .toSorted((a, b) => a.item - b.item)
      .slice(0, limit);
  }

  readDeadLetters(batch: Batch, { afterItem, limit }: PageRequest): DeadLetter[] {
    return batch.chunks
      .flatMap((chunk) =>
        [...chunk.tracked.values()].map(({ index, key, attempts, deaths, dead, error }) =>
          dead && error !== null
            ? {
                step: 0,
                item: chunk.start + index,
                key,
                attempts,
                deaths,
                ...error,
                failedAt: chunk.failedAt.get(index) as number,
              }
            : null,
        ),
      )
      .filter((letter) => letter !== null)
      .filter(({ item }) => item > afterItem)
      .toSorted((a, b) => a.item - b.item)
      .slice(0, limit);
  }

  readRecords(batch: string | null, afterPosition: number, limit: number): StoredRecord[] {
    return this.#state.records
      .slice(afterPosition)
      .filter((record) => batch === null || record.batch === batch)
      .slice(0, limit);
  }

  recount(batch: Batch): Recount {
    const sum = { succeeded: 0, skipped: 0, failed: 0, planned: 0 };
    for (const chunk of batch.chunks) {
      const counted = countOutcomes(chunk.outcomes);
      sum.planned += chunk.end - chunk.start;
      sum.succeeded += counted.succeeded;
      sum.skipped += counted.skipped;
      sum.failed += counted.failed;
    }
    const pending = sum.planned - sum.succeeded - sum.skipped - sum.failed;
    const recounted: Counts = { ...sum, cancelled: 0, pending };
    return {
      counters: batch.counts,
      recounted: isEnded(batch.state) ? cancelPending(recounted) : recounted,
    };
  }
}
