/** Reads the rows of waiting chunks and lanes as facts. */
import type { WaitReason } from "../../core/limits/bucket.ts";
import type { ChunkState } from "../../core/batch/chunk.ts";
import type { ChunkFacts, RestFacts } from "../../core/batch/why.ts";
import type { BatchRow } from "./rows.ts";

export interface RestRow {
  readonly rest_hold_up: WaitReason | null;
  readonly rest_key: string | null;
}

export interface WaitingChunkRow extends RestRow {
  readonly chunk: number;
  readonly state: ChunkState;
  readonly worker: number;
  /** Meaningless for a chunk that does not wait. */
  readonly due_at: number | null;
}

/** What the step of a batch has to lease. */
export interface DueRow {
  /** Chunks that were never leased. */
  readonly fresh: number;
  readonly due: number | null;
}

export function readRest(row: RestRow | undefined): RestFacts | null {
  if (row === undefined || row.rest_hold_up === null) return null;
  return { waitReason: row.rest_hold_up, key: row.rest_key };
}

export function computeNextDue({ fresh, due }: DueRow, now: number): number | null {
  if (fresh === 1) return 0;
  return due === null ? null : Math.max(0, due - now);
}

export function toChunkFacts(row: WaitingChunkRow, batch: BatchRow, now: number): ChunkFacts {
  const { chunk, state, worker } = row;
  const canary = batch.canary_chunks ?? Number.POSITIVE_INFINITY;
  return {
    chunk,
    state,
    worker: state === "leased" ? `${worker}` : null,
    dueInMs: state === "waiting" ? Math.max(0, (row.due_at ?? 0) - now) : 0,
    rest: state === "waiting" ? readRest(row) : null,
    behindCanary: state === "planned" && chunk >= canary,
  };
}
