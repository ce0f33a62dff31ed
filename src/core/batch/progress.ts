/**
 * How fast a batch advances and when it will be done, as a range: a single time would be falsely
 * precise.
 */
import type { Counts } from "./counts.ts";

export interface ProgressSample {
  readonly atMs: number;
  readonly done: number;
}

export interface Estimate {
  readonly itemsPerSecond: number;
  /** Null until the first progress. */
  readonly etaMs: { readonly low: number; readonly high: number } | null;
}

export function countDone(counts: Counts): number {
  return counts.planned - counts.pending;
}

/** The newest samples, oldest first; enough for the last half minute at the usual interval. */
export const SAMPLES_MAX = 60;

export function addSample(
  samples: readonly ProgressSample[],
  sample: ProgressSample,
): ProgressSample[] {
  const kept =
    samples.length >= SAMPLES_MAX ? samples.slice(samples.length - SAMPLES_MAX + 1) : samples;
  return [...kept, sample];
}

/**
 * The rate over the whole window gives the middle; its slowest and quickest thirds give the range.
 * A batch with a constant speed gets a narrow range, an uneven one a wide range.
 */
export function computeEstimate(samples: readonly ProgressSample[], counts: Counts): Estimate {
  const overall = rateBetween(samples[0], samples.at(-1));
  if (overall <= 0) return { itemsPerSecond: 0, etaMs: null };
  const thirds = [0, 1, 2]
    .map((third) => {
      const last = samples.length - 1;
      return rateBetween(
        samples[Math.floor((last * third) / 3)],
        samples[Math.floor((last * (third + 1)) / 3)],
      );
    })
    .filter((rate) => rate > 0);
  const quickest = Math.max(overall, ...thirds);
  const slowest = Math.min(overall, ...thirds);
  return {
    itemsPerSecond: overall * 1000,
    etaMs: {
      low: Math.round(counts.pending / quickest),
      high: Math.round(counts.pending / slowest),
    },
  };
}

/** Items per millisecond. */
function rateBetween(from: ProgressSample | undefined, to: ProgressSample | undefined): number {
  if (from === undefined || to === undefined || to.atMs <= from.atMs) return 0;
  return (to.done - from.done) / (to.atMs - from.atMs);
}
