/** The options of every sink, and the error for invalid ones. */
import type { RecordType } from "../core/batch/batch.ts";
import { SluiceError } from "../core/base/errors.ts";
import type { OptionProblems } from "../core/events/option-problems.ts";

export interface DeliveryOptions {
  /** Only these events; default all. */
  readonly events?: readonly RecordType[];
  /** Attempts before an event is stored as undelivered. */
  readonly attempts?: number;
  /** The delay between two attempts: doubled from the base up to the cap, with jitter. */
  readonly backoff?: { readonly baseMs?: number; readonly capMs?: number };
}

export const DELIVERY_OPTIONS = ["events", "attempts", "backoff"];
export const TIMEOUT_MS_MAX = 3_600_000;

/** A mistake in a notification should be seen at definition, not when something has gone wrong. */
export function throwIfBad(problems: OptionProblems, sink: string): void {
  const problem = problems.describe(sink);
  if (problem === null) return;
  throw new SluiceError("BAD_OPTION", problem, { field: "sink", hint: `Fix this in ${sink}().` });
}
