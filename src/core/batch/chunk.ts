/**
 * The life of a chunk.
 *
 *   planned -> leased -> settled
 *                |  ^
 *                v  |
 *              waiting        (given back, lost, redriven, or with items that wait for a try)
 *
 * Every lease raises the fence, so a holder that lost its lease can change nothing.
 */

export const CHUNK_STATES = ["planned", "leased", "waiting", "settled", "cancelled"] as const;
export type ChunkState = (typeof CHUNK_STATES)[number];

export const CHUNK_EVENTS = ["lease", "settle", "yield", "lose", "cancel", "redrive"] as const;
export type ChunkEvent = (typeof CHUNK_EVENTS)[number];

const EDGES: { readonly [S in ChunkState]: { readonly [E in ChunkEvent]?: ChunkState } } = {
  planned: { lease: "leased", cancel: "cancelled" },
  leased: { settle: "settled", yield: "waiting", lose: "waiting", cancel: "cancelled" },
  waiting: { lease: "leased", cancel: "cancelled", redrive: "waiting" },
  settled: { redrive: "waiting" },
  cancelled: { redrive: "waiting" },
};

export function nextChunkState(state: ChunkState, event: ChunkEvent): ChunkState | null {
  return EDGES[state][event] ?? null;
}

/** `keep` the lease after a flush of partial outcomes, or `yield` it. */
export const REPORT_INTENTS = ["keep", "yield"] as const;
export type ReportIntent = (typeof REPORT_INTENTS)[number];

/** What a report does to its chunk: without a pending item it is settled, whatever was intended. */
export function decideAfterReport(
  pending: number,
  intent: ReportIntent,
): "settle" | "keep" | "yield" {
  if (pending === 0) return "settle";
  return intent;
}

/** How a report ended: `lost` means that the fence refused it and nothing changed. */
export const REPORT_RESULTS = ["settled", "kept", "yielded", "lost"] as const;
export type ReportResult = (typeof REPORT_RESULTS)[number];

/** How work in hand ends: `drain` lets leased chunks finish, `now` tells handlers to stop. */
export const STOP_MODES = ["drain", "now"] as const;
export type StopMode = (typeof STOP_MODES)[number];
