/**
 * The store as an operator uses it: batches are cancelled, paused, moved and redriven, and expired
 * data is removed. Every act is one transaction, and records who did it and why. An act that comes
 * too late changes nothing: the batch has already moved on.
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
  /** At most this many dead letters. */
  readonly ceiling: number;
  /** Items a second, or null for all at once. */
  readonly perSecond: number | null;
  /** Also revive items that an early end cancelled: without it a stopped batch stays stopped. */
  readonly withCancelled: boolean;
  /** Counts only. */
  readonly dryRun: boolean;
}

export type RedriveResult =
  | {
      readonly kind: "done";
      readonly batch: BatchSnapshot;
      /** Dead letters that went back to work (or would). */
      readonly redriven: number;
      /** Cancelled items that went back to work (or would). */
      readonly revived: number;
      /** Dead letters in running chunks: they can be redriven when those have ended. */
      readonly busy: number;
      /** More dead letters match than the ceiling allows. */
      readonly left: number;
    }
  /** The batch's dead letters cannot be redriven now. */
  | { readonly kind: "refused"; readonly batch: BatchSnapshot; readonly why: RedriveRefusal };

export type RedriveRefusal =
  /** Nothing matches. */
  | "no_dead_letters"
  /** It is being cancelled. */
  | "cancelling"
  /** It stopped early, and the request did not include its cancelled items. */
  | "stopped_early"
  /** It stopped before its plan was complete. */
  | "never_planned"
  /** The dead letters belong to a step that has ended, while a later one runs. */
  | "step_is_over"
  /** Retention has removed its items. */
  | "pruned"
  /** It waits for its turn or is being sliced: none of its items has failed yet. */
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

/** Where a batch moves within the queue of its lane. */
export type LaneMove = { readonly to: "front" | "back" } | { readonly before: string };

/**
 * Ages for batches without their own. A batch's own ages take precedence, unless `batch` names it.
 */
export interface PrunePolicy extends PruneAges {
  /**
   * Scratch data of batches that ended longer ago is removed (manifests, checkpoints, edited
   * payloads). A message that is older and acknowledged by every group of its topic is removed too,
   * unless it is undelivered to a reader.
   */
  readonly scratchAgeMs: number | null;
  /** Batches that ended longer ago are removed with all their evidence. */
  readonly evidenceAgeMs: number | null;
  /** Only this batch, by these ages and not its own, and no messages; default all. */
  readonly batch?: string;
  /** Counts only. */
  readonly dryRun: boolean;
}

export type PruneResult = Unnamed<{
  /** Batches whose scratch data was removed. */
  readonly scratched: number;
  /** Batches that were removed. */
  readonly removed: number;
  /** Messages of topics that were removed. */
  readonly messages: number;
  /** Batches that are old enough, but have events that a subscriber has not received yet. */
  readonly owed: number;
  /** There may be more: call again. */
  readonly more: boolean;
}>;

/** Null removes the operator's value: the pipeline's own value applies again. */
export type LimitRequest = LimitTarget & { readonly value: LimitValue | null };

export interface OperatorStore {
  /**
   * Stops a batch: none of its chunks is leased any more, and it ends `cancelled` in the commit
   * that returns its last lease (at once if there is none). `moved_on` when it had already ended.
   */
  cancel(batch: string, request: CancelRequest): Promise<ActResult>;
  /** False when it was already paused (that pause stays), or when the batch has ended. */
  pause(request: PauseRequest): Promise<boolean>;
  /** False when it was not paused. Resuming a parked batch also unparks it. */
  resume(scope: PauseScope, act: Act): Promise<boolean>;
  /** A stuck lane continues at once, if the new policy allows one of its batches to run. */
  setLanePolicy(lane: string, policy: LanePolicy): Promise<void>;
  /** Moves a waiting batch; `moved_on` when it or the other batch does not wait. */
  moveInLane(batch: string, move: LaneMove, act: Act): Promise<ActResult>;
  redrive(batch: string, request: RedriveRequest): Promise<RedriveResult>;
  /** Replaces the payload of a dead letter; false when the item is not a dead letter. */
  editDeadLetter(batch: string, request: EditRequest): Promise<boolean>;
  /** Accepts failures: they stay failures, and are not redriven. Returns how many there were. */
  discardDeadLetters(batch: string, request: DiscardRequest): Promise<number>;
  /**
   * Removes what the policy allows, a little at a time, and never unfinished batches or data that a
   * reader still needs. Ages use the clock that stamped the endings: a host with a wrong clock
   * removes nothing early.
   */
  prune(policy: PrunePolicy): Promise<PruneResult>;
  /**
   * Sets a limit that replaces the pipeline's own, for everything leased from now on; the change is
   * stored with who made it and why. False when the value is unchanged. A batch's cap is deleted
   * with the batch.
   */
  setLimit(request: LimitRequest, act: Act): Promise<boolean>;
}
