/**
 * The life of a batch.
 *
 *   submitted -> slicing -> running -> succeeded | completed_with_errors
 *        \___________\_________\-----> failed | expired | cancelled
 *
 * It ends once, and honestly: an early end cancels what did not run, and only a batch in which
 * every item succeeded or was skipped may be called a success.
 */
import type { Json } from "./canonical-json.ts";
import type { Counts } from "./counts.ts";

export const ENDED_STATES = [
  "succeeded",
  "completed_with_errors",
  "failed",
  "cancelled",
  "expired",
] as const;
export type EndedState = (typeof ENDED_STATES)[number];

export const BATCH_STATES = ["submitted", "slicing", "running", ...ENDED_STATES] as const;
export type BatchState = (typeof BATCH_STATES)[number];

export const BATCH_EVENTS = [
  "start_slicing",
  "finish_slicing",
  "finish_items",
  "finish_items_with_failures",
  "fail",
  "cancel",
  "expire",
] as const;
export type BatchEvent = (typeof BATCH_EVENTS)[number];

const EDGES: { readonly [S in BatchState]: { readonly [E in BatchEvent]?: BatchState } } = {
  submitted: { start_slicing: "slicing", fail: "failed", cancel: "cancelled", expire: "expired" },
  slicing: { finish_slicing: "running", fail: "failed", cancel: "cancelled", expire: "expired" },
  running: {
    finish_items: "succeeded",
    finish_items_with_failures: "completed_with_errors",
    fail: "failed",
    cancel: "cancelled",
    expire: "expired",
  },
  succeeded: {},
  completed_with_errors: {},
  failed: {},
  cancelled: {},
  expired: {},
};

/** The state an event leads to, or null when it has no business in this state. */
export function nextBatchState(state: BatchState, event: BatchEvent): BatchState | null {
  return EDGES[state][event] ?? null;
}

export function isEnded(state: BatchState): state is EndedState {
  return (ENDED_STATES as readonly string[]).includes(state);
}

/**
 * Whether these counts end a running batch, and as what. Asked in the commit that makes an item
 * terminal, so the last one ends the batch itself. An open batch cannot end: its producer may add.
 */
export function decideEnding(
  counts: Counts,
  sealed: boolean,
): "finish_items" | "finish_items_with_failures" | null {
  if (!sealed || counts.pending > 0) return null;
  return counts.failed > 0 ? "finish_items_with_failures" : "finish_items";
}

/** The records a batch writes about itself, one for each transition. */
export const RECORD_TYPES = [
  "batch.submitted",
  "batch.started",
  "slicing.started",
  "slicing.finished",
  "slicing.aborted",
  "batch.sealed",
  "step.ended",
  "batch.ended",
] as const;
export type RecordType = (typeof RECORD_TYPES)[number];

/** Why a batch ended before its items did. */
export interface EndReason {
  readonly code: string;
  readonly message: string;
}

export interface BatchRecord {
  readonly type: RecordType;
  readonly data: { readonly [key: string]: Json | undefined };
}

/** The records that an ending writes, in its own transaction. */
export function describeEnding(
  from: BatchState,
  to: EndedState,
  counts: Counts,
  reason: EndReason | null,
): BatchRecord[] {
  const tally = { ...counts };
  const cause = reason === null ? {} : { code: reason.code, message: reason.message };
  const records: BatchRecord[] = [];
  if (from === "slicing") records.push({ type: "slicing.aborted", data: cause });
  if (from === "running") records.push({ type: "step.ended", data: { step: 0, counts: tally } });
  records.push({ type: "batch.ended", data: { state: to, counts: tally, ...cause } });
  return records;
}
