/** Redrives dead letters: selects them, and computes the change of their chunk. */
import type { ErrorClass } from "../base/errors.ts";
import type { FailureTally } from "../batch/failure-budget.ts";
import { clearOutcome, countOutcomes, type OutcomeMap } from "./outcome-map.ts";
import { earliestDue, isWorthARow, type StoredChunk, type TrackedItem } from "./tracked-item.ts";

/** The facts about a dead letter that a filter can test. */
export interface DeadLetterFacts {
  readonly step: number;
  readonly item: number;
  readonly key: string | null;
  readonly errorClass: ErrorClass;
  readonly code: string;
}

/** All given parts must match; an empty filter matches all. */
export interface DeadLetterFilter {
  readonly step?: number;
  readonly items?: readonly number[];
  readonly keys?: readonly string[];
  readonly codes?: readonly string[];
  readonly classes?: readonly ErrorClass[];
}

export function matchesDeadLetter(filter: DeadLetterFilter, letter: DeadLetterFacts): boolean {
  const { step, items, keys, codes, classes } = filter;
  return (
    (step === undefined || letter.step === step) &&
    (items === undefined || items.includes(letter.item)) &&
    (keys === undefined || (letter.key !== null && keys.includes(letter.key))) &&
    (codes === undefined || codes.includes(letter.code)) &&
    (classes === undefined || classes.includes(letter.errorClass))
  );
}

export interface RedriveOrder {
  /** Position in the chunk. */
  readonly index: number;
  /** The store's monotonic time before which it does not run. */
  readonly dueAt: number;
}

export interface RedriveEffect {
  readonly outcomes: OutcomeMap;
  readonly track: readonly TrackedItem[];
  readonly count: number;
  /** How many dead letters of each class were redriven. */
  readonly tally: FailureTally;
  /** When the chunk has its first item to run. */
  readonly dueAt: number;
}

/** A new drive for some dead letters of a chunk that is not leased. */
export function decideRedrive(
  stored: StoredChunk,
  orders: readonly RedriveOrder[],
  drive: number,
): RedriveEffect {
  const dueAts = new Map(orders.map(({ index, dueAt }) => [index, dueAt]));
  const outcomes = new Uint8Array(stored.outcomes);
  const tally = { permanent: 0, transient: 0, unexpected: 0 };
  const track: TrackedItem[] = [];
  let dueAt = Number.POSITIVE_INFINITY;
  for (const item of stored.tracked) {
    const orderedAt = dueAts.get(item.index);
    if (orderedAt === undefined || !item.dead || item.error === null) continue;
    clearOutcome(outcomes, item.index);
    // Deaths and attempts start again at 0. The checkpoint stays.
    track.push({
      ...item,
      attempts: 0,
      deaths: 0,
      started: false,
      dead: false,
      dueAt: orderedAt,
      error: null,
      drive,
    });
    if (item.error.errorClass !== "fatal") tally[item.error.errorClass]++;
    dueAt = Math.min(dueAt, orderedAt);
  }
  return { outcomes, track, count: track.length, tally, dueAt };
}

export interface Revival {
  readonly track: readonly TrackedItem[];
  readonly untrack: readonly number[];
  /** When the chunk has its first item to run. */
  readonly dueAt: number;
}

/**
 * Items of a chunk that an early end cancelled go back to work. Their back-off continues, and
 * starts that were written before the end charge no item.
 */
export function decideRevival(stored: StoredChunk, nowMs: number): Revival {
  const { succeeded, skipped, failed } = countOutcomes(stored.outcomes);
  const living = stored.tracked
    .filter(({ dead }) => !dead)
    .map((item) => (item.started ? { ...item, started: false } : item));
  const kept = living.filter(isWorthARow);
  return {
    track: kept.filter((item) => !stored.tracked.includes(item)),
    untrack: living.filter((item) => !isWorthARow(item)).map(({ index }) => index),
    dueAt: earliestDue(kept, stored.items - succeeded - skipped - failed, nowMs),
  };
}

/** When the nth item of a redrive at a rate may run. */
export function computeRedriveDueAt(nowMs: number, nth: number, perSecond: number | null): number {
  return perSecond === null ? nowMs : nowMs + Math.floor((nth * 1_000) / perSecond);
}
