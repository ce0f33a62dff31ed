/**
 * What a worker's report does to its chunk. A settle, a flush of partial outcomes and a give-back
 * are one act with three ends. Only items that failed, wait or are suspects have rows of their own.
 * The common report has none of these and merges two small maps.
 */
import type { WaitReason } from "../limits/bucket.ts";
import { decideAfterReport, type ReportIntent } from "../batch/chunk.ts";
import { NO_FAILURES } from "../batch/failure-budget.ts";
import type { ItemCommit } from "./item-commit.ts";
import {
  FAILED,
  getOutcome,
  mergeOutcomes,
  type OutcomeMap,
  PENDING,
  SUCCEEDED,
} from "./outcome-map.ts";
import type { DrivenMessage, ItemMessage } from "./item-message.ts";
import {
  type Checkpoint,
  type ChunkEffect,
  earliestDue,
  isWorthARow,
  type ItemError,
  type ItemResult,
  newItem,
  type StoredChunk,
  tallyDead,
  type TrackedItem,
} from "./tracked-item.ts";

/** An attempt that failed: the item waits for its next try, or gave up. */
export interface ItemFailure extends ItemError {
  readonly index: number;
  readonly key: string | null;
  readonly attempts: number;
  /** Null: no attempt is left; the item is a dead letter. */
  readonly retryInMs: number | null;
}

/** The item has nothing to do yet: it runs again later, and no attempt is counted. */
export interface ItemDeferral {
  readonly index: number;
  readonly key: string | null;
  readonly inMs: number;
}

export interface ItemCheckpoint extends Checkpoint {
  readonly index: number;
  readonly key: string | null;
}

/** An item whose content no other item may repeat: see ports/store/worker-store.ts. */
export interface ItemContent {
  readonly index: number;
  /** Scope, identity and content hash in one text. */
  readonly content: string;
}

/** A chunk with nothing left to do now, and the limit that its items wait for. */
export interface LimitWait {
  readonly inMs: number;
  readonly waitReason: WaitReason;
  /** The key that it waits for; null where the limit has no key. */
  readonly key: string | null;
}

export interface ReportFacts {
  /** The chunk's whole map as the worker knows it; stored outcomes stay. */
  readonly outcomes: OutcomeMap;
  readonly failures: readonly ItemFailure[];
  readonly results: readonly ItemResult[];
  readonly deferrals: readonly ItemDeferral[];
  readonly checkpoints: readonly ItemCheckpoint[];
  /** The contents of items that succeeded, where the pipeline refuses repeats. */
  readonly contents: readonly ItemContent[];
  /** Messages of items that succeeded or were skipped; messages of other items are not written. */
  readonly messages: readonly ItemMessage[];
  /**
   * Statements of items that succeeded or were skipped, for the same commit: see item-commit.ts.
   */
  readonly commits: readonly ItemCommit[];
  /** Items whose handlers ignored a stop and were left running. */
  readonly abandoned: readonly number[];
  /** Nothing of the chunk may start earlier, because of a limit; null for none. */
  readonly limitWait: LimitWait | null;
  /** Guarded runs only: the items that start as soon as this is committed. */
  readonly starting: readonly number[];
  readonly intent: ReportIntent;
}

const ENDS = { settle: "settled", keep: "kept", yield: "yielded" } as const;

export function decideReport(stored: StoredChunk, report: ReportFacts, nowMs: number): ChunkEffect {
  const merged = mergeOutcomes(stored.outcomes, report.outcomes, stored.items);
  const end = ENDS[decideAfterReport(merged.pending, report.intent)];
  const limitWait = end === "yielded" ? report.limitWait : null;
  const restUntil = nowMs + (limitWait?.inMs ?? 0);
  const fresh = (index: number): boolean => getOutcome(stored.outcomes, index) === PENDING;
  const messages = keepMessages(stored, report, merged.map);
  const common = { outcomes: merged.map, delta: merged.delta, end, limitWait, messages, losses: 0 };
  const newResults = report.results.filter(
    ({ index }) => fresh(index) && getOutcome(merged.map, index) === SUCCEEDED,
  );
  if (isPlain(stored, report)) {
    const none = { track: [], untrack: [], results: newResults, tally: NO_FAILURES };
    return { ...common, dueAt: restUntil, ...none };
  }
  const before = new Map(stored.tracked.map((item) => [item.index, item]));
  const isPending = (index: number): boolean => getOutcome(merged.map, index) === PENDING;
  const items = collectItems(before, report, fresh, isPending, nowMs);
  const [kept, dropped] = partition(
    [...items.values()],
    (item) => item.dead || (isPending(item.index) && isWorthARow(item)),
  );
  return {
    ...common,
    dueAt: earliestDue(kept, merged.pending, nowMs, restUntil),
    track: kept.filter((item) => before.get(item.index) !== item),
    untrack: dropped.filter(({ index }) => before.has(index)).map(({ index }) => index),
    results: newResults,
    tally: tallyDead(kept.filter((item) => item.dead && before.get(item.index) !== item)),
  };
}

