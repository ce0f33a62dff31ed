/**
 * What a worker's report does to its chunk: a settle, a flush of partial outcomes and a give-back
 * are one act with three ends. Only items that failed, wait or are under suspicion are tracked in
 * rows of their own; the common report touches none and is a merge of two small maps.
 */
import { decideAfterReport, type ReportIntent, type ReportResult } from "./chunk.ts";
import type { OutcomeDelta } from "./counts.ts";
import type { ErrorClass } from "./errors.ts";
import {
  FAILED,
  getOutcome,
  mergeOutcomes,
  type OutcomeMap,
  PENDING,
  SUCCEEDED,
  setOutcome,
} from "./outcome-map.ts";
import { DEATHS_MAX, decideAfterLoss } from "./poison.ts";

/** Why an item's last attempt failed. */
export interface ItemError {
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
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
}

/** An attempt that failed: the item waits for its next try, or gave up. */
export interface ItemFailure extends ItemError {
  readonly index: number;
  readonly key: string | null;
  readonly attempts: number;
  /** Null: no further try; the item is a dead letter. */
  readonly retryInMs: number | null;
}

export interface ItemResult {
  readonly index: number;
  readonly key: string | null;
  /** JSON text. */
  readonly value: string;
}

export interface ReportFacts {
  /** The chunk's whole map as the worker knows it; what is stored already stands. */
  readonly outcomes: OutcomeMap;
  readonly failures: readonly ItemFailure[];
  readonly results: readonly ItemResult[];
  /** Careful runs only: the items that are started as soon as this is committed. */
  readonly starting: readonly number[];
  readonly intent: ReportIntent;
}

export interface StoredChunk {
  readonly items: number;
  readonly outcomes: OutcomeMap;
  readonly tracked: readonly TrackedItem[];
}

export interface ChunkEffect {
  readonly outcomes: OutcomeMap;
  readonly delta: OutcomeDelta;
  readonly end: Exclude<ReportResult, "lost">;
  /** When a yielded chunk may be leased again. */
  readonly dueAt: number;
  readonly track: readonly TrackedItem[];
  readonly untrack: readonly number[];
  readonly results: readonly ItemResult[];
}

const ENDS = { settle: "settled", keep: "kept", yield: "yielded" } as const;

export function decideReport(stored: StoredChunk, report: ReportFacts, nowMs: number): ChunkEffect {
  const merged = mergeOutcomes(stored.outcomes, report.outcomes, stored.items);
  const end = ENDS[decideAfterReport(merged.pending, report.intent)];
  const common = { outcomes: merged.map, delta: merged.delta, end };
  const fresh = (index: number): boolean => getOutcome(stored.outcomes, index) === PENDING;
  const results = report.results.filter(
    ({ index }) => fresh(index) && getOutcome(merged.map, index) === SUCCEEDED,
  );
  if (stored.tracked.length + report.failures.length + report.starting.length === 0) {
    return { ...common, dueAt: nowMs, track: [], untrack: [], results };
  }
  const before = new Map(stored.tracked.map((item) => [item.index, item]));
  const items = new Map(before);
  const isPending = (index: number): boolean => getOutcome(merged.map, index) === PENDING;
  for (const item of stored.tracked) {
    if (item.started) items.set(item.index, { ...item, started: false });
  }
  for (const failure of report.failures) {
    if (fresh(failure.index)) items.set(failure.index, failItem(items, failure, nowMs));
  }
  for (const index of report.starting) {
    if (isPending(index))
      items.set(index, { ...(items.get(index) ?? newItem(index)), started: true });
  }
  const [kept, dropped] = partition(
    [...items.values()],
    (item) =>
      item.dead || (isPending(item.index) && (item.started || item.attempts + item.deaths > 0)),
  );
  return {
    ...common,
    dueAt: earliestDue(kept, merged.pending, nowMs),
    track: kept.filter((item) => before.get(item.index) !== item),
    untrack: dropped.filter(({ index }) => before.has(index)).map(({ index }) => index),
    results,
  };
}

function partition<T>(all: readonly T[], matches: (one: T) => boolean): [T[], T[]] {
  return [all.filter(matches), all.filter((one) => !matches(one))];
}

function newItem(index: number): TrackedItem {
  return {
    index,
    key: null,
    attempts: 0,
    deaths: 0,
    started: false,
    dead: false,
    dueAt: 0,
    error: null,
  };
}

function failItem(
  items: ReadonlyMap<number, TrackedItem>,
  failure: ItemFailure,
  nowMs: number,
): TrackedItem {
  const { index, key, attempts, errorClass, code, message, retryInMs } = failure;
  return {
    index,
    key,
    attempts,
    deaths: items.get(index)?.deaths ?? 0,
    started: false,
    dead: retryInMs === null,
    dueAt: retryInMs === null ? 0 : nowMs + retryInMs,
    error: { errorClass, code, message },
  };
}

/** Items without a row are due at once; otherwise the chunk waits for its earliest one. */
function earliestDue(tracked: readonly TrackedItem[], pending: number, nowMs: number): number {
  const waiting = tracked.filter((item) => !item.dead);
  if (waiting.length < pending) return nowMs;
  return waiting.reduce((due, item) => Math.min(due, item.dueAt), Number.POSITIVE_INFINITY);
}

/** What losing its lease does to a chunk: see poison.ts. */
export function decideLoss(stored: StoredChunk, nowMs: number): ChunkEffect {
  const started = stored.tracked.filter((item) => item.started);
  const byIndex = new Map(started.map((item) => [item.index, item]));
  const outcomes = new Uint8Array(stored.outcomes);
  const track = decideAfterLoss(started).map(({ index, deaths, convicted }): TrackedItem => {
    const item = byIndex.get(index) as TrackedItem;
    const attempts = item.attempts + 1;
    const charged = { ...item, deaths, attempts, started: false };
    if (!convicted) return charged;
    setOutcome(outcomes, index, FAILED);
    // The first death, in bulk, was held against nobody; now it is known whose it was.
    return {
      ...charged,
      attempts: Math.max(attempts, deaths),
      dead: true,
      dueAt: 0,
      error: POISON,
    };
  });
  const merged = mergeOutcomes(stored.outcomes, outcomes, stored.items);
  const tracked = [...stored.tracked.filter((item) => !item.started), ...track];
  return {
    outcomes: merged.map,
    delta: merged.delta,
    end: merged.pending === 0 ? "settled" : "yielded",
    // A chunk whose every item is in back-off stays so: a lease would find nothing to run.
    dueAt: Math.max(nowMs, earliestDue(tracked, merged.pending, nowMs)),
    track,
    untrack: [],
    results: [],
  };
}

const POISON: ItemError = {
  errorClass: "permanent",
  code: "POISON",
  message: `its worker died or hung ${DEATHS_MAX} times while running it, the last time with no other item beside it`,
};
