/**
 * How long the calls of one handler take, learned from those that ended: a small histogram whose
 * buckets grow geometrically, so that it tells milliseconds from minutes in some hundred numbers. It
 * forgets by halves, so that a handler that has become slower is known for it after a few hundred calls.
 */

/** A bucket is 19 % wider than the one before it: so far may an answer be too long, and never too short. */
const BUCKETS_PER_DOUBLING = 4;
/** Up to 2^28 ms, three days. */
const BUCKETS = 28 * BUCKETS_PER_DOUBLING + 1;
/** When so many calls are remembered, each of them counts for half. */
const CALLS_REMEMBERED = 512;
const SHARE = 0.95;
/** Fewer calls say nothing about one in twenty: a single slow one would be all that is known. */
const CALLS_MIN = 20;

export class Durations {
  readonly #buckets = new Float64Array(BUCKETS);
  #calls = 0;

  add(tookMs: number): void {
    const at = findBucket(tookMs);
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#calls++;
    if (this.#calls < CALLS_REMEMBERED) return;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) / 2;
    }
    this.#calls /= 2;
  }

  /** Within this time 95 of 100 calls end; null while too few have. */
  computeExpectedMs(): number | null {
    if (this.#calls < CALLS_MIN) return null;
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += this.#buckets[bucket] ?? 0;
      if (seen >= this.#calls * SHARE) return 2 ** (bucket / BUCKETS_PER_DOUBLING);
    }
    return null;
  }
}

/** The first bucket whose upper end is not below it. */
function findBucket(tookMs: number): number {
  if (!(tookMs > 1)) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log2(tookMs) * BUCKETS_PER_DOUBLING));
}
