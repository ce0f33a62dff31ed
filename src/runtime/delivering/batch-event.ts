/** Reads a record of a batch as an event. */
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import type { StoredRecord } from "../../ports/store/query-store.ts";

export function readEvent({ batch, seq, type, body }: StoredRecord): BatchEvent {
  const { at, data } = JSON.parse(body) as Pick<BatchEvent, "at" | "data">;
  return { id: `${batch}/${seq}`, batch, seq, type, at, data };
}
