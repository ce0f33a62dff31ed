/** A batch as machines are told of it: one flat object, the same in every command. */
import type { BatchState, EndReason } from "../core/batch.ts";
import type { Counts } from "../core/counts.ts";
import { formatInstant } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/conducting.ts";

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
  readonly version: string;
  readonly key: string | null;
  /** Its producer may still add items. */
  readonly open: boolean;
  readonly submittedAt: string | null;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
}

/** For lists and looks: also when it happened and under which names. */
export function viewBatchFully(batch: BatchSnapshot, wallMs: number): FullBatchView {
  const instant = (at: number | null): string | null => (at === null ? null : formatInstant(at));
  return {
    ...viewBatch(batch, wallMs),
    version: batch.version,
    key: batch.key,
    open: batch.open && !batch.sealed,
    submittedAt: instant(batch.submittedAt),
    startedAt: instant(batch.startedAt),
    endedAt: instant(batch.endedAt),
  };
}

/** Since it started, or how long it took. The wall clock may have jumped; never below 0. */
export function computeElapsedMs({ startedAt, endedAt }: BatchSnapshot, wallMs: number): number {
  return startedAt === null ? 0 : Math.max(0, (endedAt ?? wallMs) - startedAt);
}

/** Items that ran to an outcome; those that were cancelled did not. */
export function countRun({ succeeded, skipped, failed }: Counts): number {
  return succeeded + skipped + failed;
}
