/** Reads the row of a bucket as its state. */
import type { BucketState } from "../../core/limits/bucket.ts";
import type { PacePortion } from "../../core/limits/pace.ts";

export interface BucketRow {
  readonly paid_until: number | null;
  readonly portions: string;
  readonly closed_until: number;
  readonly outages: number;
  readonly outage_mark: number;
  readonly idle_at: number;
}

export function toBucketState(row: BucketRow): BucketState {
  return {
    paidUntil: row.paid_until,
    portions: JSON.parse(row.portions) as PacePortion[],
    closedUntil: row.closed_until,
    outages: row.outages,
    outageMark: row.outage_mark,
  };
}
