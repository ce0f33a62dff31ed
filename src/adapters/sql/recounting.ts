/** Recounts a batch's items from the maps of its chunks. */
import { isEnded } from "../../core/batch/batch.ts";
import { cancelPending } from "../../core/batch/counts.ts";
import { countOutcomes, type OutcomeMap } from "../../core/items/outcome-map.ts";
import type { Recount } from "../../ports/store/query-store.ts";
import { type BatchRow, countAll } from "./rows.ts";

export interface MapRow {
  readonly items: number;
  readonly outcomes: OutcomeMap;
}

export class Recounting {
  #planned = 0;
  #succeeded = 0;
  #skipped = 0;
  #failed = 0;

  add({ items, outcomes }: MapRow): void {
    const counted = countOutcomes(outcomes);
    this.#planned += items;
    this.#succeeded += counted.succeeded;
    this.#skipped += counted.skipped;
    this.#failed += counted.failed;
  }

  finish(batch: BatchRow): Recount {
    const [planned, succeeded, skipped, failed] = [
      this.#planned,
      this.#succeeded,
      this.#skipped,
      this.#failed,
    ];
    const pending = planned - succeeded - skipped - failed;
    const recounted = { planned, succeeded, skipped, failed, cancelled: 0, pending };
    return {
      counters: countAll(batch),
      recounted: isEnded(batch.state) ? cancelPending(recounted) : recounted,
    };
  }
}
