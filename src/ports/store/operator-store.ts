/**
 * The store as an operator uses it: batches are cancelled, paused, moved and redriven, and what
 * nobody needs any more is removed. Every act is one transaction, says who did it and why, and
 * comes too late rather than in between: a batch that has moved on is left alone.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { Act } from "../../core/batch/batch.ts";
import type { StopMode } from "../../core/batch/chunk.ts";
import type { LanePolicy } from "../../core/batch/lane.ts";
import type { LimitTarget, LimitValue } from "../../core/limits/limit.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { PruneAges } from "../../core/batch/retention.ts";
import type { ActResult, BatchSnapshot } from "./conductor-store.ts";

export interface CancelRequest extends Act {
  readonly mode: StopMode;
}

export interface PauseScope {
  readonly scope: "batch" | "lane" | "pipeline";
  readonly name: string;
}

export interface PauseRequest extends PauseScope, Act {
  readonly mode: StopMode;
}

export interface RedriveRequest extends Act {
  readonly filter: DeadLetterFilter;
  /** At most this many letters. */
  readonly ceiling: number;
  /** Items a second, or null for all at once. */
  readonly perSecond: number | null;
  /** Also what an early end cancelled: without it a batch that was stopped stays stopped. */
  readonly withCancelled: boolean;
  /** Counts only. */
  readonly dryRun: boolean;
}

export type RedriveResult =
  | {
      readonly kind: "done";
      readonly batch: BatchSnapshot;
      /** Letters that went back to work (or would). */
      readonly redriven: number;
      /** Cancelled items that did. */
      readonly revived: number;
      /** Letters in chunks that are running: they can be redriven when those are done. */
      readonly busy: number;
      /** More letters match than the ceiling allows. */
      readonly left: number;
    }
  /** The batch is not one whose letters can be redriven now. */
  | { readonly kind: "refused"; readonly batch: BatchSnapshot; readonly why: RedriveRefusal };

export type RedriveRefusal =
  /** Nothing matches. */
  | "no_letters"
  /** It is being cancelled. */
  | "cancelling"
  /** It stopped early, and its cancelled items were not asked for. */
  | "stopped_early"
  /** It stopped before its plan was complete. */
  | "never_planned"
  /** The letters belong to a step that is over while a later one runs. */
  | "step_is_over"
  /** Retention has removed its items. */
  | "pruned"
  /** It waits for its turn or is being sliced: nothing of it has failed yet. */
  | "not_running";

export interface EditRequest extends Act {
  readonly step: number;
  readonly item: number;
  /** JSON text. */
  readonly value: string;
}

export interface DiscardRequest extends Act {
  readonly filter: DeadLetterFilter;
}

/** Where a batch goes in the queue of its lane. */
export type LaneMove = { readonly to: "front" | "back" } | { readonly before: string };

/** Ages of batches without one of their own: each of those stands in its place, unless one is named. */
export interface PrunePolicy extends PruneAges {
  /**
   * Ended longer ago than this: scratch data goes (manifests, checkpoints, edited payloads). Written
   * longer ago, and acknowledged by every group of its topic: a message goes, unless it is the one of
   * an undelivered letter.
   */
  readonly scratchAgeMs: number | null;
  /** Ended longer ago than this: the batch goes with all its evidence. */
  readonly evidenceAgeMs: number | null;
  /** Only this batch, by these ages and not its own, and no messages; default all. */
  readonly batch?: string;
  /** Counts only. */
  readonly dryRun: boolean;
}

export type PruneResult = Unnamed<{
  /** Batches whose scratch data went. */
  readonly scratched: number;
  /** Batches that went. */
  readonly removed: number;
  /** Messages of topics that went. */
  readonly messages: number;
  /** Old enough, but a subscriber has not been told of them yet. */
  readonly owed: number;
  /** There may be more: call again. */
  readonly more: boolean;
}>;

/** Null takes the operator's value away: what the pipeline declares counts again. */
export type LimitRequest = LimitTarget & { readonly value: LimitValue | null };

export interface OperatorStore {
  /**
   * Stops a batch: nothing of it is leased any more, and it ends `cancelled` in the commit that
   * gives its last lease back (at once if there is none). `moved_on` when it had ended before.
   */
  cancel(batch: string, request: CancelRequest): Promise<ActResult>;
  /** False when it was paused already, which then stands, or is a batch that has ended. */
  pause(request: PauseRequest): Promise<boolean>;
  /** False when it was not paused. Resuming a batch also takes it up again if it was parked. */
  resume(scope: PauseScope, act: Act): Promise<boolean>;
  /** A lane that stood still goes on at once, if the policy lets somebody in it go on. */
  setLanePolicy(lane: string, policy: LanePolicy): Promise<void>;
  /** Moves a batch that waits; `moved_on` when it does not, or the other one does not. */
  moveInLane(batch: string, move: LaneMove, act: Act): Promise<ActResult>;
  redrive(batch: string, request: RedriveRequest): Promise<RedriveResult>;
  /** Puts another payload in place of a dead letter's; false when the item is none. */
  editDeadLetter(batch: string, request: EditRequest): Promise<boolean>;
  /** Accepts failures: they stay failures, and are not redriven. Answers how many there were. */
  discardDeadLetters(batch: string, request: DiscardRequest): Promise<number>;
  /**
   * Removes what the policy allows, a little at a time, and never what is unfinished or owed. Ages
   * are by the clock that stamped the endings: a host whose own clock is wrong removes nothing early.
   */
  prune(policy: PrunePolicy): Promise<PruneResult>;
  /**
   * Sets a limit above what pipelines declare, for all that is leased from now on; the change is
   * kept with who made it and why. False when that is what it was. A cap of a batch goes with it.
   */
  setLimit(request: LimitRequest, act: Act): Promise<boolean>;
}
