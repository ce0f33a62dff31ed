/**
 * How a step ends, and what comes after it. Asked in the commit that makes an item terminal, so the
 * last one ends its step itself: with another pass over the dead letters, with the next step, or
 * with the end of the batch.
 */
import type { BatchRecord, BatchState, EndedState, EndReason } from "./batch.ts";
import { type Counts, NO_ITEMS } from "./counts.ts";
import type { ErrorClass } from "../base/errors.ts";
import type { FailureBudget } from "./failure-budget.ts";
import type { Pace } from "../limits/pace.ts";
import type { QuietRange } from "../limits/quiet-hours.ts";

/** What the store must know of a step to conduct it; recorded with the batch. */
export interface StepSettings {
  readonly name: string;
  readonly chunkSize: number;
  /** Automatic passes over the dead letters at the step's end. */
  readonly maxRedrives: number;
  /** Its items are the results of an earlier step, so that a rescued item goes on to it. */
  readonly carries: boolean;
  readonly budget: FailureBudget | null;
  readonly canary: Canary | null;
  /** Within which pace a batch's items start; null, or missing in older batches, for none. */
  readonly pace?: StepPace | null;
  /** Where items that give up are told of. Not there in batches of earlier releases. */
  readonly errorsTopic?: string | null;
  /** Where items are told of that an early end left undone. Not there in earlier batches either. */
  readonly unsentTopic?: string | null;
}

export interface StepPace extends Pace {
  readonly quiet: readonly QuietRange[];
  /** What a batch goes out through may be away: how long nothing starts then. */
  readonly outageMs: number;
  /** As many times in a row, and the batch has failed. */
  readonly outagesMax: number;
}

export function describeOutages(outages: number): EndReason {
  return {
    code: "OUTAGE",
    message: `what it goes out through was away ${outages} times in a row`,
  };
}

/** A first slice that must pass before the rest may run. */
export interface Canary {
  /** At least this many items: whole chunks are taken. */
  readonly items: number;
  /** More failures than this among them end the batch. */
  readonly failuresMax: number;
}

export interface StepFacts {
  readonly counts: Counts;
  /** No more items will be planned for the step. */
  readonly sealed: boolean;
  /** Automatic passes made so far. */
  readonly passes: number;
  readonly maxRedrives: number;
  /** Dead letters that another pass may rescue. */
  readonly redrivable: number;
  readonly isLast: boolean;
}

export type StepEnd =
  | { readonly kind: "goes_on" }
  /** `final`: the last pass that there will be. */
  | { readonly kind: "redrive"; readonly final: boolean }
  | { readonly kind: "next_step" }
  | { readonly kind: "end" };

export function decideStepEnd(facts: StepFacts): StepEnd {
  const { counts, sealed, passes, maxRedrives, redrivable, isLast } = facts;
  if (!sealed || counts.pending > 0) return { kind: "goes_on" };
  if (redrivable > 0 && passes < maxRedrives) {
    return { kind: "redrive", final: passes + 1 === maxRedrives };
  }
  return { kind: isLast ? "end" : "next_step" };
}

/** Given up for good by the engine itself: trying again by itself would repeat the harm. */
export const CODES_NEVER_REDRIVEN: readonly string[] = ["POISON", "STALLED", "LOST"];

/**
 * Whether an automatic pass takes a dead letter along. A permanent error cannot become a success
 * by itself; by hand everything can be redriven.
 */
export function isRedrivable(errorClass: ErrorClass, code: string): boolean {
  return errorClass !== "permanent" && !CODES_NEVER_REDRIVEN.includes(code);
}

/** The chunks that run first, of a step whose chunks have at most `chunkSize` items. */
export function computeCanaryChunks({ items }: Canary, chunkSize: number): number {
  return Math.ceil(items / chunkSize);
}

export type CanaryVerdict = "waits" | "passed" | "failed";

/** What the first slice says: its failures count as they happen, its pass when all have ended. */
export function decideCanary(
  { failuresMax }: Canary,
  failed: number,
  /** Some of its chunks are not settled, or not even planned. */
  isUnderWay: boolean,
): CanaryVerdict {
  if (failed > failuresMax) return "failed";
  return isUnderWay ? "waits" : "passed";
}

export function describeCanaryFailure({ failuresMax }: Canary, failed: number): EndReason {
  const allowed = failuresMax === 0 ? "none may" : `${failuresMax} may`;
  return {
    code: "CANARY_FAILED",
    message: `${failed} of the first items failed, where ${allowed}; nothing else was run`,
  };
}

export function addCounts(all: readonly Counts[]): Counts {
  return all.reduce(
    (sum, counts) => ({
      planned: sum.planned + counts.planned,
      succeeded: sum.succeeded + counts.succeeded,
      skipped: sum.skipped + counts.skipped,
      failed: sum.failed + counts.failed,
      cancelled: sum.cancelled + counts.cancelled,
      pending: sum.pending + counts.pending,
    }),
    NO_ITEMS,
  );
}

export interface EndedStep {
  readonly step: number;
  readonly name: string;
  readonly counts: Counts;
}

export function describeStepEnd({ step, name, counts }: EndedStep): BatchRecord {
  return { type: "step.ended", data: { step, name, counts: { ...counts } } };
}

/** A handler that was still running when its cancelled batch ended. */
export interface Abandoned {
  readonly step: number;
  readonly chunk: number;
  /** The items whose handlers ignored the stop; null when their worker was lost with them. */
  readonly items: readonly number[] | null;
}

/** How many of them an ending names; it counts them all. */
export const ABANDONED_NAMED_MAX = 100;

export interface EndingFacts {
  readonly from: BatchState;
  readonly to: EndedState;
  readonly step: EndedStep;
  /** Of all steps together. */
  readonly counts: Counts;
  readonly drive: number;
  readonly reason: EndReason | null;
  readonly abandoned: readonly Abandoned[];
}

/** The records that an ending writes, in its own transaction. */
export function describeEnding(facts: EndingFacts): BatchRecord[] {
  const { from, to, step, counts, drive, reason, abandoned } = facts;
  const cause = reason === null ? {} : { code: reason.code, message: reason.message };
  const records: BatchRecord[] = [];
  if (from === "slicing") records.push({ type: "slicing.aborted", data: cause });
  if (from === "running") {
    records.push(describeStepEnd(step), { type: "batch.drained", data: {} });
  }
  const left =
    abandoned.length === 0
      ? {}
      : {
          abandonedChunks: abandoned.length,
          abandoned: abandoned.slice(0, ABANDONED_NAMED_MAX).map(({ step: at, chunk, items }) => ({
            step: at,
            chunk,
            items: items === null ? null : [...items],
          })),
        };
  records.push({
    type: "batch.ended",
    data: { state: to, drive, counts: { ...counts }, ...cause, ...left },
  });
  return records;
}
