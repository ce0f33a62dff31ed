/**
 * A bucket grants the right to start something: a rate (one bucket for each key), a pace (one for
 * each batch), or neither, where a key can only be closed for a while. One decision serves all:
 * what may start now, what soon, and when to ask again.
 */
import { unreachable } from "../base/invariant.ts";
import { drawPace, findPaceEnd, NEW_PACE, type Pace, type PaceState } from "./pace.ts";
import { computeQuietMs, type QuietRange } from "./quiet-hours.ts";
import {
  drawTokens,
  HORIZON_MS,
  type Rate,
  SLACK_MS_MAX,
  type TokenAsk,
  type TokenPortion,
} from "./token-bucket.ts";

export type BucketSpec =
  | { readonly kind: "open" }
  | ({ readonly kind: "rate" } & Rate)
  | ({ readonly kind: "pace"; readonly quiet: readonly QuietRange[] } & Pace);

/** Prefix of a rate's buckets; operators set limits by the name without it. */
export const RATE_BUCKETS = "rate/";

/** The names under which an operator may have set another rate, the most exact first. */
export function listRateNames(bucket: string, key: string): string[] {
  if (!bucket.startsWith(RATE_BUCKETS)) return [];
  const name = bucket.slice(RATE_BUCKETS.length);
  return key === "" ? [name] : [`${name}/${key}`, name];
}

/**
 * The effective rate: an operator's rate or the declared one, with room for one start in its burst.
 */
export function overrideRate(spec: BucketSpec, rate: Rate | null, cost: number): BucketSpec {
  if (rate === null) return spec;
  return { kind: "rate", perSecond: rate.perSecond, burst: Math.max(rate.burst, cost) };
}

/** Times are the store's monotonic milliseconds, which start again when the host reboots. */
export interface BucketState extends PaceState {
  /** Nothing starts before this time; 0 for a bucket that is not closed. */
  readonly closedUntil: number;
  /** How often in a row it was closed without an item ending in between; see `countOutage`. */
  readonly outages: number;
  /** How many items had ended at the last outage. */
  readonly outageMark: number;
}

export const NEW_BUCKET: BucketState = { ...NEW_PACE, closedUntil: 0, outages: 0, outageMark: 0 };

/**
 * The system that this bucket's items are sent through is unavailable: nothing more starts for a
 * while. Calls that notice it at the same time count as one outage. The first item that ends resets
 * the count.
 */
export function countOutage(
  state: BucketState,
  ended: number,
  forMs: number,
  nowMs: number,
): BucketState {
  if (state.closedUntil > nowMs) return state;
  const outages = state.outages > 0 && state.outageMark === ended ? state.outages + 1 : 1;
  return { ...state, outages, outageMark: ended, closedUntil: nowMs + forMs };
}

/** Why starts are not granted. */
export const WAIT_REASONS = ["rate", "pace", "quiet", "closed"] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

export interface TokenGrant extends TokenPortion {
  /** Any number of starts is allowed for `usableMs` from now. */
  readonly open: boolean;
  /** Why fewer were granted than asked for; null when all were granted. */
  readonly waitReason: WaitReason | null;
}

export interface BucketTime {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

const NO_STARTS = { atOnce: 0, inMs: [] } as const;
/** For how long a bucket without a rate is known to be open. */
const OPEN_MS = 1_000;
/** A wait without an end is checked again after this time. */
const LOOK_AGAIN_MS = 3_600_000;

export function decideDraw(
  state: BucketState,
  spec: BucketSpec,
  ask: TokenAsk,
  time: BucketTime,
): { readonly state: BucketState; readonly grant: TokenGrant } {
  const { monotonicMs: now } = time;
  if (state.closedUntil > now) return refuse(state, "closed", state.closedUntil - now);
  switch (spec.kind) {
    case "open": {
      const usableMs = Math.max(OPEN_MS, Math.min(ask.slackMs, SLACK_MS_MAX));
      return {
        state,
        grant: { ...NO_STARTS, usableMs, nextInMs: 0, open: true, waitReason: null },
      };
    }
    case "rate": {
      const { paidUntil, ...portion } = drawTokens(state.paidUntil, spec, ask, now);
      return { state: { ...state, paidUntil }, grant: describeGrant(portion, "rate") };
    }
    case "pace": {
      const quietMs = computePauseMs(spec.quiet, time.wallMs, ask);
      if (quietMs > 0) return refuse(state, "quiet", quietMs);
      const { state: next, ...portion } = drawPace(state, spec, ask, now);
      return { state: { ...state, ...next }, grant: describeGrant(portion, "pace") };
    }
    default:
      return unreachable(spec);
  }
}

/** How long a token of a pace is valid at most, from its date: none may be used in quiet hours. */
const PACE_USABLE_MS = 250;

function computePauseMs(
  quiet: readonly QuietRange[],
  wallMs: number,
  { slackMs }: TokenAsk,
): number {
  if (quiet.length === 0) return 0;
  const now = computeQuietMs(quiet, wallMs);
  if (now !== 0) return now ?? LOOK_AGAIN_MS;
  const aheadMs = HORIZON_MS + Math.max(PACE_USABLE_MS, Math.min(slackMs, SLACK_MS_MAX));
  const soon = computeQuietMs(quiet, wallMs + aheadMs);
  return soon === 0 ? 0 : aheadMs + (soon ?? LOOK_AGAIN_MS);
}

function describeGrant(portion: TokenPortion, waitReason: WaitReason): TokenGrant {
  return { ...portion, open: false, waitReason: portion.nextInMs > 0 ? waitReason : null };
}

function refuse(
  state: BucketState,
  waitReason: WaitReason,
  nextInMs: number,
): { readonly state: BucketState; readonly grant: TokenGrant } {
  return { state, grant: { ...NO_STARTS, usableMs: 0, nextInMs, open: false, waitReason } };
}

/** From this time on a bucket is as good as new, and need not be remembered. */
export function findBucketEnd(state: BucketState, spec: BucketSpec): number {
  const spent = spec.kind === "pace" ? findPaceEnd(state, spec) : (state.paidUntil ?? 0);
  return Math.max(spent, findClosingEnd(state));
}

/** The count of consecutive outages is kept for longer than the last outage lasts. */
export function findClosingEnd({ closedUntil, outages }: BucketState): number {
  return outages === 0 ? closedUntil : closedUntil + OUTAGE_MEMORY_MS;
}

const OUTAGE_MEMORY_MS = 86_400_000;
