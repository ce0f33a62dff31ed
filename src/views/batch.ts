/** A batch: short for the line about its ending, in full for lists. */
import type { BatchState, EndReason } from "../core/batch/batch.ts";
import type { StopMode } from "../core/batch/chunk.ts";
import type { Counts } from "../core/batch/counts.ts";
import { formatInstant } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import { type StepView, viewSteps } from "./step.ts";

export interface BatchView extends Counts {
  readonly batch: string;
  readonly pipeline: string;
  readonly lane: string;
  readonly state: BatchState;
  readonly chunks: number;
  readonly elapsedMs: number;
  /** Why it ended early. */
  readonly reason: EndReason | null;
}

export function viewBatch(batch: BatchSnapshot, wallMs: number): BatchView {
  const { planned, succeeded, skipped, failed, cancelled, pending } = batch.counts;
  return {
    batch: batch.id,
    pipeline: batch.pipeline,
    lane: batch.lane,
    state: batch.state,
    planned,
    succeeded,
    skipped,
    failed,
    cancelled,
    pending,
    chunks: batch.chunks,
    elapsedMs: computeElapsedMs(batch, wallMs),
    reason: batch.reason,
  };
}

export interface FullBatchView extends BatchView {
  /** The owner of its work. */
  readonly tenant: string;
  readonly version: string;
  readonly key: string | null;
  /** Its producer may still add items. */
  readonly open: boolean;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly deadlineAt: string | null;
  /** It holds its lane. */
  readonly active: boolean;
  /** Its current step. */
  readonly step: string;
  readonly steps: readonly StepView[];
  /** 1, and one more with every redrive. */
  readonly drive: number;
  readonly pause: PauseView | null;
  /** Why it was removed from its lane's queue. */
  readonly parked: EndReason | null;
  readonly cancel: CancelView | null;
  /** Retention has removed what a redrive needs. */
  readonly pruned: boolean;
}

/** A pause and who requested it; `mode` says what happens to running items. */
export interface PauseView {
  readonly scope: "batch" | "lane" | "pipeline";
  readonly name: string;
  readonly mode: StopMode;
  readonly by: string;
  readonly why: string | null;
}

export interface CancelView {
  readonly mode: StopMode;
  readonly by: string;
  readonly why: string | null;
  readonly requestedAt: string;
  /** Since then none of its items starts; null while workers hold chunks of it. */
  readonly acknowledgedAt: string | null;
}

export function viewBatchFully(batch: BatchSnapshot, wallMs: number): FullBatchView {
  return {
    ...viewBatch(batch, wallMs),
    tenant: batch.tenant,
    version: batch.version,
    key: batch.key,
    open: batch.open && !batch.sealed,
    submittedAt: formatInstant(batch.submittedAt),
    startedAt: viewInstant(batch.startedAt),
    endedAt: viewInstant(batch.endedAt),
    deadlineAt: viewInstant(batch.deadlineAt),
    active: batch.active,
    step: batch.settings.steps[batch.step]?.name ?? "",
    steps: viewSteps(batch),
    drive: batch.drive,
    pause: viewPause(batch),
    parked: batch.parked,
    cancel: viewCancel(batch),
    pruned: batch.pruned,
  };
}

function viewInstant(at: number | null): string | null {
  return at === null ? null : formatInstant(at);
}

function viewPause({ pause }: BatchSnapshot): PauseView | null {
  if (pause === null) return null;
  const { scope, name, mode, by, why } = pause;
  return { scope, name, mode, by, why };
}

export function viewCancel({ cancel, endedAt }: BatchSnapshot): CancelView | null {
  if (cancel === null) return null;
  const { mode, by, why, requestedAt } = cancel;
  return {
    mode,
    by,
    why,
    requestedAt: formatInstant(requestedAt),
    acknowledgedAt: viewInstant(endedAt),
  };
}

/** Time since its start, or its duration. The wall clock may have jumped; never below 0. */
export function computeElapsedMs({ startedAt, endedAt }: BatchSnapshot, wallMs: number): number {
  return startedAt === null ? 0 : Math.max(0, (endedAt ?? wallMs) - startedAt);
}

/** Items that ran to an outcome; those that were cancelled did not. */
export function countRun({ succeeded, skipped, failed }: Counts): number {
  return succeeded + skipped + failed;
}
