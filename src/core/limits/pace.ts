/**
 * The pace of a batch: at most `items` starts in any time of `everyMs`, in bursts (as many as
 * possible at once) or smoothly (spread over the time). Starts are reserved in portions before they
 * happen. A start that a crash leaves unused, or repeats, still counts.
 */
import { drawTokens, SLACK_MS_MAX, type TokenAsk, type TokenPortion } from "./token-bucket.ts";

export interface Pace {
  readonly items: number;
  readonly everyMs: number;
  readonly smooth: boolean;
}

/** Granted starts: the times at which the first and the last of them expire. */
export interface PacePortion {
  readonly count: number;
  readonly from: number;
  readonly until: number;
}

export interface PaceState {
  /** For a pace in bursts: the portions that still count, oldest first. */
  readonly portions: readonly PacePortion[];
  /** For a smooth pace: see token-bucket.ts. */
  readonly paidUntil: number | null;
}

export const NEW_PACE: PaceState = { portions: [], paidUntil: null };

/** How long a reserved start is valid at most; also limited to a part of the pace's time. */
const USABLE_MS_MAX = 250;
const USABLE_SHARE = 1 / 8;
/** Portions of nearly the same time are merged. */
const PORTIONS_MAX = 32;

export function drawPace(
  state: PaceState,
  pace: Pace,
  ask: TokenAsk,
  nowMs: number,
): TokenPortion & { readonly state: PaceState } {
  return pace.smooth
    ? drawSmoothly(state, pace, ask, nowMs)
    : drawInBursts(state, pace, ask, nowMs);
}

/** One after the other: with a burst of one, two starts are at least one token's time apart. */
function drawSmoothly(
  { paidUntil }: PaceState,
  { items, everyMs }: Pace,
  ask: TokenAsk,
  nowMs: number,
): TokenPortion & { readonly state: PaceState } {
  const rate = { perSecond: (items * 1_000) / everyMs, burst: 1 };
  const { paidUntil: paid, ...portion } = drawTokens(paidUntil, rate, { ...ask, cost: 1 }, nowMs);
  return { ...portion, state: { portions: [], paidUntil: paid } };
}

function drawInBursts(
  { portions }: PaceState,
  { items, everyMs }: Pace,
  { count, slackMs }: TokenAsk,
  nowMs: number,
): TokenPortion & { readonly state: PaceState } {
  const usableMs = Math.max(
    Math.min(USABLE_MS_MAX, everyMs * USABLE_SHARE),
    Math.min(slackMs, SLACK_MS_MAX),
  );
  // A start may have been used at its last valid moment, and counts for the whole time from then
  // on.
  const counting = portions.filter(({ until }) => until + everyMs > nowMs);
  const reserved = counting.reduce((sum, portion) => sum + portion.count, 0);
  const granted = Math.max(0, Math.min(count, items - reserved));
  const oldest = counting[0]?.until ?? nowMs + usableMs;
  return {
    atOnce: granted,
    inMs: [],
    usableMs,
    nextInMs: granted < count ? oldest + everyMs - nowMs : 0,
    state: {
      portions: addPortion(counting, granted, nowMs + usableMs, everyMs),
      paidUntil: null,
    },
  };
}

function addPortion(
  portions: readonly PacePortion[],
  count: number,
  until: number,
  everyMs: number,
): PacePortion[] {
  if (count === 0) return [...portions];
  const last = portions.at(-1);
  // Merged portions count with the later time: a start is never forgotten too early.
  if (last !== undefined && until - last.from < everyMs / PORTIONS_MAX) {
    const both = { count: last.count + count, from: last.from, until: Math.max(until, last.until) };
    return [...portions.slice(0, -1), both];
  }
  return [...portions, { count, from: until, until }];
}

/** Until when the state must be remembered. */
export function findPaceEnd({ portions, paidUntil }: PaceState, { everyMs }: Pace): number {
  const last = portions.at(-1);
  return Math.max(paidUntil ?? 0, last === undefined ? 0 : last.until + everyMs);
}
