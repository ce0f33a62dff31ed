/**
 * Durations counted in buckets: for Prometheus, and to learn how long a handler takes. An
 * observation costs a few comparisons and allocates nothing.
 */

/**
 * For people and alerts, in milliseconds: from handlers that only compute up to the five-minute
 * time limit.
 */
export const SHOWN_BOUNDS_MS: readonly number[] = [
  1, 5, 25, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

export class DurationHistogram {
  readonly #boundsMs: readonly number[];
  /** One more than there are bounds: the last bucket is for durations above all bounds. */
  readonly #counts: Float64Array;
  #count = 0;
  #sumMs = 0;

  /** Bounds rise. A bucket holds durations above the previous bound and up to its own. */
  constructor(boundsMs: readonly number[] = SHOWN_BOUNDS_MS) {
    this.#boundsMs = boundsMs;
    this.#counts = new Float64Array(boundsMs.length + 1);
  }

  get count(): number {
    return this.#count;
  }

  get sumMs(): number {
    return this.#sumMs;
  }

  observe(ms: number): void {
    let low = 0;
    let high = this.#boundsMs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ms > (this.#boundsMs[middle] as number)) low = middle + 1;
      else high = middle;
    }
    (this.#counts[low] as number)++;
    this.#count++;
    this.#sumMs += ms;
  }

  /** Halves the weight of everything observed so far. */
  fade(): void {
    for (let at = 0; at < this.#counts.length; at++) (this.#counts[at] as number) /= 2;
    this.#count /= 2;
    this.#sumMs /= 2;
  }

  /** For each bound, how many durations were at most that long. */
  listCumulative(): { readonly boundMs: number; readonly count: number }[] {
    let count = 0;
    return this.#boundsMs.map((boundMs, at) => {
      count += this.#counts[at] as number;
      return { boundMs, count };
    });
  }

  /** The bound that covers this share of the durations; the last bound where none does. */
  findBoundMs(share: number): number | null {
    let count = 0;
    for (let at = 0; at < this.#boundsMs.length; at++) {
      count += this.#counts[at] as number;
      if (count >= this.#count * share) return this.#boundsMs[at] as number;
    }
    return this.#boundsMs.at(-1) ?? null;
  }
}
