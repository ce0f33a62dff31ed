/** The number of starts in every window of time, of any length, over all processes. */

/** Times have three digits after the point: the largest rounding error as a share of a token. */
const ROUNDING = 1e-3;

/**
 * The most by which the starts of any window exceed a rate, in tokens: burst + rate x d in a window
 * of length d. Never above 0 for correct starts. For starts i to j it is (j + 1 - rate x t(j)) - (i
 * - rate x t(i)) - burst, so the lowest value of the latter until now is enough.
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

/** Starts that come less than `everyMs` after the start that is `items` before them. */
export function findCrowds(
  times: readonly number[],
  { items, everyMs }: { readonly items: number; readonly everyMs: number },
): { readonly from: number; readonly withinMs: number }[] {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted.slice(items).flatMap((time, at) => {
    const from = sorted[at] ?? time;
    // Each of the two is rounded by at most half a digit.
    return time - from < everyMs - ROUNDING ? [{ from, withinMs: time - from }] : [];
  });
}
