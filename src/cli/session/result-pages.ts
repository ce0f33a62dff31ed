/** Pages of a batch's results and dead letters, of one step or of all. */
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { DeadLetter, StoredResult } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";

const PAGE = 1_000;

/** The results of one step in item order. */
export async function* readResultPages(
  store: Store,
  batch: string,
  step: number,
): AsyncGenerator<readonly StoredResult[], void, void> {
  for (let afterItem = -1; ; ) {
    const page = await store.readResults(batch, { step, afterItem, limit: PAGE, sinceDrive: 1 });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    afterItem = last.item;
  }
}

/** Dead letters of all steps, at most `limit`. */
export async function* readDeadLetters(
  store: Store,
  batch: BatchSnapshot,
  filter: DeadLetterFilter,
  limit: number,
): AsyncGenerator<DeadLetter, void, void> {
  let left = limit;
  for (const step of batch.steps.keys()) {
    for (let afterItem = -1; left > 0; ) {
      const page = await store.readDeadLetters(batch.id, {
        step,
        afterItem,
        limit: Math.min(PAGE, left),
        filter,
      });
      yield* page;
      const last = page.at(-1);
      if (last === undefined) break;
      afterItem = last.item;
      left -= page.length;
    }
  }
}
