/**
 * How a step ends, and what follows it. The commit that makes the last item terminal decides, so no
 * separate check is needed: another pass over the dead letters, the next step, or the end of the
 * batch.
 */
import type { BatchRecord, BatchState, EndedState, EndReason } from "./batch.ts";
import { type Counts, NO_ITEMS } from "./counts.ts";
import type { ErrorClass } from "../base/errors.ts";
import type { FailureBudget } from "./failure-budget.ts";
import type { Pace } from "../limits/pace.ts";
import type { QuietRange } from "../limits/quiet-hours.ts";

/** What the store must know about a step to conduct it; recorded with the batch. */
export interface StepSettings {
  readonly name: string;
  readonly chunkSize: number;
  /** How many automatic passes over the dead letters happen at the step's end. */
  readonly maxRedrives: number;
  /** Its items are the results of an earlier step, so a rescued item also runs in this step. */
  readonly carries: boolean;
  readonly budget: FailureBudget | null;
  readonly canary: Canary | null;
  /** The pace at which a batch's items start; null (or absent in older batches) for none. */
  readonly pace?: StepPace | null;
  /**
   * The topic that gets a message for each item that gave up. Absent in batches of earlier
   * releases.
   */
  readonly errorsTopic?: string | null;
  /**
   * The topic that gets a message for each item that an early end left undone. Absent in batches of
   * earlier releases.
   */
  readonly unsentTopic?: string | null;
}

export interface StepPace extends Pace {
  readonly quiet: readonly QuietRange[];
  /** For how long nothing starts after an outage. */
  readonly outageMs: number;
  /** After this many outages in a row the batch fails. */
  readonly outagesMax: number;
}

export function describeOutages(outages: number): EndReason {
  return {
    code: "OUTAGE",
    message: `the system it sends through was unavailable ${outages} times in a row`,
  };
}

/** A first slice that must pass before the rest may run. */
export interface Canary {
  /** At least this many items: whole chunks are taken. */
  readonly items: number;
  /** More failures than this among them fail the batch. */
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
  /** `final`: no pass follows this one. */
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

/** The engine itself gave up on these for good: an automatic retry would repeat the harm. */
export const CODES_NEVER_REDRIVEN: readonly string[] = ["POISON", "STALLED", "LOST"];

/**
 * Whether an automatic pass redrives a dead letter. A permanent error cannot succeed by itself; an
 * operator can redrive everything.
 */
export function isRedrivable(errorClass: ErrorClass, code: string): boolean {
  return errorClass !== "permanent" && !CODES_NEVER_REDRIVEN.includes(code);
}

/** The chunks that run first, for a step whose chunks have at most `chunkSize` items. */
export function computeCanaryChunks({ items }: Canary, chunkSize: number): number {
  return Math.ceil(items / chunkSize);
}

export type CanaryVerdict = "waits" | "passed" | "failed";

/**
 * The result of the canary. It fails as soon as its failures exceed the limit, and passes when all
 * its items have ended.
 */
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
  return {
    code: "CANARY_FAILED",
    message: `${failed} of the first items failed, over the canary's limit of ${failuresMax}; nothing else ran`,
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
  /** The items whose handlers ignored the stop; null when they were lost with their worker. */
  readonly items: readonly number[] | null;
}

/** How many of them an ending lists; it counts all. */
export const ABANDONED_NAMED_MAX = 100;

export interface EndingFacts {
  readonly from: BatchState;
  readonly to: EndedState;
  readonly step: EndedStep;
  /** The sum over all steps. */
  readonly counts: Counts;
  readonly drive: number;
  readonly reason: EndReason | null;
  readonly abandoned: readonly Abandoned[];
}

/** The records of an ending, written in its own transaction. */
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
