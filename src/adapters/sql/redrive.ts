/** Rows and values for redrives, for both SQL stores. */
import { isEnded } from "../../core/batch/batch.ts";
import type { RedriveRefusal, RedriveRequest } from "../../ports/store/operator-store.ts";
import type { BatchRow } from "./rows.ts";

/** A chunk that an early end cancelled. */
export interface RevivedChunkRow {
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly outcomes: Uint8Array;
  readonly losses: number;
}

/** A chunk with dead letters that are redriven. */
export interface RedrivenChunkRow extends RevivedChunkRow {
  readonly fence: number;
  /** 1 if its batch keeps a ledger of items. */
  readonly item_ledger: number;
}

export interface RedrivenItem {
  /** The item's number in its step. */
  readonly item: number;
  /** Monotonic. */
  readonly dueAt: number;
}

/** What a redrive would take. */
export interface Survey {
  readonly matching: number;
  readonly busy: number;
  /** Dead letters to redrive. */
  readonly redriven: number;
  /** The first and the last step of these; null for none. */
  readonly firstStep: number | null;
  readonly lastStep: number | null;
}

export function refuseRedrive(
  batch: BatchRow,
  { withCancelled }: RedriveRequest,
): RedriveRefusal | null {
  if (batch.pruned === 1) return "pruned";
  if (isEnded(batch.state)) {
    if (batch.state === "succeeded" || batch.state === "completed_with_errors") return null;
    if (batch.sliced === 0) return "never_planned";
    return withCancelled ? null : "stopped_early";
  }
  if (batch.cancel_mode !== null) return "cancelling";
  return batch.state === "running" || batch.state === "ready" ? null : "not_running";
}
