/** Lanes, and the batches of one lane in their order. */
import type { BatchState } from "../core/batch/batch.ts";
import type { LanePolicy } from "../core/batch/lane.ts";
import type { PauseFacts, Why } from "../core/batch/why.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import type { LaneView as LaneFacts } from "../ports/store/query-store.ts";
import { countRun, type FullBatchView, viewBatchFully } from "./batch.ts";
import { type ReasonView, viewReason } from "./why.ts";

export interface LaneView {
  readonly lane: string;
  readonly policy: LanePolicy;
  readonly pause: LanePauseView | null;
  /** The batch that holds the lane. */
  readonly holder: HolderView | null;
  /** Batches in the queue. */
  readonly waiting: number;
  /** Batches that were removed from it. */
  readonly parked: number;
}

/** A pause of the lane or of its pipeline. */
export type LanePauseView = Pick<PauseFacts, "scope" | "name" | "by" | "why">;

function viewPause({ scope, name, by, why }: PauseFacts): LanePauseView {
  return { scope, name, by, why };
}

export interface HolderView {
  readonly batch: string;
  readonly pipeline: string;
  readonly state: BatchState;
  readonly done: number;
  readonly planned: number;
}

export function viewLane(facts: LaneFacts, holder: BatchSnapshot | null): LaneView {
  const { lane, policy, pause, waiting, parked } = facts;
  return {
    lane,
    policy,
    pause: pause === null ? null : viewPause(pause),
    holder: holder === null ? null : viewHolder(holder),
    waiting,
    parked,
  };
}

function viewHolder({ id, pipeline, state, counts }: BatchSnapshot): HolderView {
  return { batch: id, pipeline, state, done: countRun(counts), planned: counts.planned };
}

export interface QueuedView extends FullBatchView {
  /** Batches before it in its lane. */
  readonly ahead: number;
  readonly why: ReasonView;
}

export function viewQueued(
  batch: BatchSnapshot,
  ahead: number,
  why: Why,
  wallMs: number,
): QueuedView {
  return { ...viewBatchFully(batch, wallMs), ahead, why: viewReason(why) };
}
