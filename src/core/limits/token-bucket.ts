/**
 * A rate, shared by all workers that draw from its bucket: `burst` tokens at once, and `perSecond`
 * more each second. Tokens are granted in small portions, each with a date from which it may be
 * used, and valid for a short time only. So the store is not asked for every start, and a worker
 * that dies loses few tokens.
 *
 * The promise (in any window of length d at most burst + rate x d starts) holds because a token
 * counts as used at the last moment at which it may be: `paidUntil` is the theoretical arrival time
 * of the generic cell rate algorithm, advanced from there. For tokens i before j this gives date(j)
 * >= lastUse(i) + (j - i) / rate - (burst - 1) / rate, whenever each was really used.
 */
import type { Unnamed } from "../base/unnamed.ts";

export type Rate = Unnamed<{
  readonly perSecond: number;
  readonly burst: number;
}>;

export interface TokenAsk {
  /** Tokens that one start takes. */
  readonly cost: number;
  /** How many starts the caller wants. */
  readonly count: number;
  /** How long an answer may take to arrive: tokens must be valid for longer than that. */
  readonly slackMs: number;
}

export interface TokenPortion {
  /** Starts that are allowed now: a high rate has thousands. */
  readonly atOnce: number;
  /** When each of the others may, in milliseconds from now; rising. */
  readonly inMs: readonly number[];
  /** How long a token may be used from its date on; after that it is lost. */
  readonly usableMs: number;
  /** When to ask again, if fewer than asked for were granted; else 0. */
  readonly nextInMs: number;
}

/** Tokens with a later date are not granted yet: another worker may ask for them in time. */
export const HORIZON_MS = 200;
/**
 * Starts in one portion: as many as the quickest worker starts in the time for which it asks ahead.
 */
export const PORTION_MAX = 250_000;
/** How long a token is valid at most, unless answers take longer than that. */
const USABLE_MS_MAX = 250;
/** The share of the time between two tokens that may be lost by waiting for their use. */
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

/** Long enough to be used, and short enough to cost little of the rate. */
function computeUsableMs(startMs: number, aheadMs: number, slackMs: number): number {
  const wanted = Math.min(USABLE_MS_MAX, Math.max(aheadMs / 2, startMs * USABLE_SHARE));
  return Math.max(wanted, Math.min(slackMs, SLACK_MS_MAX));
}

/** A bucket is full when no token was drawn for long enough: it need not be remembered. */
export function isBucketFull(paidUntil: number | null, nowMs: number): boolean {
  return paidUntil === null || paidUntil <= nowMs;
}
