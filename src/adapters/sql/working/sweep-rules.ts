/** Decisions of a sweep about the rows that it finds: looks at steps, stuck holders, reasons. */
import type { EndReason } from "../../../core/batch/batch.ts";
import {
  computeWatchDelayMs,
  countsAsStall,
  decideWatch,
  isWithoutProgress,
  noteLook,
  type StallFacts,
  type WatchState,
} from "../../../core/batch/watch.ts";
import type { SweepPolicy } from "../../../ports/store/worker-store.ts";
import { readPause } from "../rows.ts";

/** A step that is due for a look. */
export interface WatchedRow {
  readonly batch: number;
  readonly step: number;
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly pending: number;
  readonly has_due: number;
  readonly watch_previous: number | null;
  readonly watch_stalls: number;
}

export interface LookResult {
  /** A worker is working on it. */
  readonly isActive: boolean;
  readonly isStall: boolean;
  /** It stalled too often. */
  readonly isOver: boolean;
  readonly next: WatchState;
  readonly nextInMs: number;
}

export function judgeLook(row: WatchedRow, facts: StallFacts, policy: SweepPolicy): LookResult {
  const look = {
    previous: row.watch_previous,
    stalls: row.watch_stalls,
    current: row.pending,
    target: 0,
    stallsMax: policy.stallsMax,
  };
  const decision = decideWatch(look);
  const isStall = isWithoutProgress(decision) && countsAsStall(facts);
  return {
    isActive: decision === "progress_made" || facts.hasLiveLease,
    isStall,
    isOver: isStall && decision === "retries_exhausted",
    next: noteLook(look, decision, facts),
    nextInMs: computeWatchDelayMs(
      row.pending,
      isStall ? decision : "progress_made",
      policy.watchDelays,
    ),
  };
}

/** Why the holder of a lane is stuck; null when it is not. */
export function describeStuck(pause: string | null, isUnserved: boolean): string | null {
  const paused = readPause(pause);
  if (paused !== null) return `its ${paused.scope} is paused`;
  return isUnserved ? "no worker has its pipeline" : null;
}

export const DEADLINE: EndReason = {
  code: "DEADLINE",
  message: "it did not end before its deadline",
};
export const SEAL_DEADLINE: EndReason = {
  code: "SEAL_DEADLINE",
  message: "its producer did not seal it in time",
};
export const STALE: EndReason = {
  code: "STALE",
  message: "slicing stopped and did not resume for hours",
};
