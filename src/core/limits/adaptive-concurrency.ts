/**
 * How many handler calls at once, found out while working: one more after each round in which calls
 * took no longer than they do at their best, fewer when they take longer, and much fewer as soon as
 * whoever is called asks for less.
 */

export interface ConcurrencyBounds {
  readonly min: number;
  readonly max: number;
}

export interface ConcurrencyState {
  readonly slots: number;
  /** What a call takes when nothing is in its way; 0 while unknown. */
  readonly bestMs: number;
  /** Rounds since that was last found out. */
  readonly rounds: number;
}

/** What was seen since the last decision. */
export interface ConcurrencyRound {
  readonly calls: number;
  readonly totalMs: number;
  /** Somebody asked to be left alone, or did not answer in time. */
  readonly isThrottled: boolean;
  /** All slots were in use at some time: otherwise more of them would tell nothing. */
  readonly isFull: boolean;
}

/** Calls that take up to this many times as long as at best are as good. */
const GOOD_FACTOR = 1.25;
/** From here on there are too many of them. */
const BAD_FACTOR = 1.6;
const GROWTH = 1.1;
const RETREAT = 0.9;
const FLIGHT = 0.7;
/**
 * After so many rounds it is found out anew what a call takes at best, with half as many at once:
 * what was quick once may never be again, and what is slow now may be so by our own doing.
 */
const ROUNDS_UNTIL_PROBE = 50;

/** A round has so many calls that each slot has had about two. */
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
  if (meanMs > best * BAD_FACTOR) return { slots: clamp(Math.floor(slots * RETREAT)), ...next };
  const grows = round.isFull && meanMs <= best * GOOD_FACTOR;
  return { slots: grows ? clamp(Math.ceil(slots * GROWTH)) : slots, ...next };
}
