/** How many starts there were in every window of time, of any length, over all processes. */

/** Times are written with three digits: this share of a token is the most that they can be off. */
const ROUNDING = 1e-3;

/**
 * The most by which the starts of any window exceed what a rate allows, in tokens: burst + rate x d in
 * a window of length d. Never above 0 for starts as promised. For starts i to j it is
 * (j + 1 - rate x t(j)) - (i - rate x t(i)) - burst, so the lowest of the latter so far will do.
 */
export function findRateExcess(
  times: readonly number[],
  { perSecond, burst }: { readonly perSecond: number; readonly burst: number },
): number {
  const perMs = perSecond / 1_000;
  let lowest = Number.POSITIVE_INFINITY;
  let worst = Number.NEGATIVE_INFINITY;
  for (const [at, time] of times.toSorted((a, b) => a - b).entries()) {
    lowest = Math.min(lowest, at - perMs * time);
    worst = Math.max(worst, at + 1 - perMs * time - lowest - burst);
  }
  return worst <= ROUNDING ? Math.min(worst, 0) : worst;
}

/** Starts that follow upon the one that is `items` before them within less than `everyMs`. */
export function findCrowds(
  times: readonly number[],
  { items, everyMs }: { readonly items: number; readonly everyMs: number },
): { readonly from: number; readonly withinMs: number }[] {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted.slice(items).flatMap((time, at) => {
    const from = sorted[at] ?? time;
    // Each of the two is rounded by half a digit at most.
    return time - from < everyMs - ROUNDING ? [{ from, withinMs: time - from }] : [];
  });
}
