/** Sums up the changes of reports and losses for the counters of their steps. */
import type { ChunkEffect } from "../../core/items/tracked-item.ts";

/** The row of a leased chunk. */
export interface HeldRow {
  readonly batch: number;
  readonly step: number;
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly tracked: number;
  readonly losses: number;
  readonly outcomes: Uint8Array;
  readonly charge: number;
  readonly busy_ms: number;
}

/** With the columns that a ledger of items needs. */
export interface LedgerRow extends HeldRow {
  readonly fence: number;
  readonly worker: number;
}

export interface StepChange {
  readonly batch: number;
  readonly step: number;
  succeeded: number;
  skipped: number;
  failed: number;
  permanent: number;
  transient: number;
  unexpected: number;
  /** The earliest due time of the chunks that were given back. */
  dueAt: number | null;
}

/** The changes of a commit to the counters of its steps. */
export class StepChanges {
  readonly #changes = new Map<string, StepChange>();

  add({ batch, step }: HeldRow, { delta, tally, end, dueAt }: ChunkEffect): void {
    const name = `${batch}/${step}`;
    let change = this.#changes.get(name);
    if (change === undefined) {
      const none = { succeeded: 0, skipped: 0, failed: 0, permanent: 0, transient: 0 };
      change = { batch, step, ...none, unexpected: 0, dueAt: null };
      this.#changes.set(name, change);
    }
    change.succeeded += delta.succeeded;
    change.skipped += delta.skipped;
    change.failed += delta.failed;
    change.permanent += tally.permanent;
    change.transient += tally.transient;
    change.unexpected += tally.unexpected;
    if (end === "yielded") change.dueAt = Math.min(change.dueAt ?? dueAt, dueAt);
  }

  list(): Iterable<StepChange> {
    return this.#changes.values();
  }
}
