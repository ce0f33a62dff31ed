/** A batch's transitions as a program sees them. */
import type { RecordType } from "../core/batch.ts";
import type { Json } from "../core/canonical-json.ts";
import type { StoredRecord } from "../ports/reading.ts";

export interface BatchEvent {
  /** The same for every delivery of this event. */
  readonly id: string;
  readonly batch: string;
  readonly seq: number;
  readonly type: RecordType;
  /** UTC, ISO 8601. */
  readonly at: string;
  readonly data: { readonly [key: string]: Json | undefined };
}

export function readEvent({ batch, seq, type, body }: StoredRecord): BatchEvent {
  const { at, data } = JSON.parse(body) as Pick<BatchEvent, "at" | "data">;
  return { id: `${batch}/${seq}`, batch, seq, type, at, data };
}
