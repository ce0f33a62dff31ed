/**
 * Where the right to start something is drawn from: a rate (one bucket for each key), a pace (one
 * for each batch), or neither, where a key is only ever closed for a while. One decision serves all
 * of them: what may start now, what soon, and when it is worth asking again.
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

/** A rate's buckets are named after it; what an operator sets is named as they are, without this. */
export const RATE_BUCKETS = "rate/";

/** The names by which an operator may have set another rate, the most exact first. */
export function listRateNames(bucket: string, key: string): string[] {
  if (!bucket.startsWith(RATE_BUCKETS)) return [];
  const name = bucket.slice(RATE_BUCKETS.length);
  return key === "" ? [name] : [`${name}/${key}`, name];
}

/** The rate that counts; one start fits into its burst, whoever set it. */
export function overrideRate(spec: BucketSpec, rate: Rate | null, cost: number): BucketSpec {
  if (rate === null) return spec;
  return { kind: "rate", perSecond: rate.perSecond, burst: Math.max(rate.burst, cost) };
}

/** Times are the store's monotonic milliseconds, which begin anew with its host. */
export interface BucketState extends PaceState {
  /** Nothing starts before; 0 when nobody closed it. */
  readonly closedUntil: number;
  /** How often in a row it was closed since something last came of it; see `countOutage`. */
  readonly outages: number;
  /** How many items had ended at the last of these. */
  readonly outageMark: number;
}

export const NEW_BUCKET: BucketState = { ...NEW_PACE, closedUntil: 0, outages: 0, outageMark: 0 };

/**
 * What starts by this bucket goes out through something that is away: nothing more starts for a
 * while. Those that find out at the same time are one outage; a row of them ends with the first item
 * that has.
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

/** What keeps starts from being granted. */
export const WAIT_REASONS = ["rate", "pace", "quiet", "closed"] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

export interface TokenGrant extends TokenPortion {
  /** Whoever asked may start as many as it likes for `usableMs` from now. */
  readonly open: boolean;
  /** Why fewer were granted than asked for; null when none is missing. */
  readonly waitReason: WaitReason | null;
}

export interface BucketTime {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

const NO_STARTS = { atOnce: 0, inMs: [] } as const;
/** For this long a bucket without a rate is known to be open. */
const OPEN_MS = 1_000;
/** What has no end is looked at again after this long. */
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

/** The longest that a token of a pace is good for, from its date on: none is to be used when it is quiet. */
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

/** From then on a bucket is as good as new, and need not be remembered. */
export function findBucketEnd(state: BucketState, spec: BucketSpec): number {
  const spent = spec.kind === "pace" ? findPaceEnd(state, spec) : (state.paidUntil ?? 0);
  return Math.max(spent, findClosingEnd(state));
}

/** A row of outages is remembered longer than the last of them lasts. */
export function findClosingEnd({ closedUntil, outages }: BucketState): number {
  return outages === 0 ? closedUntil : closedUntil + OUTAGE_MEMORY_MS;
}

const OUTAGE_MEMORY_MS = 86_400_000;
