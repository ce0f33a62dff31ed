/** Everything the reference model remembers: plain values, so that a test can look at all of it. */
import type { BatchState, EndReason } from "../../core/batch.ts";
import type { ChainHead } from "../../core/chain.ts";
import type { ChunkState } from "../../core/chunk.ts";
import type { Counts } from "../../core/counts.ts";
import type { OutcomeMap } from "../../core/outcome-map.ts";
import type { TrackedItem } from "../../core/report.ts";
import type { BatchSnapshot, Submission } from "../../ports/conducting.ts";
import type { UndeliveredLetter } from "../../ports/delivering.ts";
import type { StoredRecord, StoredResult } from "../../ports/reading.ts";

export interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly locator: string | null;
  readonly manifest: Uint8Array | null;
  /** The plan part that brought it. */
  readonly part: string;
  state: ChunkState;
  fence: number;
  leaseUntil: number;
  dueAt: number;
  careful: boolean;
  outcomes: OutcomeMap;
  readonly tracked: Map<number, TrackedItem>;
  /** When each dead letter died, by position. */
  readonly failedAt: Map<number, number>;
}

export interface Batch {
  readonly submission: Submission;
  readonly submittedAt: number;
  readonly sealDeadlineAt: number | null;
  state: BatchState;
  sealed: boolean;
  startedAt: number | null;
  endedAt: number | null;
  reason: EndReason | null;
  sliceCursor: string | null;
  sliceFence: number;
  counts: Counts;
  chunks: Chunk[];
  readonly keys: Map<string, number>;
  readonly results: Map<number, StoredResult>;
  head: ChainHead;
}

export interface State {
  /** In order of submission. */
  readonly batches: Map<string, Batch>;
  readonly records: StoredRecord[];
  readonly positions: Map<string, number>;
  /** By id. */
  readonly letters: UndeliveredLetter[];
  /** How many letters there ever were. */
  lettersKept: number;
  readonly claims: Map<string, { readonly worker: number; readonly until: number }>;
  workers: number;
}

export function createState(): State {
  return {
    batches: new Map(),
    records: [],
    positions: new Map(),
    letters: [],
    lettersKept: 0,
    claims: new Map(),
    workers: 0,
  };
}

export function takeSnapshot(batch: Batch): BatchSnapshot {
  const { id, pipeline, version, lane, key, input, open, settings } = batch.submission;
  return {
    id,
    pipeline,
    version,
    lane,
    key,
    input,
    open,
    settings,
    state: batch.state,
    sealed: batch.sealed,
    counts: batch.counts,
    chunks: batch.chunks.length,
    sliceCursor: batch.sliceCursor,
    sliceFence: batch.sliceFence,
    reason: batch.reason,
    submittedAt: batch.submittedAt,
    startedAt: batch.startedAt,
    endedAt: batch.endedAt,
  };
}
