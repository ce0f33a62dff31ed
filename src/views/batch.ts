/** A batch as machines are told of it: one flat object, the same in every command. */
import type { BatchState, EndReason } from "../core/batch/batch.ts";
import type { StopMode } from "../core/batch/chunk.ts";
import { type Counts, NO_ITEMS } from "../core/batch/counts.ts";
import { formatInstant } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/store/conducting.ts";

export interface BatchView {
  readonly batch: string;
  readonly pipeline: string;
  readonly lane: string;
  readonly state: BatchState;
  readonly planned: number;
  readonly succeeded: number;
  readonly skipped: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly pending: number;
  readonly chunks: number;
  readonly elapsedMs: number;
  readonly reason?: EndReason;
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
    ...(batch.reason === null ? {} : { reason: batch.reason }),
  };
}

export interface FullBatchView extends BatchView {
  /** Whose work it is. */
  readonly tenant: string;
  readonly version: string;
  readonly key: string | null;
  /** Its producer may still add items. */
  readonly open: boolean;
  readonly submittedAt: string | null;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  /** It holds its lane; before its turn it waits. */
  readonly active: boolean;
  /** The step that it is at. */
  readonly step: string;
  /** All of them, in order; those that have not begun have no items yet. */
  readonly steps: readonly StepView[];
  /** 1, and one more with every redrive. */
  readonly drive: number;
  readonly deadlineAt: string | null;
  readonly pause: BatchSnapshot["pause"];
  readonly parked: EndReason | null;
  readonly cancel: CancelView | null;
  /** Retention has taken what a redrive would need. */
  readonly pruned: boolean;
}

export interface StepView extends Counts {
  readonly name: string;
  readonly chunks: number;
  /** Automatic passes over its dead letters. */
  readonly passes: number;
}

export interface CancelView {
  readonly mode: StopMode;
  readonly by: string;
  readonly why: string | null;
  readonly requestedAt: string;
  /** Since then nothing of it starts; null while workers hold chunks of it. */
  readonly acknowledgedAt: string | null;
}

/** For lists and looks: also when it happened and under which names. */
export function viewBatchFully(batch: BatchSnapshot, wallMs: number): FullBatchView {
  const instant = (at: number | null): string | null => (at === null ? null : formatInstant(at));
  return {
    ...viewBatch(batch, wallMs),
    tenant: batch.tenant,
    version: batch.version,
    key: batch.key,
    open: batch.open && !batch.sealed,
    submittedAt: instant(batch.submittedAt),
    startedAt: instant(batch.startedAt),
    endedAt: instant(batch.endedAt),
    active: batch.active,
    step: batch.settings.steps[batch.step]?.name ?? "",
    steps: viewSteps(batch),
    drive: batch.drive,
    deadlineAt: instant(batch.deadlineAt),
    pause: batch.pause,
    parked: batch.parked,
    cancel: viewCancel(batch),
    pruned: batch.pruned,
  };
}

export function viewSteps({ settings, steps }: BatchSnapshot): StepView[] {
  return settings.steps.map(({ name }, at) => {
    const { counts = NO_ITEMS, chunks = 0, passes = 0 } = steps[at] ?? {};
    return { name, ...counts, chunks, passes };
  });
}

export function viewCancel({ cancel, endedAt }: BatchSnapshot): CancelView | null {
  if (cancel === null) return null;
  const { mode, by, why, requestedAt } = cancel;
  const acknowledgedAt = endedAt === null ? null : formatInstant(endedAt);
  return { mode, by, why, requestedAt: formatInstant(requestedAt), acknowledgedAt };
}

/** Since it started, or how long it took. The wall clock may have jumped; never below 0. */
export function computeElapsedMs({ startedAt, endedAt }: BatchSnapshot, wallMs: number): number {
  return startedAt === null ? 0 : Math.max(0, (endedAt ?? wallMs) - startedAt);
}

/** Items that ran to an outcome; those that were cancelled did not. */
export function countRun({ succeeded, skipped, failed }: Counts): number {
  return succeeded + skipped + failed;
}
