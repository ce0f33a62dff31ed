/**
 * The life of a chunk.
 *
 *   planned -> leased -> settled
 *                |  ^
 *                v  |
 *              waiting        (given back, lost, redriven, or with items that wait for a try)
 *
 * Until it is settled it may be cancelled. A redrive makes a settled or cancelled one wait again.
 * Every lease raises the fence, so a holder that lost its lease can change nothing.
 */

export const CHUNK_STATES = ["planned", "leased", "waiting", "settled", "cancelled"] as const;
export type ChunkState = (typeof CHUNK_STATES)[number];

/** `keep` the lease after a flush of partial outcomes, or `yield` it. */
export const REPORT_INTENTS = ["keep", "yield"] as const;
export type ReportIntent = (typeof REPORT_INTENTS)[number];

/**
 * What a report does to its chunk. Without a pending item the chunk is settled, whatever the
 * intent.
 */
export function decideAfterReport(
  pending: number,
  intent: ReportIntent,
): "settle" | "keep" | "yield" {
  if (pending === 0) return "settle";
  return intent;
}

/** The result of a report. `lost`: the fence refused it and nothing changed. */
export type ReportResult = "settled" | "kept" | "yielded" | "lost";

/** How running work ends: `drain` lets leased chunks finish, `now` aborts handlers. */
export const STOP_MODES = ["drain", "now"] as const;
export type StopMode = (typeof STOP_MODES)[number];
