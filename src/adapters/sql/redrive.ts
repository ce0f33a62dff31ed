/** What a redrive works with, in every store that speaks SQL. */
import { isEnded } from "../../core/batch.ts";
import type { RedriveRefusal, RedriveRequest } from "../../ports/operating.ts";
import type { BatchRow } from "./rows.ts";

/** A chunk some items of which go back to work. */
export interface RedrivenChunkRow {
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly outcomes: Uint8Array;
  readonly losses: number;
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
  /** Those that go back to work. */
  readonly redriven: number;
  /** The first and the last step that one of these belongs to; null when there is none. */
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
