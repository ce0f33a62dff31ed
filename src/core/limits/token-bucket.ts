/**
 * A rate, shared by everybody who draws from its bucket: `burst` tokens at once, and `perSecond`
 * more each second. Tokens are handed out in small portions, each with the date from which it may
 * be used and for a short time only, so that a store is not asked for every start and a holder that
 * dies takes little with it.
 *
 * What makes the promise hold (in any window of length d at most burst + rate x d starts) is that a
 * token counts as used at the last moment at which it may be: `paidUntil` is the theoretical arrival
 * time of the generic cell rate algorithm, moved on from there. For tokens i before j this gives
 * date(j) >= lastUse(i) + (j - i) / rate - (burst - 1) / rate, whatever each was really used.
 */
import type { Unnamed } from "../base/unnamed.ts";

export type Rate = Unnamed<{
  readonly perSecond: number;
  readonly burst: number;
}>;

export interface TokenAsk {
  /** Tokens that one start takes. */
  readonly cost: number;
  /** Starts that are wished for. */
  readonly count: number;
  /** How long an answer may be on its way: what could not be used in time must last longer. */
  readonly slackMs: number;
}

export interface TokenPortion {
  /** Starts that may take place from now on: of a high rate there are thousands. */
  readonly atOnce: number;
  /** When each of the others may, in milliseconds from now; rising. */
  readonly inMs: readonly number[];
  /** For this long from its date on a token may be used; after that it is lost. */
  readonly usableMs: number;
  /** When it is worth asking again, if fewer than asked for were granted; else 0. */
  readonly nextInMs: number;
}

/** Tokens of later than this are left to whoever asks then. */
export const HORIZON_MS = 200;
/** Starts in one portion: what the quickest of workers starts in the time that it asks ahead for. */
export const PORTION_MAX = 250_000;
/** The longest that a token is good for, unless answers take longer than that. */
const USABLE_MS_MAX = 250;
/** How much of the time between two tokens may be spent on waiting for their use. */
const USABLE_SHARE = 0.04;
export const SLACK_MS_MAX = 10_000;

/** `paidUntil` is null for a bucket that is full. Times are the store's monotonic milliseconds. */
export function drawTokens(
  paidUntil: number | null,
  rate: Rate,
  ask: TokenAsk,
  nowMs: number,
): TokenPortion & { readonly paidUntil: number } {
  const tokenMs = 1_000 / rate.perSecond;
  const startMs = ask.cost * tokenMs;
  const aheadMs = (rate.burst - ask.cost) * tokenMs;
  const usableMs = computeUsableMs(startMs, aheadMs, ask.slackMs);
  const countMax = Math.min(ask.count, PORTION_MAX);
  let paid = paidUntil ?? 0;
  let atOnce = 0;
  if (countMax > 0 && paid - aheadMs <= nowMs) {
    const first = Math.max(paid, nowMs + usableMs);
    const others = Math.max(0, Math.floor((nowMs + aheadMs - first) / startMs));
    atOnce = Math.min(countMax, 1 + others);
    paid = first + atOnce * startMs;
  }
  const inMs: number[] = [];
  while (atOnce + inMs.length < countMax) {
    const date = Math.max(nowMs, paid - aheadMs);
    if (date - nowMs > HORIZON_MS) break;
    inMs.push(date - nowMs);
    paid = Math.max(paid, date + usableMs) + startMs;
  }
  const isShort = atOnce + inMs.length < ask.count;
  const nextInMs = isShort ? Math.max(0, paid - aheadMs - nowMs) : 0;
  return { atOnce, inMs, usableMs, nextInMs, paidUntil: paid };
}

/** Long enough to be used, and short enough not to cost the rate much. */
function computeUsableMs(startMs: number, aheadMs: number, slackMs: number): number {
  const wanted = Math.min(USABLE_MS_MAX, Math.max(aheadMs / 2, startMs * USABLE_SHARE));
  return Math.max(wanted, Math.min(slackMs, SLACK_MS_MAX));
}

/** A bucket that nobody has drawn from for long enough is full: it need not be remembered. */
export function isBucketFull(paidUntil: number | null, nowMs: number): boolean {
  return paidUntil === null || paidUntil <= nowMs;
}
