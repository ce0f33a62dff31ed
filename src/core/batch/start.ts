/** A last look at a batch before it starts: what lay between its submission and its turn. */

export const START_DECISIONS = [
  /** Somebody cancelled it, or it ended otherwise. */
  "skip_cancelled",
  /** Another process starts it right now. */
  "skip_duplicate",
  /** An earlier attempt was left lying for hours: its lane has gone on, and its half-made plan is gone. */
  "skip_stale",
  "try_later",
  "go_on",
] as const;
export type StartDecision = (typeof START_DECISIONS)[number];

export interface StartFacts {
  /** Null: the store cannot be reached. */
  readonly batch: {
    readonly ended: boolean;
    readonly cancelRequested: boolean;
    readonly parkedAsStale: boolean;
    /** It has its lane's turn, or its items must be taken in before that. */
    readonly mayStart: boolean;
  } | null;
  readonly startedElsewhere: boolean;
}

export function decideStart({ batch, startedElsewhere }: StartFacts): StartDecision {
  if (batch === null) return "try_later";
  if (batch.ended || batch.cancelRequested) return "skip_cancelled";
  if (batch.parkedAsStale) return "skip_stale";
  if (startedElsewhere) return "skip_duplicate";
  return batch.mayStart ? "go_on" : "try_later";
}
