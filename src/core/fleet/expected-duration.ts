/**
 * How long the calls of one handler take, learned from calls that ended. Old calls lose half their
 * weight at intervals, so a handler that became slower is recognised after a few hundred calls.
 */
import { DurationHistogram } from "../base/histogram.ts";

/**
 * Each bucket is 19 % wider than the one before. The answer may be that much too long, and is never
 * too short.
 */
const BUCKETS_PER_DOUBLING = 4;
/** From a millisecond to 2^28 ms, three days. */
const BOUNDS_MS = Array.from(
  { length: 28 * BUCKETS_PER_DOUBLING + 1 },
  (_, at) => 2 ** (at / BUCKETS_PER_DOUBLING),
);
/** After this many calls, the weight of each is halved. */
const CALLS_REMEMBERED = 512;
const SHARE = 0.95;
/** Fewer calls say nothing about the slowest 5 %: a single slow call would decide. */
const CALLS_MIN = 20;

export class ExpectedDuration {
  readonly #calls = new DurationHistogram(BOUNDS_MS);

  add(tookMs: number): void {
    this.#calls.observe(tookMs);
    if (this.#calls.count >= CALLS_REMEMBERED) this.#calls.fade();
  }

  /** The time within which 95 of 100 calls end; null with too few calls. */
  computeMs(): number | null {
    return this.#calls.count < CALLS_MIN ? null : this.#calls.findBoundMs(SHARE);
  }
}
