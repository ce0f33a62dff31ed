/**
 * What a handler may return about an item. A plain return value is a success with that result, and
 * a thrown error is classified; these are for everything else, and for `processChunk`, which
 * returns an outcome for each item.
 */

const OUTCOME = Symbol.for("sluice.outcome");

/**
 * One type for all of them, so that users can export what returns them: a union of several would be
 * split up in their declarations. `Result` is `never` where no result is left.
 */
export interface ItemOutcome<Result = unknown> {
  readonly [OUTCOME]: KnownOutcome[typeof OUTCOME];
  readonly value?: Result;
}

/** The same, told apart. */
type KnownOutcome =
  | { readonly [OUTCOME]: "succeeded"; readonly value: unknown }
  | { readonly [OUTCOME]: "skipped"; readonly reason: string | null }
  | { readonly [OUTCOME]: "failed"; readonly error: unknown }
  | { readonly [OUTCOME]: "later"; readonly inMs: number };

const makeOutcome = <Result>(outcome: KnownOutcome): ItemOutcome<Result> =>
  outcome as ItemOutcome<Result>;

/** The item is done; the value, if any, is stored as its result. */
export function succeeded(): ItemOutcome<undefined>;
export function succeeded<Result>(value: Result): ItemOutcome<Result>;
export function succeeded(value?: unknown): ItemOutcome {
  return makeOutcome({ [OUTCOME]: "succeeded", value });
}

/** There was nothing to do: counted separately, and not as a failure. The reason is logged. */
export function skipped(reason?: string): ItemOutcome<never> {
  return makeOutcome({ [OUTCOME]: "skipped", reason: reason ?? null });
}

/** The same as throwing the error for this item alone. */
export function failed(error: unknown): ItemOutcome<never> {
  return makeOutcome({ [OUTCOME]: "failed", error });
}

/**
 * Nothing can be done for the item yet: it runs again after this time, and no attempt is counted.
 */
export function later(inMs: number): ItemOutcome<never> {
  return makeOutcome({ [OUTCOME]: "later", inMs });
}

export function readOutcome(value: unknown): KnownOutcome | null {
  return typeof value === "object" && value !== null && OUTCOME in value
    ? (value as KnownOutcome)
    : null;
}

export function readOutcomeKind(outcome: KnownOutcome): KnownOutcome[typeof OUTCOME] {
  return outcome[OUTCOME];
}
