/**
 * Durations counted in buckets: what Prometheus is shown, and what is learned of a handler. An
 * observation costs a few comparisons and makes no garbage.
 */

/** For people and alarms, in milliseconds: from handlers that only compute to those that take their five minutes. */
export const SHOWN_BOUNDS_MS: readonly number[] = [
  1, 5, 25, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

export class DurationHistogram {
  readonly #boundsMs: readonly number[];
  /** One more than there are bounds: the last is for what is longer than all of them. */
  readonly #counts: Float64Array;
  #count = 0;
  #sumMs = 0;

  /** Bounds rise; a bucket holds what is above the bound before it and not above its own. */
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

  /** What was seen so far counts for half from here on. */
  fade(): void {
    for (let at = 0; at < this.#counts.length; at++) (this.#counts[at] as number) /= 2;
    this.#count /= 2;
    this.#sumMs /= 2;
  }

  /** How many took at most so long, for each bound. */
  listCumulative(): { readonly boundMs: number; readonly count: number }[] {
    let count = 0;
    return this.#boundsMs.map((boundMs, at) => {
      count += this.#counts[at] as number;
      return { boundMs, count };
    });
  }

  /** The bound that this share of them did not pass; the last one where it is beyond all of them. */
  findBoundMs(share: number): number | null {
    let count = 0;
    for (let at = 0; at < this.#boundsMs.length; at++) {
      count += this.#counts[at] as number;
      if (count >= this.#count * share) return this.#boundsMs[at] as number;
    }
    return this.#boundsMs.at(-1) ?? null;
  }
}
