/** The result of an operator's act: a pause, a resume, a redrive, a move, a removal. */
import type { StopMode } from "../core/batch/chunk.ts";
import type { BatchState } from "../core/batch/batch.ts";
import type { BatchFacts } from "../core/batch/why.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import type { PruneResult, RedriveResult } from "../ports/store/operator-store.ts";
import type { RetentionPolicy } from "../runtime/conducting/retention.ts";
import type { Target } from "../runtime/engine/operator.ts";

/** Exactly one of the three is set, the others are null. */
export interface TargetView {
  readonly batch: string | null;
  readonly lane: string | null;
  readonly pipeline: string | null;
}

function viewTarget(target: Target): TargetView {
  return {
    batch: "batch" in target ? target.batch : null,
    lane: "lane" in target ? target.lane : null,
    pipeline: "pipeline" in target ? target.pipeline : null,
  };
}

export interface PausedView extends TargetView {
  readonly paused: boolean;
  /** False when it was already so. */
  readonly changed: boolean;
  /** What happens to running items; null when an earlier pause stands. */
  readonly mode: StopMode | null;
}

export function viewPaused(target: Target, mode: StopMode, changed: boolean): PausedView {
  return { ...viewTarget(target), paused: true, changed, mode: changed ? mode : null };
}

export interface ResumedView extends TargetView {
  /** True when the batch's lane or pipeline is still paused. */
  readonly paused: boolean;
  readonly changed: boolean;
  /** What the batch still waits for. */
  readonly waits: string | null;
}

export function viewResumed(
  target: Target,
  batch: BatchSnapshot | null,
  waits: string | null,
  changed: boolean,
): ResumedView {
  return { ...viewTarget(target), paused: (batch?.pause ?? null) !== null, changed, waits };
}

export type Redriven = RedriveResult & { readonly kind: "done" };

export interface RedrivenView {
  readonly batch: string;
  readonly dryRun: boolean;
  /** Dead letters that went back to work. */
  readonly redriven: number;
  /** Cancelled items that went back to work. */
  readonly revived: number;
  /** Dead letters in chunks that are running. */
  readonly busy: number;
  /** Dead letters over the limit. */
  readonly left: number;
  readonly state: BatchState;
  readonly drive: number;
  readonly hasWorker: boolean;
  /** What keeps the batch from running. */
  readonly waits: string | null;
}

export function viewRedriven(
  { batch, redriven, revived, busy, left }: Redriven,
  dryRun: boolean,
  waits: string | null,
  facts: BatchFacts | null,
): RedrivenView {
  return {
    batch: batch.id,
    dryRun,
    redriven,
    revived,
    busy,
    left,
    state: batch.state,
    drive: batch.drive,
    hasWorker: facts?.hasWorker ?? false,
    waits,
  };
}

export interface MovedView {
  readonly batch: string;
  readonly lane: string;
  /** Batches before it in its lane. */
  readonly ahead: number;
}

export function viewMoved({ id, lane }: BatchSnapshot, ahead: number): MovedView {
  return { batch: id, lane, ahead };
}

export interface PrunedView {
  readonly dryRun: boolean;
  /** Batches that cannot be redriven any more. */
  readonly scratched: number;
  /** Batches that were removed with their evidence. */
  readonly removed: number;
  /** Messages of topics. */
  readonly messages: number;
  /** Batches that are old enough, but have events that a subscriber has not received yet. */
  readonly owed: number;
  readonly keepMs: number;
  /** Null for ever. */
  readonly keepEvidenceMs: number | null;
}

export function viewPruned(
  { scratched, removed, messages, owed }: PruneResult,
  { keepMs, keepEvidenceMs }: RetentionPolicy,
  dryRun: boolean,
): PrunedView {
  return {
    dryRun,
    scratched,
    removed,
    messages,
    owed,
    keepMs,
    // In a policy 0 means for ever, which would be misread here.
    keepEvidenceMs: keepEvidenceMs === 0 ? null : keepEvidenceMs,
  };
}
