/** How a batch's rows read as values. */
import type { BatchState } from "../../core/batch.ts";
import type { Counts } from "../../core/counts.ts";
import type { ErrorClass } from "../../core/errors.ts";
import type { TrackedItem } from "../../core/report.ts";
import type { BatchSettings, BatchSnapshot } from "../../ports/conducting.ts";

export interface BatchRow extends Counts {
  readonly num: number;
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  readonly submit_key: string | null;
  readonly input: string | null;
  readonly input_hash: string;
  readonly settings: string;
  readonly state: BatchState;
  readonly open: number;
  readonly sealed: number;
  readonly reason_code: string | null;
  readonly reason_message: string | null;
  readonly submitted_at: number;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  readonly record_seq: number;
  readonly record_hash: string;
  readonly chunks: number;
  readonly slice_cursor: string | null;
  readonly slice_fence: number;
  readonly last_part: string | null;
}

/** A batch with its step's counters; add a WHERE clause. */
export const SELECT_BATCH = `
  SELECT b.num, b.id, b.pipeline, b.version, b.lane, b.submit_key, b.input, b.input_hash,
    b.settings, b.state, b.open, b.sealed, b.reason_code, b.reason_message, b.submitted_at,
    b.started_at, b.ended_at, b.record_seq, b.record_hash, s.chunks, s.slice_cursor,
    s.slice_fence, s.last_part, s.planned,
    s.succeeded, s.skipped, s.failed, s.cancelled, s.pending
  FROM batch b JOIN step s ON s.batch = b.num AND s.step = 0`;

export function readCounts(row: Counts): Counts {
  const { planned, succeeded, skipped, failed, cancelled, pending } = row;
  return { planned, succeeded, skipped, failed, cancelled, pending };
}

export function toSnapshot(row: BatchRow): BatchSnapshot {
  return {
    id: row.id,
    pipeline: row.pipeline,
    version: row.version,
    lane: row.lane,
    key: row.submit_key,
    input: row.input,
    state: row.state,
    open: row.open === 1,
    sealed: row.sealed === 1,
    settings: JSON.parse(row.settings) as BatchSettings,
    counts: readCounts(row),
    chunks: row.chunks,
    sliceCursor: row.slice_cursor,
    sliceFence: row.slice_fence,
    reason:
      row.reason_code === null
        ? null
        : { code: row.reason_code, message: row.reason_message ?? "" },
    submittedAt: row.submitted_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  };
}

export interface ItemRow {
  readonly item: number;
  readonly key: string | null;
  readonly attempts: number;
  readonly deaths: number;
  readonly started: number;
  readonly dead: number;
  readonly due_at: number;
  readonly error_class: ErrorClass | null;
  readonly code: string | null;
  readonly message: string | null;
}

export function toTrackedItem(row: ItemRow, chunkStart: number): TrackedItem {
  const { key, attempts, deaths, error_class: errorClass, code, message } = row;
  return {
    index: row.item - chunkStart,
    key,
    attempts,
    deaths,
    started: row.started === 1,
    dead: row.dead === 1,
    dueAt: row.due_at,
    error: errorClass === null ? null : { errorClass, code: code ?? "", message: message ?? "" },
  };
}
