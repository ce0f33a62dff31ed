/**
 * Finds the best number of concurrent handler calls while working: one more after each round in
 * which calls take no longer than at their best, fewer when they take longer, and much fewer as
 * soon as the called system throttles.
 */

export interface ConcurrencyBounds {
  readonly min: number;
  readonly max: number;
}

export interface ConcurrencyState {
  readonly slots: number;
  /** The duration of a call with no load; 0 while unknown. */
  readonly bestMs: number;
  /** Rounds since that was last measured. */
  readonly rounds: number;
}

/** What was observed since the last decision. */
export interface ConcurrencyRound {
  readonly calls: number;
  readonly totalMs: number;
  /** The called system throttled, or did not answer in time. */
  readonly isThrottled: boolean;
  /** All slots were in use at some time: otherwise more of them would tell nothing. */
  readonly isFull: boolean;
}

/** Calls up to this many times as long as the best are as good. */
const GOOD_FACTOR = 1.25;
/** Above this factor there are too many calls. */
const BAD_FACTOR = 1.6;
const GROWTH = 1.1;
const SHRINK_FACTOR = 0.9;
const FLIGHT = 0.7;
/**
 * After this many rounds the best duration is measured again, with half as many slots: an old best
 * may never return, and today's calls may be slow because of our own load.
 */
const ROUNDS_UNTIL_PROBE = 50;

/** Calls in a round: about two for each slot. */
export function countRoundCalls({ slots }: ConcurrencyState): number {
  return Math.max(10, 2 * slots);
}

export function startConcurrency({ min, max }: ConcurrencyBounds): ConcurrencyState {
  return { slots: Math.min(max, Math.max(min, 4)), bestMs: 0, rounds: 0 };
}

export function decideConcurrency(
  state: ConcurrencyState,
  round: ConcurrencyRound,
  bounds: ConcurrencyBounds,
): ConcurrencyState {
  const { slots, bestMs, rounds } = state;
  const clamp = (wanted: number): number => Math.min(bounds.max, Math.max(bounds.min, wanted));
  if (round.isThrottled) return { slots: clamp(Math.floor(slots * FLIGHT)), bestMs, rounds };
  if (round.calls === 0) return state;
  if (rounds >= ROUNDS_UNTIL_PROBE) {
    return { slots: clamp(Math.floor(slots / 2)), bestMs: 0, rounds: 0 };
  }
  const meanMs = round.totalMs / round.calls;
  const best = bestMs === 0 ? meanMs : Math.min(bestMs, meanMs);
  const next = { bestMs: best, rounds: rounds + 1 };
  if (meanMs > best * BAD_FACTOR)
    return { slots: clamp(Math.floor(slots * SHRINK_FACTOR)), ...next };
  const grows = round.isFull && meanMs <= best * GOOD_FACTOR;
  return { slots: grows ? clamp(Math.ceil(slots * GROWTH)) : slots, ...next };
}
