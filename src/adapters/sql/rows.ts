/** Reads the rows of a batch as values, for both SQL stores. */
import type { BatchState } from "../../core/batch/batch.ts";
import type { StopMode } from "../../core/batch/chunk.ts";
import type { Counts } from "../../core/batch/counts.ts";
import type { ErrorClass } from "../../core/base/errors.ts";
import type { FailureTally } from "../../core/batch/failure-budget.ts";
import type { TrackedItem } from "../../core/items/tracked-item.ts";
import { addCounts } from "../../core/batch/step.ts";
import type { PauseFacts } from "../../core/batch/why.ts";
import type {
  BatchSettings,
  BatchSnapshot,
  StepSnapshot,
} from "../../ports/store/conductor-store.ts";

/** A batch with its current step. */
export interface BatchRow extends Counts {
  readonly num: number;
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  readonly tenant: string;
  readonly place: number;
  readonly active: number;
  readonly submit_key: string | null;
  readonly input: string | null;
  readonly input_hash: string;
  readonly settings: string;
  readonly state: BatchState;
  readonly step: number;
  readonly open: number;
  readonly sealed: number;
  readonly deadline_at: number | null;
  readonly drive: number;
  readonly since_drive: number;
  readonly cancel_mode: StopMode | null;
  readonly cancel_by: string | null;
  readonly cancel_why: string | null;
  readonly cancel_at: number | null;
  readonly parked_code: string | null;
  readonly parked_message: string | null;
  readonly reason_code: string | null;
  readonly reason_message: string | null;
  readonly pruned: number;
  readonly submitted_at: number;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  /** Its last activity, in monotonic milliseconds. */
  readonly activity_at: number;
  readonly record_seq: number;
  readonly record_hash: string;
  readonly name: string;
  readonly sliced: number;
  readonly chunks: number;
  readonly canary_chunks: number | null;
  readonly slice_cursor: string | null;
  readonly slice_fence: number;
  readonly last_part: string | null;
  readonly passes: number;
  /** 1 when the step has a budget or a canary. */
  readonly watched_failures: number;
  readonly failed_permanent: number;
  readonly failed_transient: number;
  readonly failed_unexpected: number;
  /** JSON: the narrowest pause that applies to it. */
  readonly pause: string | null;
  /** JSON: all of its steps, if it has several. */
  readonly all_steps: string | null;
}

/** What is read of a batch to move it on. */
export type LifecycleRow = Counts &
  Pick<
    BatchRow,
    | "num"
    | "id"
    | "pipeline"
    | "lane"
    | "active"
    | "settings"
    | "state"
    | "step"
    | "sealed"
    | "drive"
    | "cancel_mode"
    | "name"
    | "chunks"
    | "canary_chunks"
    | "passes"
    | "watched_failures"
    | "failed_permanent"
    | "failed_transient"
    | "failed_unexpected"
    | "all_steps"
  >;

export function readCounts(row: Counts): Counts {
  const { planned, succeeded, skipped, failed, cancelled, pending } = row;
  return { planned, succeeded, skipped, failed, cancelled, pending };
}

export function readTally(
  row: Pick<BatchRow, "failed_permanent" | "failed_transient" | "failed_unexpected">,
): FailureTally {
  return {
    permanent: row.failed_permanent,
    transient: row.failed_transient,
    unexpected: row.failed_unexpected,
  };
}

export function readSettings({ settings }: Pick<BatchRow, "settings">): BatchSettings {
  return JSON.parse(settings) as BatchSettings;
}

type StepsRow = Counts & Pick<BatchRow, "name" | "chunks" | "passes" | "all_steps">;

export function readSteps(row: StepsRow): StepSnapshot[] {
  if (row.all_steps === null) {
    return [{ name: row.name, chunks: row.chunks, passes: row.passes, counts: readCounts(row) }];
  }
  type Listed = [string, ...number[]];
  return (JSON.parse(row.all_steps) as Listed[]).map(([name, ...numbers]) => {
    const [chunks, passes, planned, succeeded, skipped, failed, cancelled, pending] = numbers as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    return {
      name,
      chunks,
      passes,
      counts: { planned, succeeded, skipped, failed, cancelled, pending },
    };
  });
}

/** The sum over all steps. */
export function countAll(row: StepsRow): Counts {
  return addCounts(readSteps(row).map(({ counts }) => counts));
}

export function readPause(pause: string | null): (PauseFacts & { mode: StopMode }) | null {
  if (pause === null) return null;
  type Listed = [PauseFacts["scope"], string, StopMode, string, string | null];
  const [scope, name, mode, by, why] = JSON.parse(pause) as Listed;
  return { scope, name, mode, by, why };
}

export function toSnapshot(row: BatchRow): BatchSnapshot {
  return {
    id: row.id,
    pipeline: row.pipeline,
    version: row.version,
    lane: row.lane,
    tenant: row.tenant,
    key: row.submit_key,
    input: row.input,
    state: row.state,
    active: row.active === 1,
    open: row.open === 1,
    sealed: row.sealed === 1,
    settings: readSettings(row),
    step: row.step,
    steps: readSteps(row),
    counts: countAll(row),
    chunks: row.chunks,
    sliceCursor: row.slice_cursor,
    sliceFence: row.slice_fence,
    reason: readReason(row.reason_code, row.reason_message),
    pause: readPause(row.pause),
    parked: readReason(row.parked_code, row.parked_message),
    cancel:
      row.cancel_mode === null
        ? null
        : {
            mode: row.cancel_mode,
            by: row.cancel_by ?? "",
            why: row.cancel_why,
            requestedAt: row.cancel_at ?? 0,
          },
    drive: row.drive,
    sinceDrive: row.since_drive,
    deadlineAt: row.deadline_at,
    pruned: row.pruned === 1,
    submittedAt: row.submitted_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  };
}

function readReason(
  code: string | null,
  message: string | null,
): { readonly code: string; readonly message: string } | null {
  return code === null ? null : { code, message: message ?? "" };
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
  readonly checkpoint_name: string | null;
  readonly checkpoint_data: string | null;
  readonly drive: number;
}

export function toTrackedItem(row: ItemRow, chunkStart: number): TrackedItem {
  const { key, attempts, deaths, error_class: errorClass, code, message, drive } = row;
  return {
    index: row.item - chunkStart,
    key,
    attempts,
    deaths,
    started: row.started === 1,
    dead: row.dead === 1,
    dueAt: row.due_at,
    error: errorClass === null ? null : { errorClass, code: code ?? "", message: message ?? "" },
    checkpoint: readCheckpoint(row),
    drive,
  };
}

export function readCheckpoint(
  row: Pick<ItemRow, "checkpoint_name" | "checkpoint_data">,
): TrackedItem["checkpoint"] {
  const { checkpoint_name: name, checkpoint_data: data } = row;
  return name === null ? null : { name, data: data ?? "null" };
}
