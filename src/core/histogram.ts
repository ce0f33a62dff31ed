/** Durations counted in fixed buckets. An observation costs a few comparisons and makes no garbage. */

/** Upper bounds in seconds: from handlers that only compute to those that take their five minutes. */
export const DURATION_BOUNDS: readonly number[] = [
  0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

const BOUNDS_MS = DURATION_BOUNDS.map((bound) => bound * 1_000);

export class DurationHistogram {
  /** One more than there are bounds: the last is for what is longer than all of them. */
  readonly #counts = new Float64Array(BOUNDS_MS.length + 1);
  #sumMs = 0;

  observe(ms: number): void {
    let at = 0;
    while (at < BOUNDS_MS.length && ms > (BOUNDS_MS[at] as number)) at++;
    (this.#counts[at] as number)++;
    this.#sumMs += ms;
  }

  get sumSeconds(): number {
    return this.#sumMs / 1_000;
  }

  get count(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }

  /** How many took at most so long, for each bound. */
  listCumulative(): { readonly bound: number; readonly count: number }[] {
    let count = 0;
    return DURATION_BOUNDS.map((bound, at) => {
      count += this.#counts[at] as number;
      return { bound, count };
    });
  }
}
