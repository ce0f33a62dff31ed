/**
 * Watching a count that others change: is it still moving, and when should it be checked again? One
 * decision serves a batch's own pending items (which fall to zero) and outside counts that rise to
 * a target (for example a search index that fills).
 */

export interface WatchState {
  /** The count at the last look; null before the first. */
  readonly previous: number | null;
  /** Looks without progress since the last progress. */
  readonly stalls: number;
}

export const FIRST_LOOK: WatchState = { previous: null, stalls: 0 };

export interface WatchLook extends WatchState {
  readonly current: number;
  /**
   * 0: the count falls to zero. Above 0: it rises to the target; passing the target is also done.
   */
  readonly target: number;
  /** How many looks without progress are tolerated. */
  readonly stallsMax: number;
}

export const WATCH_DECISIONS = [
  "all_processed",
  "progress_made",
  "retry_needed",
  "retries_exhausted",
] as const;
export type WatchDecision = (typeof WATCH_DECISIONS)[number];

export function decideWatch(look: WatchLook): WatchDecision {
  const { current, previous, stalls, target, stallsMax } = look;
  const falls = target === 0;
  if (falls ? current <= 0 : current >= target) return "all_processed";
  if (previous === null || (falls ? current < previous : current > previous)) {
    return "progress_made";
  }
  return stalls < stallsMax ? "retry_needed" : "retries_exhausted";
}

/** The state for the next look. */
export function nextWatchState(look: WatchLook, decision: WatchDecision): WatchState {
  const stalls = decision === "retry_needed" ? look.stalls + 1 : 0;
  return { previous: look.current, stalls };
}

export interface WatchDelays {
  /** Rising limits: with fewer items left than `below`, the next look comes after `delayMs`. */
  readonly steps: readonly { readonly below: number; readonly delayMs: number }[];
  /** For as many items left as the last limit, or more. */
  readonly elseMs: number;
  /** After a look without progress. */
  readonly stallMs: number;
}

/** The more items are left, the later the next look: one to five times the shortest delay. */
export function makeWatchDelays(shortestMs: number, stallMs: number): WatchDelays {
  const limits = [500, 1_000, 2_000, 5_000];
  return {
    steps: limits.map((below, at) => ({ below, delayMs: shortestMs * (at + 1) })),
    elseMs: shortestMs * (limits.length + 1),
    stallMs,
  };
}

export const DEFAULT_WATCH_DELAYS = makeWatchDelays(60_000, 120_000);

/** When to look again; `left` is the distance of the count from its target. */
export function computeWatchDelayMs(
  left: number,
  decision: WatchDecision,
  delays: WatchDelays,
): number {
  if (decision === "retry_needed") return delays.stallMs;
  return delays.steps.find(({ below }) => left < below)?.delayMs ?? delays.elseMs;
}

/** What distinguishes a stall from an intended wait, after a look without progress. */
export interface StallFacts {
  readonly hasDueWork: boolean;
  readonly hasLiveLease: boolean;
  readonly isPaused: boolean;
  /** At least one living worker has the batch's pipeline. */
  readonly hasWorker: boolean;
  /** Workers are running other batches of the pipeline: this one may be waiting for a free slot. */
  readonly areWorkersBusy: boolean;
  /** One of its caps is reached: it waits for other items to finish. */
  readonly isAtLimit: boolean;
}

export function countsAsStall(facts: StallFacts): boolean {
  if (facts.areWorkersBusy || facts.isAtLimit) return false;
  return facts.hasDueWork && !facts.hasLiveLease && !facts.isPaused && facts.hasWorker;
}

export function isWithoutProgress(decision: WatchDecision): boolean {
  return decision === "retry_needed" || decision === "retries_exhausted";
}

/**
 * The state for the next look. A look without progress that is not a stall does not count. While a
 * worker is working, the count of stalls starts again.
 */
export function noteLook(look: WatchLook, decision: WatchDecision, facts: StallFacts): WatchState {
  if (facts.hasLiveLease) return FIRST_LOOK;
  if (isWithoutProgress(decision) && !countsAsStall(facts)) {
    return { previous: look.current, stalls: look.stalls };
  }
  return nextWatchState(look, decision);
}
