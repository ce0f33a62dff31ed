/**
 * How long the calls of one handler take, learned from those that ended. It forgets by halves, so that
 * a handler that has become slower is known for it after a few hundred calls.
 */
import { DurationHistogram } from "../base/histogram.ts";

/** A bucket is 19 % wider than the one before it: so far may an answer be too long, and never too short. */
const BUCKETS_PER_DOUBLING = 4;
/** From a millisecond up to 2^28 of them, three days. */
const BOUNDS_MS = Array.from(
  { length: 28 * BUCKETS_PER_DOUBLING + 1 },
  (_, at) => 2 ** (at / BUCKETS_PER_DOUBLING),
);
/** When so many calls are remembered, each of them counts for half. */
const CALLS_REMEMBERED = 512;
const SHARE = 0.95;
/** Fewer calls say nothing about one in twenty: a single slow one would be all that is known. */
const CALLS_MIN = 20;

export class ExpectedDuration {
  readonly #calls = new DurationHistogram(BOUNDS_MS);

  add(tookMs: number): void {
    this.#calls.observe(tookMs);
    if (this.#calls.count >= CALLS_REMEMBERED) this.#calls.fade();
  }

  /** Within this time 95 of 100 calls end; null while too few have. */
  computeMs(): number | null {
    return this.#calls.count < CALLS_MIN ? null : this.#calls.findBoundMs(SHARE);
  }
}
