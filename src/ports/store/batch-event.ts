/** A transition of a batch as a program sees it. */
import type { RecordType } from "../../core/batch/batch.ts";
import type { Json } from "../../core/base/canonical-json.ts";

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
