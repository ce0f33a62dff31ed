/**
 * The life of a batch.
 *
 *   submitted -> slicing -> running -> succeeded | completed_with_errors
 *                  |  ^      |  ^
 *                  v  |      v  |           (one slicing for each step)
 *                ready -------> running
 *
 * In every state before its end it may be stopped: failed | cancelled | expired. `ready` means
 * planned, and waiting for its turn in the lane; only the batch that holds its lane is `running`.
 * It ends once for each drive, and honestly: an early end cancels what did not run, and only a
 * batch whose items all succeeded or were skipped is a success. A redrive reopens an ended batch,
 * which then waits for its lane again.
 */
import type { Json } from "../base/canonical-json.ts";
import type { Counts } from "./counts.ts";

export const ENDED_STATES = [
  "succeeded",
  "completed_with_errors",
  "failed",
  "cancelled",
  "expired",
] as const;
export type EndedState = (typeof ENDED_STATES)[number];

export const BATCH_STATES = ["submitted", "slicing", "ready", "running", ...ENDED_STATES] as const;
export type BatchState = (typeof BATCH_STATES)[number];

export const BATCH_EVENTS = [
  "start_slicing",
  /** The plan is complete, and the batch holds its lane. */
  "finish_slicing",
  /** The plan is complete, but another batch holds the lane. */
  "await_turn",
  "take_turn",
  /** Gives the lane to a batch that can run. */
  "step_aside",
  "next_step",
  "finish_items",
  "finish_items_with_failures",
  "fail",
  "cancel",
  "expire",
  "reopen",
] as const;
export type BatchEvent = (typeof BATCH_EVENTS)[number];

const STOPS = { fail: "failed", cancel: "cancelled", expire: "expired" } as const;

const EDGES: { readonly [S in BatchState]: { readonly [E in BatchEvent]?: BatchState } } = {
  submitted: { start_slicing: "slicing", ...STOPS },
  slicing: { finish_slicing: "running", await_turn: "ready", ...STOPS },
  ready: { take_turn: "running", ...STOPS },
  running: {
    step_aside: "ready",
    next_step: "slicing",
    finish_items: "succeeded",
    finish_items_with_failures: "completed_with_errors",
    ...STOPS,
  },
  succeeded: {},
  completed_with_errors: { reopen: "ready" },
  failed: { reopen: "ready" },
  cancelled: { reopen: "ready" },
  expired: { reopen: "ready" },
};

/** The next state after an event, or null when the event is not allowed in this state. */
export function nextBatchState(state: BatchState, event: BatchEvent): BatchState | null {
  return EDGES[state][event] ?? null;
}

export function isEnded(state: BatchState): state is EndedState {
  return (ENDED_STATES as readonly string[]).includes(state);
}

/** The state of a finished batch; `counts` are the sums over all its steps. */
export function decideEnding(counts: Counts): "finish_items" | "finish_items_with_failures" {
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
  "batch.paused",
  "batch.resumed",
  "batch.moved",
  "batch.parked",
  "batch.cancel_requested",
  "dead_letters.redriven",
  "dead_letters.discarded",
  "details.erased",
  "dead_letter.edited",
  "batch.reopened",
  "step.ended",
  "batch.drained",
  "batch.ended",
  "batch.released",
] as const;
export type RecordType = (typeof RECORD_TYPES)[number];

/**
 * A change of a chunk's items, where the pipeline keeps a ledger of items: a link, but not an
 * event.
 */
export const ITEMS_RECORDED = "items.recorded";
/** What a batch's chain may contain. */
export type LinkType = RecordType | typeof ITEMS_RECORDED;

/** Why a batch ended before its items did. */
export interface EndReason {
  readonly code: string;
  readonly message: string;
}

export interface BatchRecord {
  readonly type: RecordType;
  readonly data: { readonly [key: string]: Json | undefined };
}

/** Who acted on a batch by hand, and why. */
export interface Act {
  readonly by: string;
  readonly why: string | null;
}

export function describeAct({ by, why }: Act): { readonly by: string; readonly why?: string } {
  return why === null ? { by } : { by, why };
}
