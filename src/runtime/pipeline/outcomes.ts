/**
 * What a handler may say about an item. A plain return value is a success with that result, a thrown
 * error is classified; these are for the rest, and for `processChunk`, which answers for each item.
 */

const OUTCOME = Symbol.for("sluice.outcome");

export interface SucceededOutcome<Result = unknown> {
  readonly [OUTCOME]: "succeeded";
  readonly value: Result;
}

export interface SkippedOutcome {
  readonly [OUTCOME]: "skipped";
  readonly reason: string | null;
}

export interface FailedOutcome {
  readonly [OUTCOME]: "failed";
  readonly error: unknown;
}

export interface LaterOutcome {
  readonly [OUTCOME]: "later";
  readonly inMs: number;
}

export type ItemOutcome<Result = unknown> =
  | SucceededOutcome<Result>
  | SkippedOutcome
  | FailedOutcome
  | LaterOutcome;

/** The item is done; the value, if any, is kept as its result. */
export function succeeded(): SucceededOutcome<undefined>;
export function succeeded<Result>(value: Result): SucceededOutcome<Result>;
export function succeeded(value?: unknown): SucceededOutcome {
  return { [OUTCOME]: "succeeded", value };
}

/** There was nothing to do: counted apart, and no failure. The reason goes to the log. */
export function skipped(reason?: string): SkippedOutcome {
  return { [OUTCOME]: "skipped", reason: reason ?? null };
}

/** The same as throwing the error for this item alone. */
export function failed(error: unknown): FailedOutcome {
  return { [OUTCOME]: "failed", error };
}

/** Nothing can be done for the item yet: it comes again after this time, and no try is counted. */
export function later(inMs: number): LaterOutcome {
  return { [OUTCOME]: "later", inMs };
}

export function readOutcome(value: unknown): ItemOutcome | null {
  return typeof value === "object" && value !== null && OUTCOME in value
    ? (value as ItemOutcome)
    : null;
}

export function readOutcomeKind(outcome: ItemOutcome): ItemOutcome[typeof OUTCOME] {
  return outcome[OUTCOME];
}
