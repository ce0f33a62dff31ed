/** Items that have a row of their own, and the effect of a store's act on their chunk. */
import type { ReportResult } from "../batch/chunk.ts";
import type { OutcomeDelta } from "../batch/counts.ts";
import type { ErrorClass } from "../base/errors.ts";
import { type FailureTally, NO_FAILURES } from "../batch/failure-budget.ts";
import type { OutcomeMap } from "./outcome-map.ts";
import type { LimitWait } from "./report.ts";
import type { DrivenMessage } from "./item-message.ts";

/** Why an item's last attempt failed. */
export interface ItemError {
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
}

/** How far a handler with several stages has come with an item. */
export interface Checkpoint {
  readonly name: string;
  /** JSON text. */
  readonly data: string;
}

/** An item with a row of its own. Positions count from the start of its chunk. */
export interface TrackedItem {
  readonly index: number;
  readonly key: string | null;
  readonly attempts: number;
  readonly deaths: number;
  /** Its start was written and its end was not. */
  readonly started: boolean;
  /** It gave up: a dead letter. */
  readonly dead: boolean;
  /** The store's monotonic time of its next try. */
  readonly dueAt: number;
  readonly error: ItemError | null;
  readonly checkpoint: Checkpoint | null;
  /** The drive in which it runs: 1, or that of its last redrive. */
  readonly drive: number;
}

export interface ItemResult {
  readonly index: number;
  readonly key: string | null;
  /** JSON text. */
  readonly value: string;
}

export interface StoredChunk {
  readonly items: number;
  readonly outcomes: OutcomeMap;
  readonly tracked: readonly TrackedItem[];
  /** Leases lost in a row without a sign of progress. */
  readonly losses: number;
}

export interface ChunkEffect {
  readonly outcomes: OutcomeMap;
  readonly delta: OutcomeDelta;
  readonly end: Exclude<ReportResult, "lost">;
  /** When a yielded chunk may be leased again. */
  readonly dueAt: number;
  /** The limit that a yielded chunk waits for; null for none. */
  readonly limitWait: LimitWait | null;
  readonly track: readonly TrackedItem[];
  readonly untrack: readonly number[];
  readonly results: readonly ItemResult[];
  readonly messages: readonly DrivenMessage[];
  /** How many items became dead letters, by the class of their error. */
  readonly tally: FailureTally;
  readonly losses: number;
}

export function newItem(index: number): TrackedItem {
  return {
    index,
    key: null,
    attempts: 0,
    deaths: 0,
    started: false,
    dead: false,
    dueAt: 0,
    error: null,
    checkpoint: null,
    drive: 1,
  };
}

export function tallyDead(dead: readonly TrackedItem[]): FailureTally {
  const tally = { ...NO_FAILURES };
  for (const { error } of dead) {
    if (error !== null && error.errorClass !== "fatal") tally[error.errorClass]++;
  }
  return tally;
}

/** It has facts that must not be lost while it is pending. */
export function isWorthARow({
  started,
  attempts,
  deaths,
  dueAt,
  checkpoint,
  drive,
}: TrackedItem): boolean {
  return started || attempts + deaths > 0 || dueAt > 0 || checkpoint !== null || drive > 1;
}

/**
 * Items without a row are due at once; otherwise the chunk waits for its earliest one. With a limit
 * wait, nothing is due before that is over.
 */
export function earliestDue(
  tracked: readonly TrackedItem[],
  pending: number,
  nowMs: number,
  restUntil = nowMs,
): number {
  const waiting = tracked.filter((item) => !item.dead);
  const first = waiting.length < pending ? restUntil : Number.POSITIVE_INFINITY;
  const earliest = waiting.reduce(
    (due, { dueAt }) => Math.min(due, restUntil > nowMs && dueAt <= nowMs ? restUntil : dueAt),
    first,
  );
  return waiting.length < pending ? Math.max(nowMs, earliest) : earliest;
}