/** For how many items of a report a handler was called. */
export function countTried({ delta }: ChunkEffect, { failures, deferrals }: ReportFacts): number {
  const again = failures.filter(({ retryInMs }) => retryInMs !== null).length;
  return delta.succeeded + delta.skipped + delta.failed + again + deferrals.length;
}

const NO_MESSAGES: readonly DrivenMessage[] = [];

/** The messages of attempts whose outcome this report sets, and no others. */
function keepMessages(
  stored: StoredChunk,
  { messages }: ReportFacts,
  merged: OutcomeMap,
): readonly DrivenMessage[] {
  if (messages.length === 0) return NO_MESSAGES;
  const drives = new Map(stored.tracked.map(({ index, drive }) => [index, drive]));
  return messages
    .filter(({ index }) => {
      const outcome = getOutcome(merged, index);
      const isDone = outcome !== PENDING && outcome !== FAILED;
      return isDone && getOutcome(stored.outcomes, index) === PENDING;
    })
    .map((message) => ({ ...message, drive: drives.get(message.index) ?? 1 }));
}

/** It has no facts about single items: the common case. */
function isPlain(stored: StoredChunk, report: ReportFacts): boolean {
  const { failures, starting, deferrals, checkpoints } = report;
  return (
    stored.tracked.length === 0 &&
    failures.length === 0 &&
    starting.length === 0 &&
    deferrals.length === 0 &&
    checkpoints.length === 0
  );
}

/** The tracked items after the report. */
function collectItems(
  before: ReadonlyMap<number, TrackedItem>,
  report: ReportFacts,
  fresh: (index: number) => boolean,
  isPending: (index: number) => boolean,
  nowMs: number,
): Map<number, TrackedItem> {
  const items = new Map(before);
  for (const item of before.values()) {
    if (item.started) items.set(item.index, { ...item, started: false });
  }
  for (const { index, key, name, data } of report.checkpoints) {
    if (fresh(index)) {
      items.set(index, { ...getItem(items, index, key), checkpoint: { name, data } });
    }
  }
  for (const failure of report.failures) {
    if (fresh(failure.index)) items.set(failure.index, failItem(items, failure, nowMs));
  }
  for (const { index, key, inMs } of report.deferrals) {
    if (isPending(index)) {
      items.set(index, { ...getItem(items, index, key), dueAt: nowMs + inMs });
    }
  }
  for (const index of report.starting) {
    if (isPending(index)) {
      items.set(index, { ...getItem(items, index, null), started: true });
    }
  }
  return items;
}

function getItem(
  items: ReadonlyMap<number, TrackedItem>,
  index: number,
  key: string | null,
): TrackedItem {
  return items.get(index) ?? { ...newItem(index), key };
}

function partition<T>(all: readonly T[], matches: (one: T) => boolean): [T[], T[]] {
  return [all.filter(matches), all.filter((one) => !matches(one))];
}

function failItem(
  items: ReadonlyMap<number, TrackedItem>,
  failure: ItemFailure,
  nowMs: number,
): TrackedItem {
  const { index, key, attempts, errorClass, code, message, retryInMs } = failure;
  return {
    ...getItem(items, index, key),
    key,
    attempts,
    started: false,
    dead: retryInMs === null,
    dueAt: retryInMs === null ? 0 : nowMs + retryInMs,
    error: { errorClass, code, message },
  };
}
