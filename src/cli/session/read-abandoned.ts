/** The chunks that workers still held when a batch ended, as its last ending has recorded them. */
import { isEnded } from "../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { readEvent } from "../../runtime/delivering/batch-event.ts";
import { type AbandonedView, NOTHING_ABANDONED, viewAbandoned } from "../../views/cancel.ts";

const RECORDS_PER_READ = 1_000;

export async function readAbandoned(store: Store, batch: BatchSnapshot): Promise<AbandonedView> {
  let found = NOTHING_ABANDONED;
  if (!isEnded(batch.state)) return found;
  for (let position = 0, more = true; more; ) {
    const records = await store.readRecords(batch.id, position, RECORDS_PER_READ);
    for (const record of records) {
      position = record.position;
      if (record.type === "batch.ended") found = viewAbandoned(batch, readEvent(record).data);
    }
    more = records.length === RECORDS_PER_READ;
  }
  return found;
}
